"""The fast engine against its specification, the virtual clock: on the same answers, the same times."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sim_worlds import batch_engines, drawn_answers

from sim.algorithms import PAPER, Rules, lookahead_async, lookahead_sync
from sim.algorithms.autoregressive import autoregressive
from sim.algorithms.checks import CASCADE, Check
from sim.algorithms.graded import graded_drafts
from sim.algorithms.rules import PRESETS
from sim.answers.acceptance import Acceptance
from sim.answers.drawn import DrawnAnswer, SyntheticBehaviour
from sim.answers.facts import Quality
from sim.answers.lengths import Fixed, Lengths, Lognormal
from sim.answers.token_passes import DrawnPasses
from sim.catalogue import method
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost, TableCost
from sim.engines.fixed import FixedEngine, PerToken
from sim.engines.protocol import Engine
from sim.fast.choosing import fast_seconds
from sim.fast.controls import mean_tokens
from sim.fast.draws import Answers, blocks_of
from sim.fast.one_by_one import runs_one_by_one
from sim.fast.recursions import async_seconds, sync_seconds
from sim.operations import MakeAlgorithm
from sim.roles import TARGET
from sim.serving.engine import ServingEngine
from sim.serving.limits import ENDLESS, Joined, JoinLaw
from sim.timeline import Counts
from sim.trial import Trial, session_of, trial_seconds

EXACT = 1e-9  # relative; sums in another order differ by 1e-15 for each of a hundred terms

FIXED: Mapping[str, Engine] = {
    "target": FixedEngine(PerToken(0.01, 0.003)),
    "draft": FixedEngine(PerToken(0.0031, 0.0007)),
    "judge": FixedEngine(0.11),
    "gate": FixedEngine(0.023),
    "embedding": FixedEngine(0.017),
    "scorer": FixedEngine(0.031),
    "reward": FixedEngine(0.019),
}


@st.composite
def behaviours(draw: st.DrawFn) -> SyntheticBehaviour:
    share = st.floats(0.0, 1.0)
    step = draw(st.sampled_from([Lognormal(mean=40.0, cv=1.2), Lognormal(mean=7.0, cv=0.4), Fixed(13)]))
    return SyntheticBehaviour(
        lengths=Lengths(
            target=step,
            draft=draw(st.sampled_from([step, Lognormal(mean=31.0, cv=0.9)])),
            correlation=draw(st.sampled_from([-1.0, 0.0, 0.6, 1.0])),
            lag1=draw(st.sampled_from([0.0, 0.37])),
            limit=draw(st.sampled_from([None, 50])),
        ),
        acceptance=Acceptance(
            alpha=draw(st.floats(0.05, 0.95)),
            persistence=draw(st.sampled_from([0.0, 0.6])),
            spread=draw(st.sampled_from([0.0, 0.1])),
        ),
        steps=draw(st.sampled_from([Fixed(1), Fixed(23), Lognormal(mean=20.0, cv=0.5)])),
        prompt_tokens=17,
        seed=draw(st.integers(0, 2**32)),
        block=draw(st.sampled_from([1, 2, 5])),
        quality=draw(
            st.none() | st.builds(Quality, escalation=share, gate_error=share, wrong_accepted=share, wrong_target=share)
        ),
    )


def check(algorithm: MakeAlgorithm, behaviour: SyntheticBehaviour, *, always: bool = True) -> bool:
    """Compare the times of some answers; return whether they are known to it, as they must be ``always``."""
    trial = Trial.of(algorithm, behaviour, FIXED)
    expected = [session_of(trial, i).finished for i in range(5)]
    known = fast_seconds(algorithm, behaviour, FIXED, range(5))
    assert known is not None or not always
    if known is not None:
        assert known.tolist() == pytest.approx(expected, rel=EXACT)
    assert trial_seconds(trial, range(5)).tolist() == (expected if known is None else known.tolist())
    return known is not None


@given(
    behaviours(),
    st.integers(1, 7),
    st.sampled_from([*PRESETS.values(), Rules(prefetch_draft=False), Rules(restart="in-order", extra_in_flight=2)]),
    st.sampled_from(["judge", "embedding", "exact", "gate", CASCADE]),
    st.sampled_from([0.3, 0.9]),
)
@settings(max_examples=60, deadline=None)
def test_asynchronous_lookahead_takes_the_same_time(
    behaviour: SyntheticBehaviour, k1: int, rules: Rules, verifier: str, gamma: float
) -> None:
    """Unknown only where the order of events at one moment may decide, or no draft ever starts."""
    make = partial(lookahead_async, k1=k1, rules=rules, check=Check(verifier=verifier, gamma=gamma))
    check(make, behaviour, always=rules.late_draft == "wait" and rules.prefetch_draft)


@given(behaviours(), st.integers(1, 7), st.sampled_from(["judge", "exact"]))
@settings(max_examples=30, deadline=None)
def test_synchronous_lookahead_takes_the_same_time(behaviour: SyntheticBehaviour, k1: int, verifier: str) -> None:
    check(partial(lookahead_sync, k1=k1, check=Check(verifier=verifier)), behaviour)


@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("lr-async", {}),
        ("lr-async", {"rules": "released-code", "k1": 6}),
        ("lr-async", {"rules": "eager", "verifier": "embedding"}),
        ("lr-sync", {"k1": 3}),
        ("confspec", {}),
        ("spec-reason", {"first": 3}),
        ("rsd", {}),
        ("autoregressive", {}),
    ],
)
def test_methods_of_the_catalogue_are_run_by_it(name: str, knobs: dict[str, int | str]) -> None:
    """As plans and sweeps name them; it is chosen by itself."""
    quality = Quality(escalation=0.4)
    drawn = drawn_answers(40.0, cv=1.2, alpha=0.7, steps=40, correlation=0.6, persistence=0.3, quality=quality)
    check(method(name).build(**knobs), drawn)


@pytest.mark.parametrize(
    "other",
    [
        partial(lookahead_async, k1=3, width=2),
        partial(lookahead_async, k1=3, rules=replace(PAPER, slot="any-target")),
        partial(lookahead_async, k1=3, rules=replace(PAPER, fallback="none")),
        partial(lookahead_async, k1=3, check=Check(verifier="random")),
        partial(lookahead_sync, k1=3, rules=PRESETS["eager"]),
    ],
)
def test_what_it_cannot_run_exactly_is_left_to_the_virtual_clock(other: MakeAlgorithm) -> None:
    assert not check(other, drawn_answers(10, alpha=0.5, steps=5), always=False)


@pytest.mark.parametrize("rules", ["eager", "paper"])
def test_ties_are_left_to_the_virtual_clock(rules: str) -> None:
    """A draft that ends at the very moment of its target step: in time or late, the order of events decides."""
    make = partial(lookahead_async, k1=2, rules=PRESETS[rules])
    engines = {**FIXED, "draft": FIXED["target"]}
    known = fast_seconds(make, drawn_answers(10, alpha=0.5, steps=9), engines, range(3))
    assert (known is None) == (rules == "eager")


INDICES = st.lists(st.integers(0, 2**40), min_size=1, max_size=6) | st.builds(
    range, st.integers(0, 9), st.integers(10, 20)
)


@given(behaviours(), INDICES)
@settings(max_examples=40, deadline=None)
def test_draws_are_those_of_single_answers(behaviour: SyntheticBehaviour, indices: Sequence[int]) -> None:
    limit = behaviour.lengths.limit or math.inf
    (answers,) = blocks_of(behaviour, indices)
    for row, index in enumerate(indices):
        one = DrawnAnswer(behaviour, index)
        assert answers.n_steps[row] == one.n_steps
        own = (row, slice(one.n_steps))
        target, draft, accepted = (each[own] for each in (answers.target, answers.draft, answers.accepted))
        assert target.tolist() == np.minimum(one.target_lengths(), limit).tolist()
        assert draft.tolist() == np.minimum(one.draft_lengths(), limit).tolist()
        assert accepted.tolist() == one.accepted()


def test_answers_that_share_streams_have_the_same_distribution() -> None:
    """Means, spreads, correlations and verdicts: 18 comparisons at 4.9 standard errors, false alarm 1.8e-5."""
    n, alpha, step = 4096, 0.31, Lognormal(mean=40.0, cv=1.2)
    alone, shared = (
        np.concatenate([_features(answers) for answers in blocks_of(behaviour, range(n))])
        for behaviour in (
            drawn_answers(step, alpha=alpha, steps=40, correlation=0.6, lag1=0.37, limit=100, seed=8, block=block)
            for block in (1, 512)
        )
    )
    variance = alone.var(axis=0, ddof=1), shared.var(axis=0, ddof=1)
    assert np.all(np.abs(shared.mean(axis=0) - alone.mean(axis=0)) <= 4.9 * np.sqrt(sum(variance) / n))
    for features, own in zip((alone, shared), variance, strict=True):  # and what is known of both
        assert abs(features[:, 0].mean() - alpha) <= 4.9 * math.sqrt(alpha * (1.0 - alpha) / n / 40)
        assert abs(features[:, 1].mean() - (mean_tokens(step, 100) or 0.0)) <= 4.9 * math.sqrt(own[1] / n)


def _features(answers: Answers) -> NDArray[np.float64]:
    """Of each answer: verdicts, tokens, squares, products with the neighbour and between the models, cuts."""
    yes, target, draft = (one.astype(np.float64) for one in (answers.accepted, answers.target, answers.draft))
    found = [yes, target, draft, target**2, draft**2, target * draft, answers.target_cut, yes * target]
    pairs = [one[:, 1:] * one[:, :-1] for one in (yes, target, draft)]
    ends = [yes[:, :1], yes[:, -1:], target[:, -1:]]
    return np.column_stack([one.mean(axis=1) for one in (*found, *pairs, *ends)])


@pytest.mark.parametrize("rules", PRESETS.values(), ids=PRESETS)
def test_compiled_code_says_the_same_to_the_last_bit(rules: Rules) -> None:
    pytest.importorskip("numba")
    rng = np.random.default_rng(3)
    shape = (50, 80)
    target, draft = rng.lognormal(size=shape), rng.lognormal(-1.0, size=shape)
    flags = rng.random((3, *shape)) < 0.6
    n_steps = rng.integers(1, shape[1] + 1, shape[0])
    run = partial(async_seconds, target, draft, flags[0], np.float64(0.3), n_steps, k1=4, rules=rules)
    compiled, plain = (run(target_cut=flags[1], draft_cut=flags[2], compiled=one) for one in (True, False))
    assert compiled is not None
    assert plain is not None
    assert compiled.tolist() == plain.tolist()
    cycles = [sync_seconds(target, draft, flags[0], n_steps, k1=4, verify_s=0.3, compiled=one) for one in (True, False)]
    assert cycles[0].tolist() == cycles[1].tolist()


TABLE = TableCost(batches=(1, 2, 8), seconds=(0.02, 0.021, 0.03), context_s=1e-6, prefill_s=0.005, request_s=0.005)
DRAFTER = BatchEngine(LinearCost(base_s=0.004, prefill_token_s=1e-5, context_s=1e-7), waking_s=0.001)
SERVED = ServingEngine(Joined(TABLE, JoinLaw(outside_s=0.002)), limits=ENDLESS, waking_s=0.004)


@pytest.mark.parametrize("algorithm", [autoregressive, partial(graded_drafts, threshold=7.0, first=2)])
@pytest.mark.parametrize("speculated", [False, True])
@pytest.mark.parametrize(
    "engines",
    [
        batch_engines(None),
        {"target": BatchEngine(TABLE, waking_s=0.004), "draft": DRAFTER},
        {"target": SERVED, "draft": DRAFTER},
    ],
    ids=["batching", "waking", "serving"],
)
def test_methods_without_concurrency_on_batching_engines(
    algorithm: MakeAlgorithm, speculated: bool, engines: dict[str, Engine]
) -> None:
    """Times and all that is counted, with what rests, prompts and contexts cost."""
    quality = Quality(wrong_accepted=0.2, wrong_target=0.1, corruption=0.5)
    sizes = {"limit": 90, "prompt_tokens": 200, "judge_overhead_tokens": 50}
    behaviour = drawn_answers(40.0, cv=1.2, alpha=0.7, steps=30, quality=quality, **sizes)
    passes = {TARGET: DrawnPasses(pmf=(0.4, 0.3, 0.3), seed=1)} if speculated else {}
    trial = Trial.of(algorithm, behaviour, engines).speculating(passes)
    found = runs_one_by_one(trial.algorithm, trial.answer, engines, range(6))
    assert found is not None
    sessions = [session_of(trial, i) for i in range(6)]
    assert found[0] == pytest.approx([session.finished for session in sessions], rel=EXACT)
    assert list(found[1]) == [Counts.of(session) for session in sessions]


@given(
    st.floats(0.01, 10.0),
    st.floats(0.01, 10.0),
    st.sampled_from([0.0, 0.3]),
    st.floats(0.0, 1.0),
    st.integers(1, 7),
    st.sampled_from([PAPER, replace(PAPER, restart="in-order"), replace(PAPER, extra_in_flight=2)]),
    st.integers(0, 2**32),
)
@settings(max_examples=100, deadline=None)
def test_constant_times_by_runs_are_those_of_the_recursion(
    target: float, draft: float, verify: float, alpha: float, k1: int, rules: Rules, seed: int
) -> None:
    """Answers of one length and of many; a run has at most as many roundings as an answer has steps."""
    rng = np.random.default_rng(seed)
    accepted = rng.random((20, 30)) < alpha
    for n_steps in (np.full(20, 30), rng.integers(1, 31, 20)):
        by_runs, step_by_step = (
            async_seconds(
                *(shaped(target), shaped(draft), accepted, np.float64(verify), n_steps),
                k1=k1,
                rules=rules,
                target_cut=accepted,
                draft_cut=accepted,
                compiled=False,
            )
            for shaped in (lambda s: np.broadcast_to(s, accepted.shape), lambda s: np.full(accepted.shape, s))
        )
        assert by_runs == pytest.approx(step_by_step, rel=30 * np.finfo(float).eps)
