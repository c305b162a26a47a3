"""Fit what engines take beyond operators, and what rounds of speculation take beyond passes, and leave parts out.

Run: ``python -m benchmarks.fit_serving FOLDER``. FOLDER holds the tables that docs/scoreboard.md names. Printed are the
constants of `theory.hardware.engines` (two per version) and of `theory.hardware.rounds`, beside the committed ones, and
the errors on models, engine versions and targets that were left out of the fit.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from specplan.check.scoreboard.doubts import doubts_of_loaded, doubts_of_speculated, twins
from specplan.check.scoreboard.loaded import loop_of, model_of, rate_of
from specplan.check.scoreboard.rows import Loaded, Speculated
from specplan.check.scoreboard.speculated import CONTEXT, besides, deployed
from specplan.check.scoreboard.tables import read_folder
from theory.errors import SpecplanError
from theory.hardware.engines import EngineConstants
from theory.hardware.loads import closed_loop
from theory.hardware.work import Work

Array = NDArray[np.float64]

_STEPS: Final = (5e-6, 1.5e-5, 2e-5)
"""Seconds per normalisation (two) and per sequence at which times are computed; they are linear in both."""
_USUAL, _SPREAD, _WEIGHT = np.array([8e-6, 5e-6]), np.array([8e-6, 1.5e-5]), 0.1
"""Where constants are drawn to, weakly: a version may have few rows."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Rows under load: time per token = base + norm * seconds per normalisation + sequence * seconds per sequence."""

    base: Array
    norm: Array
    sequence: Array
    measured: Array
    engine: NDArray[np.str_]
    model: NDArray[np.str_]
    version: NDArray[np.str_]
    gpu: NDArray[np.str_]

    def errors(self, constants: Array, chosen: NDArray[np.bool_]) -> Array:
        """Log errors of the chosen rows."""
        times = self.base + self.norm * constants[0] + self.sequence * constants[1]
        return np.asarray(np.log(np.maximum(times, 0.05 * self.measured) / self.measured)[chosen])

    def fitted(self, chosen: NDArray[np.bool_]) -> Array:
        """Seconds per normalisation and per sequence."""

        def residuals(x: Array) -> Array:
            return np.concatenate([self.errors(1e-5 * x, chosen), _WEIGHT * (1e-5 * x - _USUAL) / _SPREAD])

        found = least_squares(residuals, 1e5 * _USUAL, bounds=([0, 0], [20, 10]), loss="soft_l1", f_scale=0.1)
        return np.asarray(1e-5 * found.x).round(8)


def loads(rows: Sequence[Loaded]) -> Loads:
    """The trusted rows, with their times at three pairs of constants."""
    left_out = {**twins(rows), **doubts_of_loaded(rows, rate_of)}
    columns: list[tuple[float, float, float, float]] = []
    labels: list[tuple[str, str, str, str]] = []
    for row in rows:
        try:
            model, loop = model_of(row), loop_of(row)
        except SpecplanError:
            continue
        if row.where in left_out:
            continue
        low, high, more = (
            closed_loop(replace(model, engine=_engine(norm, sequence)), loop).per_token
            for norm, sequence in ((_STEPS[0], 0.0), (_STEPS[1], 0.0), (_STEPS[0], _STEPS[2]))
        )
        slope = (high - low) / (_STEPS[1] - _STEPS[0])
        columns.append((low - slope * _STEPS[0], slope, (more - low) / _STEPS[2], 1e-3 * row.tpot_ms))
        engine = model.engine
        version = f"{row.backend} {row.backend_version}"
        labels.append((f"{engine.name} {engine.version}", row.model_path, version, model.gpu.name))
    numbers, names = np.array(columns).T, np.array(labels).T
    return Loads(*numbers, *names)


def _engine(norm: float, sequence: float) -> EngineConstants:
    return EngineConstants(name="any", version="0", norm_s=norm, sequence_s=sequence)


def left_out(table: Loads, groups: NDArray[np.str_]) -> Array:
    """Log errors of each group with constants from the others: of its engine version, or else of its engine."""
    errors = np.full(len(groups), np.nan)
    for group in np.unique(groups):
        for engine in np.unique(table.engine[groups == group]):
            here = (groups == group) & (table.engine == engine)
            known = (table.engine == engine) & (groups != group)
            if not known.any():
                same = np.char.startswith(table.engine, engine.partition(" ")[0])
                known = same & (groups != group)
            errors[here] = table.errors(table.fitted(known), here)
    return errors


def print_loads(table: Loads) -> None:
    """Print constants by engine version, and errors in all and left out."""
    errors = np.full(len(table.base), np.nan)
    print("engine            rows  s/norm  s/sequence  mean |error|")
    for engine in np.unique(table.engine):
        chosen = table.engine == engine
        constants = table.fitted(chosen)
        errors[chosen] = table.errors(constants, chosen)
        mean = np.abs(np.expm1(errors[chosen])).mean()
        print(f"{engine:<16}  {chosen.sum():>4}  {constants[0]:.1e}     {constants[1]:.1e}          {mean:.1%}")
    for name, found in (
        ("fitted to all", errors),
        ("models left out", left_out(table, table.model)),
        ("versions left out", left_out(table, table.version)),
    ):
        absolute = np.abs(np.expm1(found))
        by_gpu = ", ".join(f"{gpu} {absolute[table.gpu == gpu].mean():.1%}" for gpu in np.unique(table.gpu))
        bound = np.quantile(np.abs(found), 0.95)
        print(f"{name}: {absolute.mean():.1%} ({by_gpu}), 95 % of log errors within {bound:.2f}")


_EXPONENTS: Final = (1.0, 0.8, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45)
_ROUND: Final = np.array([1e-3, 1e-4, 1e-3, 3e-2])
"""Scales of: engine per round, per pass of the draft, per tree, per request, s."""


def round_errors(rows: Sequence[Speculated]) -> Callable[[Array], Array]:
    """Log errors of speedups as a function of the four constants, in `_ROUND`."""
    parts = []
    for row in rows:
        _, round_ = deployed(row.target, row.draft)
        plain = round_.target.seconds(Work(sequences=row.batch, context=CONTEXT))
        found = round_.parts(row.batch, row.num_draft_tokens, CONTEXT, steps=row.steps, topk=row.topk)
        parts.append((plain, found.verification + found.drafting, row.steps, row.topk > 1, besides(row)))
    plain, passes, steps, tree, share = np.array(parts, dtype=float).T
    length, speedup = np.array([(row.accept_length, row.speedup) for row in rows]).T

    def errors(x: Array) -> Array:
        per_round, per_pass, per_tree, request = _ROUND * x
        spent = passes + per_round + per_pass * steps + per_tree * tree
        return np.asarray(np.log((plain + request * share) / (spent / length + request * share) / speedup))

    return errors


def fitted_round(rows: Sequence[Speculated]) -> Array:
    """The four constants, in `_ROUND`."""
    return np.asarray(least_squares(round_errors(rows), np.ones(4), bounds=(0, 30), loss="soft_l1", f_scale=0.1).x)


def print_rounds(rows: Sequence[Speculated]) -> None:
    """Print the constants of rounds, and errors in all and of targets left out."""
    doubts = doubts_of_speculated(rows)
    trusted = [row for row in rows if row.where not in doubts]
    constants = fitted_round(trusted)
    print(
        "per round {:.2e} s, per draft pass {:.2e} s, per tree {:.2e} s, per request {:.2e} s".format(
            *_ROUND * constants
        )
    )
    everything = np.abs(np.expm1(round_errors(trusted)(constants)))
    print(f"fitted to all: {everything.mean():.1%} of {len(trusted)} rows")
    fixed, chosen = [], []
    for target in sorted({row.target for row in trusted}):
        here = [row for row in trusted if row.target == target]
        others = [row for row in trusted if row.target != target]
        fixed.append(np.abs(np.expm1(round_errors(here)(fitted_round(others)))))
        exponent, errors = _without(here, others)
        chosen.append(errors)
        print(
            f"  {target} left out: {fixed[-1].mean():.1%} of {len(here)},"
            f" {errors.mean():.1%} with the exponent of the others, {exponent}"
        )
    print(
        f"targets left out: {np.concatenate(fixed).mean():.1%}, with the exponent {np.concatenate(chosen).mean():.1%}"
    )


def _without(here: Sequence[Speculated], others: Sequence[Speculated]) -> tuple[float, Array]:
    """The exponent of tokens of one text that suits the other targets best, and the errors with it."""
    found = []
    for exponent in _EXPONENTS:
        with mock.patch("theory.hardware.work._ALIKE", exponent):
            constants = fitted_round(others)
            errors = np.abs(np.expm1(round_errors(here)(constants)))
            found.append((float(np.abs(round_errors(others)(constants)).mean()), exponent, errors))
    _, exponent, errors = min(found, key=lambda one: one[0])
    return exponent, errors


def main() -> None:
    """Read the tables, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = read_folder(parser.parse_args().folder, ("loaded", "speculated"))
    print_loads(loads([row for row in folder.rows if isinstance(row, Loaded)]))
    print_rounds([row for row in folder.rows if isinstance(row, Speculated)])


if __name__ == "__main__":
    main()
