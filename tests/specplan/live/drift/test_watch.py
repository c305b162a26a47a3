"""Watching a live server for drift, and planning again from what was seen."""

import random

import pytest
from measured_profiles import STEP_TOKENS, measured

from calibrate.record.library import load
from calibrate.record.profile import Profile
from calibrate.running.session import WallSession
from sim.configuration import Configuration
from sim.operations import Generate, Outcome, Step, Verdict, Verify, prompt
from sim.roles import DRAFT, TARGET
from specplan.live.drift.expected import Band, TokenTime, acceptance, lengths, token_times
from specplan.live.drift.replan import LEAST_ANSWERS, Recorder
from specplan.live.drift.replan import recorded as answer_of
from specplan.live.drift.watch import DriftWatch
from theory.errors import CalibrationError

BAND = Band(value=0.8, low=0.78, high=0.82)
TIMES = TokenTime(by_batch={1: 0.01, 4: 0.013})


def rank(tokens: int) -> float:
    return min(max((tokens - 10) / 20, 0.0), 1.0)


def fed(seed: int, steps: int, *, p: float = 0.8, longer: int = 0, slower: float = 1.0) -> DriftWatch:
    lengths = {"target": (Band(value=0.5, low=0.47, high=0.53), rank)}
    rng, found = random.Random(seed), DriftWatch(accepted=BAND, lengths=lengths, token_times={"target": TIMES})
    for _ in range(steps):
        found.judged(rng.random() < p)
        found.wrote("target", rng.randint(10, 30) + longer)
        found.timed("target", 1, 0.01 * slower * rng.lognormvariate(0.0, 0.1))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_reported_where_nothing_moved(seed: int) -> None:
    """At most half of the steps are predicted to be slower by the margin: that nearly none is, is as predicted."""
    found = fed(seed, 3_000)
    for _ in range(100):
        found.timed("target", 9, 1.0)  # times of larger batches than were measured are not judged
    assert found.findings == ()
    assert TIMES.at(2) == pytest.approx(0.011)


@pytest.mark.parametrize(
    ("change", "what", "said"),
    [
        ({"p": 0.6}, "acceptance", "predicted was 0.80 [0.78, 0.82]"),
        ({"p": 0.97}, "acceptance", "acceptance of drafts is "),
        ({"longer": 8}, "target length", "longer than recorded"),
        ({"longer": -8}, "target length", "shorter than recorded"),
        ({"slower": 1.6}, "target slower", "1.6"),
        ({"slower": 0.5}, "target faster", "0.5"),
    ],
)
def test_what_moved_is_named(change: dict[str, float], what: str, said: str) -> None:
    (finding,) = fed(1, 600, **change).findings  # type: ignore[arg-type]
    assert finding.what == what
    assert said in finding.text
    assert finding.since < finding.at <= 600


def test_a_profile_says_what_to_expect() -> None:
    profile = measured([True] * 9 + [False] * 3)
    judged = acceptance(profile, Configuration.parse("lr-async k1=2"))
    assert judged is not None
    assert judged.value == pytest.approx(0.75)
    # 36 steps: at least as wide as if they were independent
    assert (judged.low, judged.high) == pytest.approx((0.75 - 0.1415, 0.75 + 0.1415), abs=1e-3)
    assert acceptance(profile, Configuration.parse("lr-async k1=2 threshold=0.9")) is None  # it recorded no scores
    known = lengths(profile, "target")
    assert known is not None
    band, rank_of = known
    assert (rank_of(STEP_TOKENS - 1), rank_of(STEP_TOKENS), rank_of(STEP_TOKENS + 1)) == (0.0, 0.5, 1.0)
    assert band.low < 0.5 < band.high
    assert token_times(profile)["target"].at(3) == pytest.approx(0.010)
    published = load("lr-deepseek-gsm8k")  # which has no single steps
    assert acceptance(published, Configuration.parse("lr-async k1=2")) is None
    assert lengths(published, "target") is None
    assert token_times(published) == {}


def by_length(seed: int, lengths: tuple[int, int] = (8, 60)) -> Profile:
    """Answers whose steps are all short and right, or all long and right half of the time."""
    rng, known = random.Random(seed), measured([True])
    (template,) = known.answers[0].steps
    answers = []
    for number in range(30):
        steps = []
        for i in range(8):
            of = {"tokens": lengths[number % 2], "final": i == 7}
            said = {"accepted": number % 2 == 0 or rng.random() < 0.5}
            parts = {name: getattr(template, name).model_copy(update=of) for name in ("draft", "target")}
            steps.append(template.model_copy(update={**parts, "verdict": template.verdict.model_copy(update=said)}))
        answers.append(known.answers[0].model_copy(update={"problem": str(number), "steps": steps}))
    return known.model_copy(update={"answers": answers})


def test_acceptance_is_predicted_by_length_and_answers_are_alike_no_more() -> None:
    runs = Configuration.parse("lr-async k1=2")
    whole, kinds = (acceptance(by_length(1, lengths), runs) for lengths in ((30, 30), (8, 60)))
    assert whole is not None
    assert whole.kinds is None
    assert kinds is not None
    assert whole.alike > 2.5  # answers are all right, or right half of the time
    assert kinds.alike < 1.6
    assert kinds.kinds is not None
    assert kinds.kinds.records[kinds.kinds.of(8)].value == 1.0
    assert 0.3 < kinds.kinds.records[kinds.kinds.of(60)].value < 0.7
    assert kinds.kinds.of(10_000) == kinds.kinds.of(60)


@pytest.mark.parametrize(("share", "drifts"), [(0.5, False), (0.1, True)])
def test_a_drift_of_one_kind_is_found(share: float, drifts: bool) -> None:
    rng = random.Random(2)
    found = DriftWatch(accepted=acceptance(by_length(1), Configuration.parse("lr-async k1=2")))
    for number in range(60):
        for _ in range(8):
            short = number % 2 == 0
            found.judged(short or rng.random() < share, 8 if short else 60)
    assert bool(found.findings) == drifts


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
        recorder.keep(*answer_of(one))
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


def test_positions_without_a_verdict_and_answers_that_were_not_ended_are_left_out() -> None:
    found = recorded(*(session([True, True, True], without=2) for _ in range(LEAST_ANSWERS))).profile({})
    assert [step.target.final for step in found.answers[0].steps] == [False, True]
    assert any(f"positions left out: {LEAST_ANSWERS};" in note for note in found.provenance.notes)
    unfinished = session([True, True])
    unfinished.committed.pop()
    with pytest.raises(CalibrationError, match="0 answers"):
        recorded(unfinished).profile({})
