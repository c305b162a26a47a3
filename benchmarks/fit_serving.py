"""Fit what engines take beyond operators, leave models out, and say how wide intervals must be.

Run: ``python -m benchmarks.fit_serving FOLDER``. FOLDER holds the tables that docs/scoreboard.md names; those that are
not there are passed over. Printed are the constants of `theory.hardware.engines`, fitted and committed, with
half-widths; errors in all and with each family of models left out; and the half-widths of `theory.hardware.half_widths`
that these errors ask for, with what they cover.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from benchmarks.fit_rounds import print_rounds
from specplan.check.scoreboard.board import read_folder
from specplan.check.scoreboard.doubts import doubts_of_loaded, served_doubt, twins
from specplan.check.scoreboard.driven import deployed, prompt_tokens
from specplan.check.scoreboard.rows import Driven, Loaded, Measured, Served, Speculated, Steady
from specplan.check.scoreboard.served import iteration_of, loop_of, model_of, rate_of, served_iteration, unexplained
from theory.errors import SpecplanError
from theory.hardware.engines import BLACKWELL, ENGINES
from theory.hardware.half_widths import ITERATION, TIME_PER_TOKEN, conformal, half_width, regime
from theory.hardware.loads import ClosedLoop, closed_loop
from theory.hardware.passes import PassModel
from theory.hardware.work import Work

__all__ = ["NAMES", "Times", "constants", "left_out", "times"]

Array = NDArray[np.float64]
Chosen = NDArray[np.bool_]
Does: TypeAlias = Work | ClosedLoop

NAMES: Final = ("norm_s", "expert_norm_s", "sequence_s", "ungraphed_s", "untuned", "untuned_small")
"""Constants of an engine in which times are linear, or nearly."""
_USUAL: Final = np.array([5e-6, 8e-6, 8e-6, 5e-3, 0.5, 0.5])
_SPREAD: Final = np.array([8e-6, 8e-6, 1.5e-5, 4e-3, 1.0, 1.0])
_WEIGHT: Final = 0.1
"""How strongly constants are drawn to the usual ones: a version may have few rows, or none that tells one of them. What
stands between dense operators is drawn to its usual share of what stands between those with experts."""
_STEP: Final = 1.5
"""Factor over the usual constants at which slopes are taken."""
_FAMILIES: Final = ("30B-A3B", "235B-A22B", "480B-A35B", "gemma-3", "Llama-3.1-405B", "gpt-oss", "Llama-3.1-8B")
"""Parts of names by which models are left out together: one shape under several names, or one design in sizes."""
KINDS: Final = ("served", "steady", "loaded", "speculated", "driven")


@dataclass(frozen=True, slots=True)
class Times:
    """Measured times and predicted ones: base + slopes . (constants of the engine)."""

    base: Array
    slopes: Array
    """Shape (rows, 6)."""
    measured: Array
    half_width: Array
    engine: NDArray[np.str_]
    """Name and version; the generation of the GPU where constants differ by it."""
    family: NDArray[np.str_]
    kind: NDArray[np.str_]
    """``iteration`` or ``time per token``."""
    group: NDArray[np.str_]
    """GPU and layers."""
    regime: NDArray[np.str_]
    """As `theory.hardware.half_widths.regime` names it."""
    usual: Chosen
    """Rows that constants are fitted to."""

    def errors(self, values: Array, chosen: Chosen) -> Array:
        """Log errors of the chosen rows."""
        times = self.base[chosen] + self.slopes[chosen] @ values
        return np.asarray(np.log(np.maximum(times, 0.05 * self.measured[chosen]) / self.measured[chosen]))

    def fitted(self, chosen: Chosen) -> Array:
        """The constants, from the chosen rows: robust least squares of log errors."""

        def residuals(x: Array) -> Array:
            drawn = x - np.array([x[1], *np.ones(len(x) - 1)])
            return np.concatenate([self.errors(_USUAL * x, chosen), _WEIGHT * _USUAL * drawn / _SPREAD])

        solution = least_squares(residuals, np.ones(len(_USUAL)), bounds=(0, 30), loss="soft_l1", f_scale=0.1)
        return np.asarray(_USUAL * solution.x)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    model: PassModel
    does: Does
    measured_s: float
    name: str
    said: bool
    """Whether the row says the engine's version."""
    fitted: bool
    """Whether the row is one that constants may be fitted to."""


def times(rows: Sequence[Measured]) -> Times:
    """Return the trusted rows of models that are modelled, each at seven sets of constants."""
    taken = list(_rows(rows))
    engines = np.array([_key(row.model) for row in taken])
    said = np.array([row.said for row in taken], dtype=bool)
    # rows that do not say their version are fitted to only where none says it
    usual = np.array([row.fitted for row in taken], dtype=bool) & (said | ~np.isin(engines, engines[said]))
    table = np.array([_linear(row) for row in taken]).reshape(-1, 1 + len(NAMES))
    loaded = [isinstance(row.does, ClosedLoop) for row in taken]
    kinds = [TIME_PER_TOKEN if one else ITERATION for one in loaded]
    return Times(
        base=table[:, 0],
        slopes=table[:, 1:],
        measured=np.array([row.measured_s for row in taken]),
        half_width=np.array([half_width(kind, row.model, _work(row)) for kind, row in zip(kinds, taken, strict=True)]),
        engine=engines,
        family=np.array([next((part for part in _FAMILIES if part in row.name), row.name) for row in taken]),
        kind=np.array(kinds),
        group=np.array([_group(row.model) for row in taken]),
        regime=np.array([regime(kind, row.model, _work(row)) for kind, row in zip(kinds, taken, strict=True)]),
        usual=usual,
    )


def _rows(rows: Sequence[Measured]) -> Iterator[_Row]:
    loaded = [row for row in rows if isinstance(row, Loaded)]
    passed_over = {**twins(loaded), **doubts_of_loaded(loaded, rate_of)}
    for row in rows:
        if row.where in passed_over:
            continue
        try:
            used = _row(row)
        except SpecplanError:
            continue
        if used is not None:
            yield used


def _row(row: Measured) -> _Row | None:
    """What a row measured; None of other rows, or of those that are not trusted."""
    if isinstance(row, Loaded):
        model, said = model_of(row), bool(row.backend_version)
        return _Row(
            model=model, does=loop_of(row), measured_s=1e-3 * row.tpot_ms, name=row.model_path, said=said, fitted=True
        )  # fmt: skip
    if isinstance(row, Served):
        facts, model, work = served_iteration(row)
        if served_doubt(row) is not None or unexplained(facts) is not None:
            return None
        # experts in fp8 and fp4 ran kernels of their own, and layers with states have a constant of their own: they are
        # predicted, none of their rows fitted to
        plain = not model.shape.has_experts or model.precision.expert_format.arithmetic == "bf16"
        plain = plain and not model.shape.has_states
        return _Row(
            model=model, does=work, measured_s=1e-3 * row.median_itl_ms, name=row.model_id, said=True, fitted=plain
        )  # fmt: skip
    if isinstance(row, Steady):
        model, work = iteration_of(row)
        return _Row(
            model=model, does=work, measured_s=1e-3 * row.iteration_ms, name=row.model, said=True, fitted=True
        )  # fmt: skip
    if isinstance(row, Driven) and not row.drafts:
        _, model = deployed(row)
        work = Work(sequences=row.concurrency, context=prompt_tokens(row) + row.answer_tokens / 2.0)
        return _Row(model=model, does=work, measured_s=1e-3 * row.itl_p50_ms, name=row.target, said=True, fitted=True)
    return None


def _work(row: _Row) -> Work | None:
    return row.does if isinstance(row.does, Work) else None


def _key(model: PassModel) -> str:
    engine = model.engine
    blackwell = engine.blackwell != 1.0 and model.gpu.name in BLACKWELL
    return f"{engine.name} {engine.version}{' Blackwell' if blackwell else ''}"


def _group(model: PassModel) -> str:
    kind = "dense"
    if model.shape.has_experts:
        kind = f"experts {model.precision.expert_format.arithmetic}"
    return f"{model.gpu.name.removeprefix('NVIDIA ').split()[0]} {kind}"


def _linear(row: _Row) -> tuple[float, ...]:
    """Seconds without the engine's constants, and what each adds per unit, about their usual values."""

    def seconds(values: Array) -> float:
        constants = dict(zip(NAMES, map(float, values), strict=True))
        model = replace(row.model, engine=replace(row.model.engine, blackwell=1.0, **constants))
        return closed_loop(model, row.does).per_token if isinstance(row.does, ClosedLoop) else model.seconds(row.does)

    at = seconds(_USUAL)
    slopes = [
        (seconds(np.where(np.arange(len(NAMES)) == i, _STEP, 1.0) * _USUAL) - at) / ((_STEP - 1.0) * _USUAL[i])
        for i in range(len(NAMES))
    ]
    return at - float(np.dot(slopes, _USUAL)), *slopes


def constants(table: Times) -> dict[str, Array]:
    """Return the fitted constants by engine."""
    return {str(one): table.fitted((table.engine == one) & table.usual) for one in np.unique(table.engine)}


def spread(table: Times, engine: str) -> Array | None:
    """Return 95 % half-widths of an engine's constants by the jackknife over families; None of a single family."""
    here = (table.engine == engine) & table.usual
    families = np.unique(table.family[here])
    if len(families) < 2:
        return None
    values = np.array([table.fitted(here & (table.family != family)) for family in families])
    return np.asarray(1.96 * np.sqrt((len(families) - 1) * values.var(axis=0)))


def left_out(table: Times, by: NDArray[np.str_] | None = None) -> Array:
    """Log errors of each group of rows with constants from the others.

    They are those of its engine's version, or, where no other group was measured with it, of its engine.

    Parameters
    ----------
    table : the rows.
    by : group of each row, shape (rows,); None: the family of its model.
    """
    groups = table.family if by is None else by
    errors = np.full(len(table.base), np.nan)
    for engine in np.unique(table.engine):
        for group in np.unique(groups[table.engine == engine]):
            here = (table.engine == engine) & (groups == group)
            known = (table.engine == engine) & (groups != group) & table.usual
            if not known.any():
                same = np.char.startswith(table.engine, engine.partition(" ")[0])
                known = same & (groups != group) & table.usual
            errors[here] = table.errors(table.fitted(known), here)
    return errors


def print_times(table: Times) -> None:
    """Print constants by engine, errors in all and left out, and the half-widths that these ask for."""
    print("constants".ljust(24) + "  ".join(f"{name:>13}" for name in NAMES))
    errors = np.full(len(table.base), np.nan)
    for engine, values in constants(table).items():
        here = table.engine == engine
        errors[here] = table.errors(values, here)
        print(f"{engine:<22}  " + "  ".join(f"{value:13.3g}" for value in values))
        committed = ENGINES[tuple(engine.split()[:2])]  # type: ignore[index]  # a name and a version
        share = committed.blackwell if engine.endswith("Blackwell") else 1.0
        shown = (getattr(committed, name) * (share if "norm" in name else 1.0) for name in NAMES)
        print(f"{'  committed':<22}  " + "  ".join(f"{value:13.3g}" for value in shown))
        widths = spread(table, engine)
        known = "one family" if widths is None else "  ".join(f"{width:13.2g}" for width in widths)
        print(f"{'  half-width':<22}  {known}")
    gpus, engines = (np.array([name.split()[0] for name in names]) for names in (table.group, table.engine))
    out, other_gpus = left_out(table), left_out(table, gpus)
    print(f"\n{'':<40}     n   fitted to all     families left out  GPUs left out           half-width  covers")
    for kind in np.unique(table.kind):
        for names in (gpus, table.group, table.regime, engines):
            for name in np.unique(names[table.kind == kind]):
                here = (table.kind == kind) & (names == name)
                print(f"{kind + ', ' + name:<40} {_errors((errors, out, other_gpus), table, here)}")


def _errors(of: tuple[Array, Array, Array], table: Times, here: Chosen) -> str:
    """Errors fitted to all, with families and with GPUs left out; the half-width that those of families ask for."""
    relative = [np.expm1(logs[here]) for logs in of]
    shown = "   ".join(f"{np.abs(one).mean():6.1%} ({one.mean():+6.1%})" for one in relative)
    out = np.abs(of[1][here])
    needed, covered = conformal(out.tolist(), table.family[here].tolist()), np.mean(out <= table.half_width[here])
    return f"{here.sum():>5}   {shown}   {np.median(table.half_width[here]):.2f} (asks {needed:.2f})  {covered:4.0%}"


def main() -> None:
    """Read the tables, fit, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    rows = read_folder(parser.parse_args().folder, KINDS).rows
    table = times(rows)
    if len(table.base):
        print_times(table)
    print_rounds(
        [row for row in rows if isinstance(row, Speculated)],
        [row for row in rows if isinstance(row, Driven)],
    )


if __name__ == "__main__":
    main()
