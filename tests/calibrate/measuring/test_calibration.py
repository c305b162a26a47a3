"""A small calibration of the bundled pair, for real: complete, resumable, and what it says can be recomputed."""

from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from bundled_pair import BundledPair, brief_problems
from refusals import refuses

from calibrate.engines.speculation import Decoding
from calibrate.measuring.answers import measure_answer
from calibrate.measuring.calibration import calibrate_models
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.measuring.plan import CalibrationPlan
from calibrate.measuring.stopping import Stopping
from calibrate.models.asking import bundled_truth
from calibrate.models.local import TorchModels
from calibrate.record.profile import Profile
from calibrate.replay.summary import acceptance, cost_ratio, replay_error, summarise
from calibrate.replay.system import system_of
from calibrate.replay.traces import trace_of
from sim.algorithms import autoregressive, lookahead_async
from sim.answers.traces import StepTrace
from sim.configuration import PLAIN
from sim.trial import run_answer
from specplan.planning.predict import Predictor

N_TEXTS = 1
OPTIONS = MeasureOptions(batches=(1, 2), contexts=(8,), iterations=4, prefills=(4, 32), repeats=2, rounds=2)
TOKENS = (
    Decoding(method="prompt-lookup", knobs={"k2": 4, "max_ngram": 2}),
    Decoding(method="draft-model", knobs={"k2": 3}),
)


def plan(n: int = 2) -> CalibrationPlan:
    return CalibrationPlan(
        models=BundledPair.models,
        problems=tuple(brief_problems(n, 5, "calibration")),
        texts=tuple(brief_problems(n + N_TEXTS, 5, "calibration")[n:]),
        truth=bundled_truth(),
        engine=OPTIONS,
        token=TOKENS,
        n_token_answers=1,
        warm_up_s=0.05,
        name="small",
    )


@pytest.fixture(scope="module")
def profile(bundled_pair: BundledPair, tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """A whole calibration, on engines that run already."""
    journal, parts = tmp_path_factory.mktemp("session") / "small.json.part", list[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TorchModels, "open", lambda _models: bundled_pair.opened())
        found: Profile = bundled_pair.run(calibrate_models(plan(), journal, progress=parts.append))
    assert len(parts) == plan().n_parts
    return found


@pytest.mark.slow
def test_the_profile_is_complete(profile: Profile) -> None:
    assert Profile.parse(profile.to_json()) == profile
    assert [answer.problem for answer in profile.answers] == [p.name for p in plan().problems]
    for answer in profile.answers:
        assert answer.baseline[-1].final
        last = answer.steps[-1]
        assert (last.draft if last.verdict.accepted else last.target).final
        assert answer.baseline_correct is not None
    for engine in profile.engines.values():
        assert {sample.batch for sample in engine.decode} == {1, 2}
        assert {sample.tokens for sample in engine.prefill} == {4, 8, 11, 32}  # sequences of a batch differ by 3
        assert engine.warmup_decode
        assert len(engine.in_use) == len(profile.answers)
        assert all(one.request[0] > 0 and one.prefill[2] > 0.0 for one in engine.in_use)
        assert all(one.beside is not None for one in engine.in_use)
        assert len(engine.plain_in_use) == len(profile.answers)
        assert min(sample.seconds for sample in engine.decode) > 0.0
    for answer, alone, own in zip(
        profile.answers, profile.engines["target"].plain_in_use, profile.engines["draft"].plain_in_use, strict=True
    ):
        # Decoded as in the recorded baseline, with the same seed: one prefill, and the other tokens one by one.
        assert alone.prefill[0] == 1
        assert sum(n for _, n, _, _ in alone.decode) == sum(step.tokens for step in answer.baseline) - 1
        assert alone.undisturbed.decode == alone.decode
        # Then the draft answers alone, the first of its prefills after a rest.
        assert own.undisturbed.decode == own.decode
        assert own.prefill[0] >= own.waking[0] >= 1
    for stepwise in profile.engines["target"].stepwise_in_use:
        assert stepwise.prefill[0] > 1
    assert len(profile.engines["target"].stepwise_in_use) == len(profile.answers)
    tokens = sum(step.tokens for answer in profile.all_answers for step in answer.baseline)
    # The ids of the answers lack only the end-of-text tokens, one per answer.
    assert [record.tokens for record in profile.ngram] == [tokens - len(profile.all_answers)] * 3


@pytest.mark.slow
def test_answers_made_several_at_a_time_say_what_they_say_alone(profile: Profile, bundled_pair: BundledPair) -> None:
    """Seeds name the question, not its company."""
    texts = plan().texts
    asked = plan().models.inspection()
    alone = [
        bundled_pair.run(measure_answer(bundled_pair.clock, text, bundled_truth(), asked)).record for text in texts
    ]
    for together, one in zip(map(trace_of, profile.texts), map(trace_of, alone), strict=True):
        assert (together.problem, together.baseline) == (one.problem, one.baseline)
        assert [_said(step) for step in together.steps] == [_said(step) for step in one.steps]
    assert all(text.alone for text in profile.texts)
    assert len(profile.all_answers) == len(profile.answers) + len(texts)
    assert Predictor(profile, uncertainty=False).predict(PLAIN).speedup.n == len(profile.all_answers)


def _said(step: StepTrace) -> tuple[Any, ...]:
    """Lengths, ends, verdict and truth; scores round otherwise in batches."""
    return step.draft_tokens, step.target_tokens, step.draft_final, step.target_final, step.accepted, step.draft_right


def test_answers_with_token_level_methods_are_spread_evenly() -> None:
    """With a stopping rule, which may come early, they are the first ones."""

    def taken(one: CalibrationPlan) -> list[int]:
        return [index for index in range(len(one.problems)) if one.takes_token_answer(index)]

    assert taken(replace(plan(10), n_token_answers=4)) == [2, 4, 7, 9]
    assert taken(replace(plan(2), n_token_answers=40)) == [0, 1]
    settings = [Decoding(method="draft-model", knobs={"k2": k2}) for k2 in range(2, 14)]
    for n_settings, n_taken in ((2, 100), (6, 80), (12, 40)):
        assert len(taken(replace(plan(100), n_token_answers=None, token=tuple(settings[:n_settings])))) == n_taken
    rule = Stopping(precision=0.05, min_answers=2, max_answers=10)
    assert taken(replace(plan(10), n_token_answers=4, stopping=rule)) == [0, 1, 2, 3]


def test_engines_are_timed_more_often_beside_more_answers() -> None:
    """A round takes as long as several answers; few answers leave more open than few timings do."""
    untold = MeasureOptions(batches=(1,), contexts=(8, 64))
    plans = {n: replace(plan(n), engine=untold) for n in (2, 6, 7, 10, 17, 60)}
    assert {n: each.n_rounds for n, each in plans.items()} == {2: 4, 6: 4, 7: 6, 10: 6, 17: 12, 60: 12}
    assert plan(60).n_rounds == OPTIONS.rounds == 2
    rule = Stopping(precision=0.1, min_answers=6, max_answers=17, growth=1.4)
    assert replace(plans[17], stopping=rule).n_rounds == 4  # those before the first look
    assert plans[7].settings() == plans[60].settings()  # a journal goes on with another number of answers


def test_contexts_take_turns() -> None:
    """Each as often as another unless a number was named, all at once where there are too few rounds."""
    many = replace(plan(60), engine=MeasureOptions(batches=(1,), contexts=(8, 64)))
    assert [many.options_of_round(i).contexts for i in range(3)] == [(8,), (64,), (8,)]
    assert len({many.options_of_round(i).seed for i in range(12)}) == 12
    once = replace(many, engine=replace(many.engine, rounds=1))
    assert once.options_of_round(0).contexts == (8, 64)
    n = many.models.n_engines
    assert many.clients == (2, 4, 8)
    assert many.n_parts == n * (12 * many.options_of_round(0).n_parts + 1) + 60 + len(many.texts) + 2 * 3


@pytest.mark.slow
def test_token_level_methods_answer_some_problems(profile: Profile) -> None:
    """With prompt lookup the answers are those of plain decoding, so the recorded steps have the same tokens."""
    assert [(record.method, record.settings) for record in profile.token] == [(t.method, t.knobs) for t in TOKENS]
    for record in profile.token:
        assert [answer.problem for answer in record.answers] == [answer.problem for answer in profile.answers[1:]]
        assert record.accepted_at[0] > 0
    baseline = {answer.problem: answer.baseline for answer in profile.answers}
    for spoken in profile.token[0].answers:
        (request,) = spoken.requests
        assert request.steps == list(accumulate(step.tokens for step in baseline[spoken.problem]))
        assert request.tokens == request.steps[-1]
    assert {sample.tokens for sample in profile.engines["target"].decode} >= {1, 16}
    own = {(s.by, s.tokens, s.batch) for s in profile.engines["target"].decode if s.by in ("draft-model", "eagle")}
    assert own == {("draft-model", 2, 1), ("draft-model", 6, 1), ("eagle", 4, 1), ("eagle", 8, 1)}


@pytest.mark.slow
def test_the_summary_is_recomputed_by_hand(profile: Profile) -> None:
    steps = [step for answer in profile.answers for step in answer.steps]
    assert acceptance(profile.answers).value == pytest.approx(np.mean([s.verdict.accepted for s in steps]))
    ratio = sum(s.draft.seconds for s in steps) / sum(s.target.seconds for s in steps)
    assert cost_ratio(profile.answers).value == pytest.approx(ratio)
    assert set(replay_error(profile)) == {"baseline", "target", "draft"}
    assert summarise(profile)[0].startswith("small: 2 answers")


@pytest.mark.slow
def test_the_system_replays_the_recorded_answers(profile: Profile) -> None:
    system = system_of(profile)
    for index, answer in enumerate(profile.answers):
        session = run_answer(lambda root: lookahead_async(root, k1=3), system.behaviour.answer(index), system.engines())
        committed = [(s.draft if s.verdict.accepted else s.target).tokens for s in answer.steps]
        assert [step.n_tokens for step in session.committed] == committed
        alone = run_answer(autoregressive, system.behaviour.baseline_answer(index), system.engines())
        assert [step.n_tokens for step in alone.committed] == [step.tokens for step in answer.baseline]


test_bad_plans = refuses(plan, ({"n": 1}, "at least 2"))
test_bad_options = refuses(
    MeasureOptions,
    ({"batches": (2,)}, "must contain 1"),
    ({"batches": ()}, "non-empty"),
    ({"contexts": (0,)}, ">= 1"),
    ({"iterations": 1}, ">= 2"),
)


test_bad_model_sets = refuses(
    TorchModels,
    ({"temperature": -1.0}, "temperature"),
    ({"judge_threshold": float("nan")}, "judge_threshold"),
    ({"max_steps": 0}, "max_steps"),
    ({"target": "somewhere"}, "draft"),
)
