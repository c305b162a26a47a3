"""A new profile from live traffic: acceptance and lengths of the served answers, and scaled timings.

A profile holds answers with both models' steps at each position and the verdict on the draft's. Methods that compare
steps (LR and the like) generate these while they answer. Positions without a draft, a target's step or a verdict are
left out and counted. Live traffic has no answers of plain decoding: the target's steps at the same positions replace
them. Timings keep the calibrated dependence on batch and length, and are scaled by the observed time per token.
"""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from calibrate.record.answer_records import Generated, RecordedAnswer, StepRecord, VerdictRecord
from calibrate.record.engine_records import FIELD_OF_USE, STEPWISE, EngineRecord
from calibrate.record.profile import Profile
from calibrate.running.session import WallSession
from sim.operations import Generate, Step, Verify
from sim.roles import DRAFT, JUDGE, TARGET
from theory.errors import CalibrationError

__all__ = ["LEAST_ANSWERS", "Recorder", "recorded"]

LEAST_ANSWERS: Final = 8
"""Least number of answers of a profile."""
_KEPT: Final = 600
"""Latest answers that are kept, as numbers without texts."""


def recorded(session: WallSession) -> tuple[RecordedAnswer | None, int]:
    """Return the steps and verdicts of a generator that wrote all of its answer, and the positions left out."""
    committed = session.committed
    if not committed or not committed[-1].final or committed[0].depth > 0:
        return None, 0
    drafts = _by_prefix(session, DRAFT)
    targets = _by_prefix(session, TARGET)
    verdicts = {id(one.candidate): one for one in session.operations if isinstance(one, Verify) and one.result}
    kept = []
    for step in committed:
        draft, target = drafts.get(id(step.parent)), targets.get(id(step.parent))
        verdict = None if draft is None else verdicts.get(id(draft.result))
        if draft is not None and target is not None and verdict is not None and verdict.role == JUDGE:
            kept.append((draft, target, verdict))
    n_left_out = len(committed) - len(kept)
    if not kept:
        return None, n_left_out
    root = committed[0].parent
    assert root is not None
    steps = [
        StepRecord(
            draft=_generated(draft, final=draft.result.final or i == len(kept)),
            target=_generated(target, final=i == len(kept)),
            verdict=VerdictRecord(
                accepted=verdict.result.accepted,
                score=verdict.result.score,
                seconds=verdict.finished - verdict.started,
                prompt_tokens=verdict.job.n_new_tokens if verdict.job is not None else 0,
            ),
        )
        for i, (draft, target, verdict) in enumerate(kept, 1)
    ]
    baseline = [step.target for step in steps]
    return RecordedAnswer(problem="", prompt_tokens=root.context_tokens, steps=steps, baseline=baseline), n_left_out


class Recorder:
    """Records the served answers in the form of a profile.

    Parameters
    ----------
    profile : profile that the plan was made from.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._answers: deque[RecordedAnswer] = deque(maxlen=_KEPT)
        self._n_seen = 0
        self._n_left_out = 0

    def keep(self, answer: RecordedAnswer | None, n_left_out: int) -> None:
        """Keep an answer that `recorded` returned."""
        self._n_left_out += n_left_out
        if answer is not None:
            self._n_seen += 1
            self._answers.append(answer.model_copy(update={"problem": f"live-{self._n_seen}"}))

    def profile(self, time_ratios: dict[str, float], measured: Sequence[str] = ()) -> Profile:
        """Return the new profile.

        Parameters
        ----------
        time_ratios : seconds per token / seconds per token that the old profile predicts, by role, [-].
        measured : a line for each measured gain, which become notes.

        Raises
        ------
        CalibrationError : too few answers were served.
        """
        if len(self._answers) < LEAST_ANSWERS:
            rule = f"{len(self._answers)} answers had drafts, the target's steps and verdicts of the judge"
            remedy = "a method such as lr-async; --trust-plan runs it from the start"
            raise CalibrationError(f"no new profile: {rule}, {LEAST_ANSWERS} are needed ({remedy})")
        old = self._profile
        by_engine = {old.placement.get(role): ratio for role, ratio in reversed(time_ratios.items())}
        scaled = {name: _scaled(record, by_engine.get(name, 1.0)) for name, record in old.engines.items()}
        said = ", ".join(f"{role} {ratio:.2f}" for role, ratio in sorted(time_ratios.items())) or "none measured"
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        notes = [
            *old.provenance.notes,
            f"answers from live traffic ({len(self._answers)}), positions left out: {self._n_left_out}; the target's "
            "own answers are its steps at the positions of the committed ones",
            f"timings of {old.provenance.created}, scaled by the observed time per token: {said}",
            *measured,
        ]
        provenance = old.provenance.model_copy(update={"created": now, "notes": notes, "command": "specplan serve"})
        changed = {
            "name": f"{old.name} live"[:300],
            "provenance": provenance,
            "answers": list(self._answers),
            "texts": [],
            "engines": scaled,
            "token": [],
        }
        return Profile.model_validate(old.model_copy(update=changed).model_dump())


def _by_prefix(session: WallSession, role: str) -> dict[int, Generate]:
    """The first finished step of a model after each prefix."""
    steps: dict[int, Generate] = {}
    for one in session.operations:
        if isinstance(one, Generate) and one.role == role and one.result is not None:
            steps.setdefault(id(one.prefix), one)
    return steps


def _generated(one: Generate, *, final: bool) -> Generated:
    step: Step = one.result
    seconds = one.finished - one.started
    return Generated(tokens=max(step.n_tokens, 1), seconds=seconds, final=final, truncated=step.truncated)


def _scaled(record: EngineRecord, ratio: float) -> EngineRecord:
    """The record of an engine with all times multiplied by ``ratio``."""
    decode = [sample.model_copy(update={"seconds": sample.seconds * ratio}) for sample in record.decode]
    prefill = [sample.model_copy(update={"seconds": sample.seconds * ratio}) for sample in record.prefill]
    # Measurements in use belong to the old answers; those of the sweep remain.
    in_use = (*FIELD_OF_USE.values(), STEPWISE, "clients_in_use", "sentinels")
    emptied: dict[str, list[Any]] = {field: [] for field in in_use}
    return record.model_copy(update={"decode": decode, "prefill": prefill, **emptied})
