"""A new profile from live traffic, against runs whose steps and verdicts are known."""

import pytest
from measured_profiles import measured

from calibrate.record.profile import Profile
from calibrate.running.session import WallSession
from sim.operations import Generate, Outcome, Step, Verdict, Verify, prompt
from sim.roles import DRAFT, TARGET
from specplan.live.drift.replan import LEAST_ANSWERS, Recorder
from theory.errors import CalibrationError

OLD = measured([True] * 9 + [False] * 3)


def session(verdicts: list[bool], *, without: int | None = None) -> WallSession:
    """A run of these verdicts; at one position the judge was not asked."""
    run, before = WallSession("q"), prompt(7)
    for i, accepted in enumerate(verdicts):
        last = i == len(verdicts) - 1
        draft, target = Generate(DRAFT, before), Generate(TARGET, before)
        draft.result, target.result = Step(before, DRAFT, 5, last), Step(before, TARGET, 9, last)
        draft.started, draft.finished, target.started, target.finished = 0.0, 0.1, 0.0, 0.3
        run.operations += [draft, target]
        if i != without:
            verify = Verify(draft.result, target.result)
            verify.job, verify.result = None, Verdict(accepted, float(accepted))
            verify.started, verify.finished = 0.0, 0.05
            verify.outcome = Outcome.ACCEPTED if accepted else Outcome.REJECTED
            run.operations.append(verify)
        before = draft.result if accepted else target.result
        run.committed.append(before)
    return run


def recorded(*sessions: WallSession) -> Recorder:
    recorder = Recorder(OLD)
    for one in sessions:
        recorder.ran(one)
    return recorder


def test_the_new_profile_has_what_was_seen_and_the_rest_of_an_answer_is_not_an_answer() -> None:
    rest = session([True, False, True, True])
    rest.committed = rest.committed[1:]  # plain decoding wrote the beginning
    recorder = recorded(*(session([True, False, True]) for _ in range(LEAST_ANSWERS)), rest)
    found = recorder.profile({"target": 2.0, "draft": 0.5}, ["measured at 4 in flight: it gains"])
    assert Profile.parse(found.to_json()) == found
    steps = [step for answer in found.answers for step in answer.steps]
    assert [step.verdict.accepted for step in steps] == [True, False, True] * LEAST_ANSWERS
    assert {(step.draft.tokens, step.target.tokens) for step in steps} == {(5, 9)}
    assert all([step.target.final for step in answer.steps] == [False, False, True] for answer in found.answers)
    assert {answer.prompt_tokens for answer in found.answers} == {7}
    for engine, ratio in (("big", 2.0), ("small", 0.5)):
        before, after = OLD.engines[engine].decode[0], found.engines[engine].decode[0]
        assert after.seconds == pytest.approx(ratio * before.seconds)
    assert any("live traffic" in note for note in found.provenance.notes)
    assert found.provenance.notes[-1] == "measured at 4 in flight: it gains"


def test_positions_without_a_verdict_are_left_out_and_counted() -> None:
    found = recorded(*(session([True, True, True], without=2) for _ in range(LEAST_ANSWERS))).profile({})
    assert [step.target.final for step in found.answers[0].steps] == [False, True]
    assert any(f"positions left out: {LEAST_ANSWERS};" in note for note in found.provenance.notes)


def test_answers_that_were_not_ended_make_no_profile() -> None:
    unfinished = session([True, True])
    unfinished.committed.pop()
    with pytest.raises(CalibrationError, match="0 answers"):
        recorded(unfinished).profile({})
