"""Error rates, corruption and accuracy from recorded answers, each recomputed by hand on a few of them."""

import pytest
from measured_profiles import answer_of, measured
from measured_profiles import position as judged

from calibrate.record.answer_records import Generated, StepRecord
from calibrate.replay.accuracy import accepts, expected_accuracy, rates_text, spoiling
from calibrate.replay.summary import acceptance, summarise
from sim.roles import GATE
from sim.timeline import Counts


def position(accepted: bool, right: bool, *, target_right: bool = True, gate: float = 0.5) -> StepRecord:
    step = judged(accepted, right, target_correct=target_right, score=float(accepted))
    return step.model_copy(update={"draft": step.draft.model_copy(update={"scores": {GATE: gate}})})


ANSWERS = [
    answer_of(position(True, True), position(False, False), position(True, True), answer_correct=True),
    answer_of(position(True, False), position(False, True), position(True, True), answer_correct=False),
    answer_of(
        position(True, True), position(False, False, target_right=False), position(False, True), answer_correct=True
    ),
]


def test_verifiers_accept_shares_of_right_and_of_wrong_drafts() -> None:
    """Right drafts: + + | - + | + -; wrong ones: - | + | -; the gate takes all, as all scores are at its threshold."""
    judge, gate = rates_text(ANSWERS)
    assert judge.startswith("judge            right drafts 0.667 [")
    assert "; wrong drafts 0.333 [" in judge
    assert gate.startswith("gate at 0.5      right drafts 1.000 [")


def test_another_verifier_is_told_by_its_scores_and_its_threshold() -> None:
    scored = [answer_of(position(True, True, gate=0.7), position(True, True, gate=0.4))]
    assert rates_text(scored)[1].startswith("gate at 0.5      right drafts 0.500 [")
    assert rates_text(scored)[1].endswith("; wrong drafts not seen")
    assert [accepts(step, GATE, 0.8) for step in scored[0].steps] == [False, False]
    assert accepts(scored[0].steps[0], "reward", 0.5) is None
    blind = [answer_of(position(True, True).model_copy(update={"draft": Generated(tokens=1, seconds=0.1)}))]
    assert rates_text(blind) == []


def test_spoiling_reads_what_a_wrong_step_does_to_an_answer() -> None:
    found = spoiling(ANSWERS)
    assert (found.right_if_clean, found.forgiven) == (1.0, pytest.approx(0.5))
    assert spoiling([answer_of(position(True, True))]) is None  # no truth about the answer
    counts = [Counts(steps=3, graded_steps=3, wrong_steps=w) for w in (0, 0, 1, 2)]
    expected = expected_accuracy(counts, found)
    assert expected.value == pytest.approx((1.0 + 1.0 + 0.5 + 0.5**2) / 4)  # each wrong step is forgiven by half
    assert expected.n == 4


def test_the_interval_of_few_answers_stays_a_share() -> None:
    """Three answers of 3 of 3 and three of 1 of 3: by their spread alone the interval would end at 1.05."""
    answers = [*measured([True] * 3).answers, *measured([True, False, False]).answers]
    found = acceptance(answers)
    assert found.value + 2.5 * found.stderr > 1.0
    assert 0.0 < found.low < found.value < found.high == 1.0


def test_a_summary_tells_what_follows_an_acceptance() -> None:
    """Three answers of + + -: half of what follows an acceptance is accepted, nothing follows a refusal."""
    text = "\n".join(summarise(measured([True, True, False])))
    assert "step acceptance           0.667 [0.667, 0.667]" in text
    assert "after accepted, rejected  0.500 [" in text
    assert "]; not seen\n" in text
    assert "sd 0.000 beyond chance" in text
