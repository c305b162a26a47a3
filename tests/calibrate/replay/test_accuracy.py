"""Error rates, corruption and accuracy from recorded answers, each recomputed by hand on a few of them."""

from __future__ import annotations

import pytest
from measured_profiles import answer_of
from measured_profiles import position as judged

from calibrate.record.answer_records import Generated, RecordedAnswer, StepRecord
from calibrate.replay.accuracy import all_rates, expected_accuracy, rates, rates_text, spoiling
from sim.operations import GATE
from sim.timeline import Counts


def position(accepted: bool, right: bool, *, target_right: bool = True, gate: float = 0.5) -> StepRecord:
    step = judged(accepted, right, target_correct=target_right, score=float(accepted))
    return step.model_copy(update={"draft": step.draft.model_copy(update={"scores": {GATE: gate}})})


def answer(*steps: StepRecord, correct: bool | None = None) -> RecordedAnswer:
    return answer_of(*steps, answer_correct=correct)


ANSWERS = [
    answer(position(True, True), position(False, False), position(True, True), correct=True),
    answer(position(True, False), position(False, True), position(True, True), correct=False),
    answer(position(True, True), position(False, False, target_right=False), position(False, True), correct=True),
]


def test_rates_count_right_and_wrong_drafts_apart() -> None:
    found = rates(ANSWERS)
    assert found.true_accept.value == pytest.approx(4 / 6)  # right drafts: + + | - + | + -
    assert found.false_accept.value == pytest.approx(1 / 3)  # wrong drafts: - | + | -
    assert (found.true_accept.n, found.false_accept.n) == (6, 3)


def test_rates_of_another_verifier_use_its_scores_and_threshold() -> None:
    scored = [answer(position(True, True, gate=0.7), position(True, False, gate=0.7), position(True, True, gate=0.4))]
    at_half, strict = rates(scored, GATE), rates(scored, GATE, 0.8)
    assert at_half.true_accept.value == 0.5
    assert at_half.false_accept.value == 1.0
    assert strict.false_accept.value == 0.0
    nobody = rates(scored, "reward", 0.5)
    assert (nobody.true_accept, nobody.false_accept) == (None, None)


def test_every_verifier_that_was_asked_has_rates() -> None:
    scored = [answer(position(True, True, gate=0.7), position(True, False, gate=0.7), position(False, True, gate=0.4))]
    found = {one.role: one for one in all_rates(scored)}
    assert list(found) == ["judge", GATE]
    assert found[GATE].threshold == 0.5
    assert (found["judge"].threshold, found["judge"].false_accept) == (None, rates(scored).false_accept)
    assert rates_text(scored)[1].startswith("gate at 0.5      right drafts 0.500 [")
    blind = [answer(position(True, True).model_copy(update={"draft": Generated(tokens=1, seconds=0.1)}))]
    assert rates_text(blind) == []


def test_spoiling_reads_what_a_wrong_step_does_to_an_answer() -> None:
    found = spoiling(ANSWERS)
    assert (found.right_if_clean, found.right_if_spoilt, found.n) == (1.0, 0.5, 3)
    assert spoiling([answer(position(True, True))]) is None  # no truth about the answer
    counts = [Counts(steps=3, graded_steps=3, wrong_steps=w) for w in (0, 0, 1, 2)]
    expected = expected_accuracy(counts, found)
    assert expected.value == pytest.approx((1.0 + 1.0 + 0.5 + 0.5**2) / 4)  # each wrong step is forgiven by half
    assert expected.n == 4
