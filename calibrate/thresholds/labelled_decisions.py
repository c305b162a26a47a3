"""Scored and labelled decisions from a profile or a file of JSON lines, and the grid of thresholds for them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from calibrate.record.answer_records import RecordedAnswer, StepRecord
from calibrate.record.files import read_text
from calibrate.record.json_text import json_lines
from calibrate.record.profile import Profile
from calibrate.thresholds.risk import Decisions
from theory.errors import ParameterError, SchemaError

__all__ = [
    "LABELS",
    "SCORES",
    "Label",
    "LabelledDecisions",
    "ScoreKind",
    "check_scores",
    "decisions_of_profile",
    "default_grid",
    "read_decisions",
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
class LabelledDecisions:
    """Scored and labelled decisions, and the numbers of excluded ones."""

    decisions: Decisions
    """``wrong`` means that accepting (for a gate: keeping) is an error."""
    clustered: bool
    """Whether each is known to belong to an answer."""
    n_unscored: int
    """Excluded because they have no score."""
    n_unlabelled: int
    """Excluded because they have no label."""
    source: str
    """Description of the source."""


class _Decision(NamedTuple):
    """A line of a file, or a judged step of a profile; None stands for unknown."""

    score: float | None
    right: bool | None
    """Whether accepting is right."""
    answer: str | None


def read_decisions(
    pairs: str | os.PathLike[str] | Sequence[Mapping[str, Any]], *, gate: bool = False
) -> LabelledDecisions:
    """Read decisions from a file of JSON lines, or from the objects on its lines.

    Each line is an object with ``score`` (higher is safer; negate a distance), ``label`` (true: accepting is right)
    and optionally ``answer`` (the answer that it belongs to). For a gate: ``gate``, the probability of "same meaning"
    in [0, 1], and ``judge``, the judge's decision (true: accept). Score or label may be null: such a decision is
    counted and excluded. Other keys are ignored.

    Raises
    ------
    SchemaError : the file cannot be read, a line is not such an object, or only some decisions name an answer.
    """
    rows: Iterable[tuple[int, Any]]
    if isinstance(pairs, str | os.PathLike):
        rows, source = json_lines(read_text(pairs, "decisions"), str(pairs)), str(pairs)
    else:
        rows, source = enumerate(pairs, 1), "rows"
    decisions = {line: _decision(f"{source}:{line}", row, gate=gate) for line, row in rows}
    unnamed = [line for line, decision in decisions.items() if decision.answer is None]
    if unnamed and len(unnamed) < len(decisions):
        raise SchemaError(
            f"{source}:{unnamed[0]}: answer: missing, but other lines name one; name it in all lines or in none"
        )
    if gate:
        for line, (p, judged, answer) in decisions.items():
            if p is not None and not 0.0 <= p <= 1.0:
                raise SchemaError(f"{source}: gate: must be a probability in [0, 1], got {p!r}")
            agrees = None if p is None or judged is None else (p >= 0.5) is judged
            decisions[line] = _Decision(None if p is None else max(p, 1.0 - p), agrees, answer)
    return _collected([*decisions.values()], clustered=bool(decisions) and not unnamed, source=source)


def _decision(where: str, row: Any, *, gate: bool) -> _Decision:
    if not isinstance(row, Mapping):
        raise SchemaError(f"{where}: must be an object with a score and a label")
    score_key, label_key = ("gate", "judge") if gate else ("score", "label")
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
    return _Decision(score, label, None if answer is None else str(answer))


def _collected(decisions: Sequence[_Decision], *, clustered: bool, source: str) -> LabelledDecisions:
    scored = [decision for decision in decisions if decision.score is not None]
    kept = [decision for decision in scored if decision.right is not None]
    if not kept:
        rule = f"no decision has both a score and a label; label some of the {len(decisions)} decisions"
        raise SchemaError(f"{source}: {rule}")
    return LabelledDecisions(
        decisions=Decisions(
            np.array([decision.score for decision in kept], dtype=np.float64),
            np.array([not decision.right for decision in kept]),
            [str(decision.answer) for decision in kept] if clustered else None,
        ),
        clustered=clustered,
        n_unscored=len(decisions) - len(scored),
        n_unlabelled=len(scored) - len(kept),
        source=source,
    )


def decisions_of_profile(profile: Profile, label: Label = "same-meaning") -> LabelledDecisions:
    """The judged steps of a measured profile as labelled decisions, clustered by answer.

    An acceptance is right if the draft means the same as the target's step, or by ``label`` if it is correct.

    Raises
    ------
    SchemaError : no step has both a score and the label.
    """
    judged = [(step, answer.problem) for answer in profile.all_answers for step in answer.steps]
    if not judged:
        raise SchemaError(f"profile {profile.name!r}: holds no judged steps; calibrate on a pair of models")
    decisions = [
        _Decision(
            step.verdict.score, step.verdict.same_meaning if label == "same-meaning" else step.draft.correct, name
        )
        for step, name in judged
    ]
    return _collected(decisions, clustered=True, source=f"profile {profile.name}")


def default_grid(kind: ScoreKind) -> NDArray[np.float64]:
    """The grid of thresholds for a kind of score, fixed in advance as the guarantee requires.

    Probabilities and confidences have steps of a quarter in log odds, because models answer near 0 and 1.
    """
    if kind == "0-9":
        return np.arange(10.0)
    if kind == "cosine":
        return np.round(np.arange(-100, 101) / 100.0, 2)
    odds = np.arange(-28, 29) / 4.0
    grid = 1.0 / (1.0 + np.exp(-odds))
    return np.concatenate([[0.0], grid]) if kind == "probability" else grid[grid >= 0.5]


def check_scores(labelled: LabelledDecisions, kind: ScoreKind) -> None:
    """Refuse scores outside the range of their kind, for which the grid would be wrong.

    Raises
    ------
    ParameterError : a score is outside the range.
    """
    low, high = _RANGES[kind]
    scores = labelled.decisions.scores
    outside = scores[(scores < low) | (scores > high)]
    if outside.size:
        rule = f"holds the score {float(outside[0]):g}, outside [{low:g}, {high:g}]: name another kind, or a grid"
        raise ParameterError("score", kind, rule)


def rejudged(answers: Sequence[RecordedAnswer], threshold: float) -> list[RecordedAnswer]:
    """Recorded answers with the verdicts of another threshold on the recorded scores.

    An approximation: after a changed verdict a real run continues from the other step. Steps without a score keep their
    verdict; an answer ends with the first committed final step.
    """
    changed = []
    for answer in answers:
        steps: list[StepRecord] = []
        for step in answer.steps:
            verdict = step.verdict
            if verdict.score is not None:
                verdict = verdict.model_copy(update={"accepted": verdict.score >= threshold})
            steps.append(step.model_copy(update={"verdict": verdict}))
            if (step.draft if verdict.accepted else step.target).final:
                break
        changed.append(answer.model_copy(update={"steps": steps}))
    return changed
