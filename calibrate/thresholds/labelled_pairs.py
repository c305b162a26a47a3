"""Scored and labelled step pairs: from a profile or a file of JSON lines, with the grid that a kind of score has."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrate.record.profile import AnswerRecord, Profile, StepRecord
from calibrate.thresholds.risk import Decisions
from theory.errors import ParameterError, SchemaError

__all__ = [
    "LABELS",
    "SCORES",
    "Label",
    "Pairs",
    "ScoreKind",
    "check_scores",
    "default_grid",
    "gate_pairs",
    "pairs_of_profile",
    "read_pairs",
    "rejudged",
]

ScoreKind = Literal["probability", "0-9", "cosine", "confidence"]
SCORES: Final[tuple[ScoreKind, ...]] = get_args(ScoreKind)
Label = Literal["same-meaning", "correct"]
LABELS: Final[tuple[Label, ...]] = get_args(Label)

_RANGES: Final[dict[ScoreKind, tuple[float, float]]] = {
    "probability": (0.0, 1.0),
    "0-9": (0.0, 9.0),
    "cosine": (-1.0, 1.0),
    "confidence": (0.5, 1.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Scored and labelled pairs, and what was left out on the way."""

    decisions: Decisions
    """The labelled ones; ``wrong`` means that accepting (for a gate: keeping) is an error."""
    clustered: bool
    """Whether each is known to belong to an answer."""
    n_unscored: int
    """Pairs without a score, left out."""
    n_unlabelled: int
    """Pairs without a label, left out."""
    source: str
    """Where they come from, in words."""


def read_pairs(path: str | os.PathLike[str], *, gate: bool = False) -> Pairs:
    """Read pairs from a file of JSON lines.

    Each line is an object with ``score`` (higher is safer; negate a distance), ``label`` (true: accepting is right)
    and optionally ``answer`` (which answer it belongs to). For a gate: ``gate``, the probability of "same meaning" in
    [0, 1], and ``judge``, the judge's decision (true: accept). Score or label may be null: such a pair is counted and
    left out. Other keys are not read.

    Raises
    ------
    SchemaError : the file cannot be read, a line is not such an object, or some pairs name an answer and some do not.
    """
    rows = list(_json_lines(path))
    score_key, label_key = ("gate", "judge") if gate else ("score", "label")
    items = [_pair(f"{path}:{line}", row, score_key, label_key) for line, row in rows]
    named = [answer is not None for _, _, answer in items]
    if any(named) and not all(named):
        line = rows[named.index(False)][0]
        raise SchemaError(f"{path}:{line}: answer: missing, but other lines name one; name it in all lines or in none")
    maker = _gate if gate else _plain
    return maker(items, clustered=all(named) and bool(named), source=str(path))


def _json_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SchemaError(f"{path}: cannot be read as pairs: {reason}") from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise SchemaError(f"{path}:{number}: not JSON: {error.msg}") from None
        if not isinstance(row, dict):
            raise SchemaError(f"{path}:{number}: must be an object with a score and a label")
        yield number, row


_Item = tuple[float | None, bool | None, str | None]


def _pair(where: str, row: dict[str, Any], score_key: str, label_key: str) -> _Item:
    for key in (score_key, label_key):
        if key not in row:
            raise SchemaError(f"{where}: {key}: missing; null stands for unknown")
    score, label, answer = row[score_key], row[label_key], row.get("answer")
    number = isinstance(score, int | float) and not isinstance(score, bool) and math.isfinite(score)
    if score is not None and not number:
        raise SchemaError(f"{where}: {score_key}: must be a finite number or null, got {score!r}")
    if label is not None and not isinstance(label, bool):
        raise SchemaError(f"{where}: {label_key}: must be true, false or null, got {label!r}")
    if answer is not None and not isinstance(answer, str | int):
        raise SchemaError(f"{where}: answer: must be a name or a number, got {answer!r}")
    return score, label, None if answer is None else str(answer)


def _plain(items: Sequence[_Item], *, clustered: bool, source: str) -> Pairs:
    kept = [(s, good, a) for s, good, a in items if s is not None and good is not None]
    if not kept:
        raise SchemaError(f"{source}: no pair has both a score and a label; label some of the {len(items)} pairs")
    scores, good, answers = zip(*kept, strict=True)
    return Pairs(
        decisions=Decisions(scores, ~np.array(good), list(answers) if clustered else None),
        clustered=clustered,
        n_unscored=sum(s is None for s, _, _ in items),
        n_unlabelled=sum(s is not None and good is None for s, good, _ in items),
        source=source,
    )


def _gate(items: Sequence[_Item], *, clustered: bool, source: str) -> Pairs:
    outside = next((s for s, _, _ in items if s is not None and not 0.0 <= s <= 1.0), None)
    if outside is not None:
        raise SchemaError(f"{source}: gate: must be a probability in [0, 1], got {outside!r}")
    found = [
        (None if p is None else max(p, 1.0 - p), None if p is None or judge is None else (p >= 0.5) is judge, answer)
        for p, judge, answer in items
    ]
    return _plain(found, clustered=clustered, source=source)


def gate_pairs(probabilities: Sequence[float], judged: Sequence[bool], answers: Sequence[str] | None = None) -> Pairs:
    """Pairs for `cascade` from the gate's probabilities of "same meaning" and the judge's decisions."""
    names = [None] * len(probabilities) if answers is None else answers
    items = list(zip(probabilities, judged, names, strict=True))
    return _gate(items, clustered=answers is not None, source="gate decisions")


def pairs_of_profile(profile: Profile, label: Label = "same-meaning") -> Pairs:
    """The judged steps of a measured profile as labelled pairs, clustered by answer.

    Parameters
    ----------
    profile : measured, with scores and ground truth.
    label : accepting is right if the draft means the same as the target's step, or if it is correct.

    Raises
    ------
    SchemaError : no step has both a score and the label.
    """
    items: list[_Item] = []
    for answer in profile.answers:
        items += [(step.verdict.score, _truth(step, label), answer.problem) for step in answer.steps]
    if not items:
        raise SchemaError(f"profile {profile.name!r}: holds no judged steps; calibrate on a pair of models")
    return _plain(items, clustered=True, source=f"profile {profile.name}")


def _truth(step: StepRecord, label: Label) -> bool | None:
    return step.verdict.same_meaning if label == "same-meaning" else step.draft.correct


def default_grid(kind: ScoreKind) -> NDArray[np.float64]:
    """The grid of thresholds for a kind of score: fixed beforehand, as the guarantee asks.

    Probabilities and confidences get steps of a quarter in log odds from 1 in 1,100 on, because models answer near 0
    and 1; 0-9 scores their ten values; cosines steps of 0.01. The lowest accepts everything.
    """
    if kind == "0-9":
        return np.arange(10.0)
    if kind == "cosine":
        return np.round(np.arange(-100, 101) / 100.0, 2)
    odds = np.arange(-28, 29) / 4.0
    grid = 1.0 / (1.0 + np.exp(-odds))
    return np.concatenate([[0.0], grid]) if kind == "probability" else grid[grid >= 0.5]


def check_scores(pairs: Pairs, kind: ScoreKind) -> None:
    """Refuse scores outside the range of their kind: their grid would be the wrong one.

    Raises
    ------
    ParameterError : a score is outside.
    """
    low, high = _RANGES[kind]
    scores = pairs.decisions.scores
    outside = scores[(scores < low) | (scores > high)]
    if outside.size:
        rule = f"holds the score {float(outside[0]):g}, outside [{low:g}, {high:g}]: name another kind, or a grid"
        raise ParameterError("score", kind, rule)


def rejudged(answers: Sequence[AnswerRecord], threshold: float) -> list[AnswerRecord]:
    """Recorded answers with the verdicts that another threshold would have given on the recorded scores.

    An approximation: after a changed verdict a real run continues from the other step, while the replay goes on with
    the steps recorded. Steps without a score keep their verdict; an answer ends with the first committed step that
    ends it.
    """
    return [_rejudged(answer, threshold) for answer in answers]


def _rejudged(answer: AnswerRecord, threshold: float) -> AnswerRecord:
    steps: list[StepRecord] = []
    for step in answer.steps:
        verdict = step.verdict
        if verdict.score is not None:
            verdict = verdict.model_copy(update={"accepted": verdict.score >= threshold})
        steps.append(step.model_copy(update={"verdict": verdict}))
        if (step.draft if verdict.accepted else step.target).final:
            break
    return answer.model_copy(update={"steps": steps})
