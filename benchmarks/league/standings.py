"""How far off each predictor is: every row of a folder predicted, and scores by what the rows have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.league.predictors import LEFT_OUT, PREDICTORS, TABLES, deployment_of, family_of
from specplan.check.scoreboard.board import Board, hardware_board, read_folder, speculation_board
from specplan.check.scoreboard.driven import plain_rows
from specplan.check.scoreboard.rows import Acceptance, Driven, Measured
from specplan.check.scoreboard.score import Outcome, Score, regrets, score
from theory.errors import ParameterError, SpecplanError

__all__ = ["GAINS", "Entry", "Gains", "Standing", "counted", "gains", "played", "standings", "unfitted"]

_KINDS: Final = ("served", "steady", "loaded", "positioned", "speculated", "driven", "acceptance")
GAINS: Final = ("speedup", "gain under load")
"""Quantities that say whether to speculate."""
_GROUPS: Final = ("family", "GPU", "engine")
_FEW: Final = 5  # rows of a group that is shown
_LOSS, _PROMISE = 0.95, 1.02
"""A loss was measured, a gain was promised: what must not meet."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A measured value, with what every predictor that has an estimate says."""

    outcomes: dict[str, Outcome]
    """By predictor; the product's is there always."""
    groups: dict[str, str]
    """``family``, ``GPU`` and ``engine``."""

    @property
    def own(self) -> Outcome:
        """The product's own."""
        return self.outcomes[PREDICTORS[0].name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a predictor did on a group of rows."""

    group: str
    predictor: str
    score: Score
    intervals: bool
    """Whether the predictor states intervals."""
    own: Score
    """The product on the same rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """How a predictor did as an adviser."""

    predictor: str
    n: int
    wrong: int
    """Gains that were predicted as losses, and the reverse."""
    losses: int
    """Measured speedups of at most 0.95."""
    promised: int
    """Those of them for which a gain above 1.02 was predicted."""
    regret: dict[str, tuple[int, float, float, float]]
    """Goal -> number of choices, and the mean, 95th percentile and largest of what the chosen option loses."""


def played(path: Path, progress: Callable[[int], Callable[[], None]]) -> tuple[list[Entry], list[Board]]:
    """Return all values of a folder with every predictor's prediction, and the scoreboards they come from.

    Parameters
    ----------
    path : the folder, or one table.
    progress : called with the number of rows; what it returns is called after each.

    Raises
    ------
    ParameterError : there is no such folder, or no table in it that is known.
    """
    boards = list(_boards(path))
    rows = read_folder(path, _KINDS).rows
    plain = plain_rows(row for row in rows if isinstance(row, Driven))
    own: dict[str, list[Outcome]] = {}
    for board in boards:
        for one in board.outcomes:
            own.setdefault(one.where, []).append(one)
    step = progress(len(rows))
    entries: list[Entry] = []
    for row in rows:
        entries += _entries(row, own.get(row.where, ()), plain.get(row.where))
        step()
    return entries, boards


def counted(path: Path, entries: Iterable[Entry]) -> list[Measured]:
    """Return the rows of a folder that count."""
    known = {entry.own.where for entry in entries if entry.own.counts}
    return [row for row in read_folder(path, _KINDS).rows if row.where in known]


def _boards(path: Path) -> Iterator[Board]:
    """The scoreboards that the folder has rows for."""
    refusals = []
    for board_of in (hardware_board, speculation_board):
        try:
            yield board_of(path, lambda _: lambda: None)
        except ParameterError as error:
            refusals.append(error)
    if len(refusals) == 2:
        raise refusals[0]


def _entries(row: Measured, own: Sequence[Outcome], plain: Driven | None) -> Iterator[Entry]:
    if not own:
        return
    groups, predictions = _groups(row), {}
    for predictor in PREDICTORS[1:]:
        try:
            predictions[predictor.name] = predictor.predict(row, plain)
        except SpecplanError:
            continue
    for outcome in own:
        others = {
            name: _as_predicted(outcome, values[outcome.quantity])
            for name, values in predictions.items()
            if outcome.quantity in values
        }
        yield Entry({PREDICTORS[0].name: outcome, **others}, groups)


def _as_predicted(one: Outcome, value: float) -> Outcome:
    """The row with another prediction, which has no interval; choices that do not follow from it are left out."""
    worth = {1.0: 1.0, one.predicted: value, 1.0 / one.predicted: 1.0 / value}  # doing nothing is worth 1 to everyone
    choices = tuple(replace(each, predicted=worth[each.predicted]) for each in one.choices if each.predicted in worth)
    return replace(one, predicted=value, interval=(math.nan, math.nan), choices=choices)


def _groups(row: Measured) -> dict[str, str]:
    if isinstance(row, Acceptance):
        return dict.fromkeys(_GROUPS, "not stated")
    facts, passes = deployment_of(row)
    engine = f"{passes.engine.name} {passes.engine.version}"
    values = family_of(facts.shape), passes.gpu.name.removeprefix("NVIDIA "), engine
    return dict(zip(_GROUPS, values, strict=True))


def standings(entries: Iterable[Entry]) -> dict[str, list[Standing]]:
    """Return, for each quantity, how every predictor did: on all rows, and by family, GPU and engine."""
    quantities: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.own.counts:
            quantities.setdefault(entry.own.quantity, []).append(entry)
    return {quantity: list(_standings(group)) for quantity, group in quantities.items()}


def _standings(entries: Sequence[Entry]) -> Iterator[Standing]:
    yield from _by_way("all", entries)
    for label in _GROUPS:
        values = sorted({entry.groups[label] for entry in entries})
        for value in values if len(values) > 1 else ():
            group = [entry for entry in entries if entry.groups[label] == value]
            if len(group) >= _FEW:
                yield from _by_way(f"{label} {value}", group)


def unfitted(entries: Iterable[Entry]) -> list[tuple[str, str, Score, Score]]:
    """Return which operators are nearer where a GPU is not fitted: quantity, family, `LEFT_OUT` and `TABLES`.

    The rows are those that both predictors have an estimate of.
    """
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.own.counts and {LEFT_OUT, TABLES} <= entry.outcomes.keys():
            groups.setdefault((entry.own.quantity, entry.groups["family"]), []).append(entry)
    return [
        (*group, *(score([entry.outcomes[predictor] for entry in rows]) for predictor in (LEFT_OUT, TABLES)))
        for group, rows in groups.items()
    ]


def _by_way(group: str, entries: Sequence[Entry]) -> Iterator[Standing]:
    for predictor in PREDICTORS:
        there = [entry for entry in entries if predictor.name in entry.outcomes]
        if there:
            outcomes = [entry.outcomes[predictor.name] for entry in there]
            yield Standing(
                group=group,
                predictor=predictor.name,
                score=score(outcomes),
                intervals=bool(np.isfinite([one.interval for one in outcomes]).all()),
                own=score([entry.own for entry in there]),
            )


def gains(entries: Iterable[Entry]) -> dict[str, list[Gains]]:
    """Return, for each quantity of `GAINS`, how every predictor did as an adviser."""
    entries = [entry for entry in entries if entry.own.counts]
    by_quantity = {quantity: [entry for entry in entries if entry.own.quantity == quantity] for quantity in GAINS}
    return {quantity: list(_gains(rows)) for quantity, rows in by_quantity.items() if rows}


def _gains(entries: Sequence[Entry]) -> Iterator[Gains]:
    for predictor in PREDICTORS:
        outcomes = [entry.outcomes[predictor.name] for entry in entries if predictor.name in entry.outcomes]
        if not outcomes:
            continue
        measured = np.array([one.measured for one in outcomes])
        predicted = np.array([one.predicted for one in outcomes])
        lost = measured <= _LOSS
        yield Gains(
            predictor=predictor.name,
            n=len(outcomes),
            wrong=int(np.sum((measured - 1.0) * (predicted - 1.0) < 0.0)),
            losses=int(lost.sum()),
            promised=int(np.sum(lost & (predicted > _PROMISE))),
            regret={goal: _regret([one.loss for one in choices]) for goal, choices in regrets(outcomes).items()},
        )


def _regret(losses: Sequence[float]) -> tuple[int, float, float, float]:
    return len(losses), float(np.mean(losses)), float(np.quantile(losses, 0.95)), max(losses)
