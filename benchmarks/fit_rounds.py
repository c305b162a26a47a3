"""Fit what rounds of speculation take beyond passes, and leave targets out: a part of `benchmarks.fit_serving`.

SGLang's constants come from speedups of batches (SpecBundle), vLLM's from the time between outputs of servers under a
constant number of requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from specplan.check.scoreboard import driven, speculated
from specplan.check.scoreboard.doubts import doubts_of_speculated
from specplan.check.scoreboard.rows import Driven, Speculated
from specplan.worlds.model_files import draft_head
from theory.errors import SpecplanError
from theory.hardware.engines import engine_named
from theory.hardware.half_widths import GAIN, conformal, half_width
from theory.hardware.rounds import head_round
from theory.hardware.work import Work

__all__ = ["gains_left_out", "print_rounds", "verified_left_out"]

Array = NDArray[np.float64]

_EXPONENTS: Final = (1.0, 0.8, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45)
_SCALES: Final = np.array([1e-3, 1e-4, 1e-3, 3e-2])
"""Scales of: engine per round, per pass of the draft, per tree, per request, s."""


@dataclass(frozen=True, slots=True)
class _Batches:
    """Rows of SpecBundle: log errors of speedups are a function of four constants."""

    plain: Array
    passes: Array
    steps: Array
    tree: Array
    share: Array
    length: Array
    speedup: Array

    def errors(self, x: Array) -> Array:
        """Log errors with constants in `_SCALES`."""
        per_round, per_pass, per_tree, request = _SCALES * x
        spent = self.passes + per_round + per_pass * self.steps + per_tree * self.tree
        predicted = (self.plain + request * self.share) / (spent / self.length + request * self.share)
        return np.asarray(np.log(predicted / self.speedup))

    def fitted(self) -> Array:
        """The four constants, in `_SCALES`."""
        return np.asarray(least_squares(self.errors, np.ones(4), bounds=(0, 30), loss="soft_l1", f_scale=0.1).x)


def _batches(rows: Sequence[Speculated]) -> _Batches:
    parts = []
    for row in rows:
        _, round_ = speculated.deployed(row.target, row.draft)
        plain = round_.target.seconds(Work(sequences=row.batch, context=speculated.CONTEXT))
        spent = round_.parts(
            row.batch, row.num_draft_tokens, speculated.CONTEXT, steps=row.steps, topk=row.topk
        )  # fmt: skip
        besides = speculated.besides(row)
        parts.append(
            (plain, spent.verification + spent.drafting, row.steps, row.topk > 1, besides, row.accept_length,
             row.speedup)
        )  # fmt: skip
    return _Batches(*np.array(parts, dtype=float).T)


def _without(here: Sequence[Speculated], others: Sequence[Speculated]) -> tuple[float, Array]:
    """The exponent of tokens of one text that suits the other targets best, each counting alike, and the errors."""
    candidates = []
    for exponent in _EXPONENTS:
        with mock.patch("theory.hardware.work._ALIKE", exponent):
            values = _batches(others).fitted()
            each = [_batches(rows).errors(values) for rows in _by_target(others).values()]
            size = float(np.mean([np.abs(errors).mean() for errors in each]))
            candidates.append((size, exponent, _batches(here).errors(values)))
    _, exponent, errors = min(candidates, key=lambda one: one[0])
    return exponent, errors


def _by_target(rows: Sequence[Speculated]) -> dict[str, list[Speculated]]:
    targets = sorted({row.target for row in rows})
    return {target: [row for row in rows if row.target == target] for target in targets}


def gains_left_out(rows: Sequence[Speculated]) -> tuple[list[Speculated], Array, Array]:
    """Return rows, log errors of their gains with constants of rounds from the other targets, and half-widths."""
    doubts = doubts_of_speculated(rows)
    targets = _by_target([row for row in rows if row.where not in doubts])
    judged: list[Speculated] = []
    errors, widths = [], []
    for target, here in targets.items() if len(targets) > 1 else ():
        others = [row for name, those in targets.items() if name != target for row in those]
        errors += _batches(here).errors(_batches(others).fitted()).tolist()
        passes = speculated.deployed(target, here[0].draft)[1].target
        widths += [half_width(GAIN, passes, Work(sequences=row.batch)) for row in here]
        judged += here
    return judged, np.array(errors, dtype=float), np.array(widths, dtype=float)


def verified_left_out(rows: Sequence[Driven]) -> dict[str, dict[str, float]]:
    """Return ``where`` of a row -> the engine's constants of verification from the other workloads and caches."""
    table = _outputs(rows)
    cells = {row.where: _cell(row) for row in rows if row.drafts}
    others = {cell: table.cell != cell for cell in cells.values()}
    names = ("verified_s", "ungraphed_decoding_s")
    fits = {
        cell: dict(zip(names, map(float, table.fitted(of)), strict=True)) for cell, of in others.items() if of.any()
    }
    return {where: fits[cell] for where, cell in cells.items() if cell in fits}


def _cell(row: Driven) -> str:
    return f"{row.workload}, {row.kv_cache} cache"


def _print_batches(rows: Sequence[Speculated]) -> None:
    doubts = doubts_of_speculated(rows)
    trusted = [row for row in rows if row.where not in doubts]
    table = _batches(trusted)
    values = table.fitted()
    engine = engine_named("sglang")
    per = ("round", "draft pass", "tree", "request")
    shown = ", ".join(f"per {name} {value:.2e} s" for name, value in zip(per, _SCALES * values, strict=True))
    print(f"\nSGLang's rounds: {shown}")
    print(f"  committed: {engine.round_s:.2e} s, {engine.draft_pass_s:.2e} s, {engine.tree_s:.2e} s")
    print(f"  fitted to all: {_mean(table.errors(values))} of {len(trusted)} rows")
    out: dict[str, tuple[Array, Array]] = {}
    for target, here in _by_target(trusted).items():
        others = [row for row in trusted if row.target != target]
        fixed = _batches(here).errors(_batches(others).fitted())
        exponent, errors = _without(here, others)
        out[target] = fixed, errors
        by_others = f"with the exponent of the others, {exponent}, {_mean(errors)}"
        print(f"  {target} left out: {_mean(fixed)} of {len(here)}, {by_others}")
    dense = [target for target in out if not speculated.facts_of(target).shape.has_experts]
    for name, of in (("all targets", list(out)), ("dense", dense), ("experts", sorted(set(out) - set(dense)))):
        for how, index in (("", 0), (", with the exponent of the others", 1)):
            errors = np.concatenate([out[target][index] for target in of])
            needed = conformal(np.abs(errors), [target for target in of for _ in out[target][index]])
            print(f"  {name} left out{how}: {_mean(errors)}, half-width needed {needed:.2f}")


def _mean(logs: Array) -> str:
    relative = np.expm1(logs)
    return f"{np.abs(relative).mean():.1%} ({relative.mean():+.1%})"


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Times between outputs of rounds: base + drafted tokens * seconds of each + seconds outside graphs."""

    base: Array
    drafted: Array
    outside: Array
    """1 where the verification is outside graphs, else 0."""
    measured: Array
    cell: NDArray[np.str_]

    def errors(self, values: Array, chosen: NDArray[np.bool_]) -> Array:
        """Log errors of the chosen rows."""
        times = self.base + self.drafted * values[0] + self.outside * values[1]
        return np.asarray(np.log(times / self.measured)[chosen])

    def fitted(self, chosen: NDArray[np.bool_]) -> Array:
        """Seconds of a drafted token and of a verification outside graphs."""
        scales = np.array([1e-5, 1e-3])
        objective = partial(self._scaled, scales, chosen)
        return np.asarray(
            scales * least_squares(objective, np.ones(2), bounds=(0, 30), loss="soft_l1", f_scale=0.1).x
        )  # fmt: skip

    def _scaled(self, scales: Array, chosen: NDArray[np.bool_], x: Array) -> Array:
        return self.errors(scales * x, chosen)


def _outputs(rows: Sequence[Driven]) -> _Outputs:
    numbers, cells = [], []
    for row in rows:
        if not row.drafts:
            continue
        try:
            facts, model = driven.deployed(row)
            head = draft_head(facts, row.method.lower().replace("-", "")).shape
        except SpecplanError:
            continue
        none = dict.fromkeys(("verified_s", "ungraphed_s", "ungraphed_decoding_s", "round_s", "draft_pass_s"), 0.0)
        bare = replace(model, engine=replace(model.engine, **none))
        context = driven.prompt_tokens(row) + row.answer_tokens / 2.0
        base = head_round(bare, head).seconds(row.concurrency, row.num_speculative_tokens + 1.0, context)
        verified = Work(sequences=row.concurrency, tokens=row.num_speculative_tokens + 1.0, context=context)
        outside = float(model.parts(verified).ungraphed > 0.0)
        drafted = row.concurrency * row.num_speculative_tokens
        numbers.append((base, drafted, outside, 1e-3 * row.itl_p50_ms))
        cells.append(_cell(row))
    return _Outputs(*np.array(numbers).reshape(-1, 4).T, np.array(cells))


def _print_outputs(rows: Sequence[Driven]) -> None:
    table = _outputs(rows)
    everything = np.full(len(table.base), True)
    values = table.fitted(everything)
    engine = engine_named("vllm")
    print(f"\nvLLM's rounds: {values[0]:.2e} s per drafted token, {values[1]:.2e} s per verification outside graphs")
    print(f"  committed: {engine.verified_s:.2e} s, {engine.ungraphed_decoding_s:.2e} s")
    print(f"  fitted to all: {_mean(table.errors(values, everything))} of {len(table.base)} rows")
    for cell in np.unique(table.cell):
        here = table.cell == cell
        print(f"  {cell} left out: {_mean(table.errors(table.fitted(~here), here))} of {here.sum()}")


def print_rounds(batches: Sequence[Speculated], servers: Sequence[Driven]) -> None:
    """Print the constants of rounds, and errors in all and of targets left out."""
    if batches:
        _print_batches(batches)
    if any(row.drafts for row in servers):
        _print_outputs(servers)
