"""A new profile from live traffic: what the gateway saw of acceptance and lengths, on timings at the pace that it saw.

A profile holds answers with both models' steps at each position and the verdict between them. Methods that compare
steps (LR and its kin) write just that while they answer. Positions at which one of the three is missing, because the
schedule did without, are left out and counted. The target's own answer is not written in live traffic: its steps at the
same positions stand for it. Timings keep the shape that was calibrated, and are scaled by the pace that was seen.
"""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from calibrate.record.answer_records import Generated, RecordedAnswer, StepRecord, VerdictRecord
from calibrate.record.engine_records import EngineRecord
from calibrate.record.profile import Profile
from calibrate.running.session import WallSession
from sim.operations import DRAFT, JUDGE, TARGET, Generate, Step, Verify
from theory.errors import CalibrationError

__all__ = ["LEAST_ANSWERS", "Recorder"]

LEAST_ANSWERS: Final = 8
"""Answers that a profile needs."""

_KEPT: Final = 600
"""Latest answers that are kept: numbers, no texts."""


class Recorder:
    """Keeps what the generators did, as a profile has it.

    Parameters
    ----------
    profile : the one that the plan was made from.

    Attributes
    ----------
    n_left_out : positions at which a draft, the target's step or a verdict was missing.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._answers: deque[RecordedAnswer] = deque(maxlen=_KEPT)
        self._n_seen = 0
        self.n_left_out = 0

    @property
    def n_answers(self) -> int:
        """Answers that are kept."""
        return len(self._answers)

    def ran(self, session: WallSession) -> None:
        """Keep what a generator that ran to its answer's end knows of each position."""
        committed = session.committed
        if not committed or not committed[-1].final:
            return
        drafts = _by_prefix(session, DRAFT)
        targets = _by_prefix(session, TARGET)
        verdicts = {id(one.candidate): one for one in session.operations if isinstance(one, Verify) and one.result}
        steps = []
        for step in committed:
            draft, target = drafts.get(id(step.parent)), targets.get(id(step.parent))
            verdict = None if draft is None else verdicts.get(id(draft.result))
            if draft is None or target is None or verdict is None or verdict.role != JUDGE:
                self.n_left_out += 1
                continue
            steps.append(_record(draft, target, verdict))
        if not steps:
            return
        self._n_seen += 1
        root = committed[0].parent
        assert root is not None
        self._answers.append(
            RecordedAnswer(
                problem=f"live-{self._n_seen}",
                prompt_tokens=root.context_tokens,
                steps=_ended(steps),
                baseline=[step.target for step in _ended(steps)],
            )
        )

    def profile(self, paces: Mapping[str, float]) -> Profile:
        """Return the new profile.

        Parameters
        ----------
        paces : role to seconds per token / those that the old profile predicts, [-].

        Raises
        ------
        CalibrationError : too few answers were seen.
        """
        if len(self._answers) < LEAST_ANSWERS:
            rule = f"{len(self._answers)} answers were seen with drafts, the target's steps and verdicts of the judge"
            raise CalibrationError(f"no new profile: {rule}, {LEAST_ANSWERS} are needed (a method such as lr-async)")
        old = self._profile
        scaled = {name: _scaled(record, _pace(old, name, paces)) for name, record in old.engines.items()}
        said = ", ".join(f"{role} {ratio:.2f}" for role, ratio in sorted(paces.items())) or "none seen"
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        notes = [
            *old.provenance.notes,
            f"answers from live traffic ({len(self._answers)}), positions left out: {self.n_left_out}; the target's "
            "own answers are its steps at the positions of the committed ones",
            f"timings of {old.provenance.created}, seconds per token times what was seen: {said}",
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
    found: dict[int, Generate] = {}
    for one in session.operations:
        if isinstance(one, Generate) and one.role == role and one.result is not None:
            found.setdefault(id(one.prefix), one)
    return found


def _record(draft: Generate, target: Generate, verdict: Verify) -> StepRecord:
    said = VerdictRecord(
        accepted=verdict.result.accepted,
        score=verdict.result.score,
        seconds=verdict.finished - verdict.started,
        prompt_tokens=verdict.job.n_new_tokens if verdict.job is not None else 0,
    )
    return StepRecord(draft=_generated(draft), target=_generated(target), verdict=said)


def _generated(one: Generate) -> Generated:
    step: Step = one.result
    seconds = one.finished - one.started
    return Generated(tokens=max(step.n_tokens, 1), seconds=seconds, final=step.final, truncated=step.truncated)


def _ended(steps: list[StepRecord]) -> list[StepRecord]:
    """The same, whose last position and no other ends the answer."""
    last = len(steps) - 1
    return [
        step.model_copy(
            update={
                "target": step.target.model_copy(update={"final": i == last}),
                "draft": step.draft.model_copy(update={"final": step.draft.final or i == last}),
            }
        )
        for i, step in enumerate(steps)
    ]


def _pace(profile: Profile, name: str, paces: Mapping[str, float]) -> float:
    """The pace of an engine, by the roles that are placed on it."""
    return next((ratio for role, ratio in paces.items() if profile.placement.get(role) == name), 1.0)


def _scaled(record: EngineRecord, ratio: float) -> EngineRecord:
    """An engine that takes so many times as long for all its work."""
    decode = [sample.model_copy(update={"seconds": sample.seconds * ratio}) for sample in record.decode]
    prefill = [sample.model_copy(update={"seconds": sample.seconds * ratio}) for sample in record.prefill]
    # What was measured in use belongs to the answers that are gone; the sweep says the rest.
    emptied: dict[str, list[Any]] = {"in_use": [], "plain_in_use": [], "beam_in_use": [], "sentinels": []}
    return record.model_copy(update={"decode": decode, "prefill": prefill, **emptied})
