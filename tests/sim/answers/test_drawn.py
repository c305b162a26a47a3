"""Behaviours: laws of what is drawn, indexing that no schedule can disturb, and replay."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from scipy import stats
from sim_worlds import replayed, seconds_per_token

from sim.algorithms import PAPER, RELEASED_CODE, autoregressive, lookahead_async, lookahead_sync, paired_trajectory
from sim.algorithms.rules import Rules
from sim.answers.acceptance import Acceptance
from sim.answers.drawn import DrawnAnswer, SyntheticBehaviour, TraceBehaviour
from sim.answers.lengths import Fixed, Lengths, Lognormal
from sim.answers.token_passes import DrawnPasses, SpeculatedAnswer
from sim.answers.traces import AnswerTrace, StepTrace
from sim.operations import Generate, MakeAlgorithm, Step, Verify
from sim.roles import DRAFT, TARGET
from sim.trial import run_answer
from theory.branches import accepted_among
from theory.errors import ParameterError

Z = float(stats.norm.isf(1e-6 / 2))
"""Standard errors; a false alarm has probability 1e-6."""


def behaviour(**changes: object) -> SyntheticBehaviour:
    settings_: dict[str, object] = {
        "lengths": Lengths(target=Lognormal(mean=40.0, cv=1.2), draft=Lognormal(mean=30.0, cv=1.0), correlation=0.6),
        "acceptance": Acceptance(alpha=0.6),
        "steps": Fixed(12),
        "prompt_tokens": 100,
        "judge_overhead_tokens": 50,
        "seed": 7,
    }
    return SyntheticBehaviour(**(settings_ | changes))  # type: ignore[arg-type]


ENGINES = seconds_per_token(0.01, 0.003, judge_s=0.02)


def texts(answer: SpeculatedAnswer, make: MakeAlgorithm) -> dict[tuple[str, int, int], tuple[int, ...]]:
    """Tokens of what was generated and of its passes, by role, depth and branch."""
    found: dict[tuple[str, int, int], tuple[int, ...]] = {}
    for op in run_answer(make, answer, ENGINES).operations:  # type: ignore[arg-type]
        if isinstance(op, Generate) and isinstance(op.pending, Step):  # not cancelled
            passes = op.pending.passes.tokens if op.pending.passes else ()
            key, text = (op.role, op.prefix.depth + 1, op.branch), (op.pending.n_tokens, *passes)
            assert found.setdefault(key, text) == text
    return found


@given(seed=st.integers(0, 2**31), k1=st.integers(1, 6), width=st.integers(1, 3), index=st.integers(0, 10**9))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_every_schedule_meets_the_same_answer(seed: int, k1: int, width: int, index: int) -> None:
    """With the same passes; drawn anew each time."""

    def answer() -> SpeculatedAnswer:
        passes = {TARGET: DrawnPasses(pmf=(0.3, 0.3, 0.4), seed=seed)}
        return SpeculatedAnswer(DrawnAnswer(behaviour(seed=seed), index), passes, index)  # type: ignore[arg-type]

    one = texts(answer(), partial(lookahead_async, k1=k1, width=width))
    for make in (autoregressive, partial(lookahead_sync, k1=3), partial(lookahead_async, k1=4, rules=RELEASED_CODE)):
        other = texts(answer(), make)
        assert {key: one[key] for key in one.keys() & other.keys()}.items() <= other.items()


def test_lognormal_lengths_have_the_asked_moments_and_correlations() -> None:
    """Means within the normal margin; correlations by Fisher's z. False alarm 1e-6 each."""
    n = 40_000
    lengths = Lengths(target=Lognormal(mean=4000.0, cv=0.8), draft=Lognormal(mean=3000.0, cv=0.8), correlation=0.6)
    z = lengths.target_scores(3, 0, n)
    target, *drafts = (
        lengths.target.at(z),
        *(lengths.draft.at(lengths.draft_scores(3, 0, z, branch)) for branch in (0, 1)),
    )
    for x, mean in ((target, 4000.0), (drafts[0], 3000.0)):
        assert abs(x.mean() - mean) <= Z * x.std() / math.sqrt(n)
    for one, other, expected in ((target, drafts[0], 0.6), (drafts[0], drafts[1], 0.36)):
        r = float(np.corrcoef(np.log(one), np.log(other))[0, 1])
        assert abs(math.atanh(r) - math.atanh(expected)) <= Z / math.sqrt(n - 3)


def test_limit_truncates_both_models() -> None:
    answer = behaviour(lengths=Lengths(target=Fixed(150), draft=Fixed(99), limit=100)).answer(0)
    target, draft = (answer.generate(Generate(role, answer.root)) for role in (TARGET, DRAFT))
    assert (target.n_tokens, target.truncated) == (100, True)
    assert (draft.n_tokens, draft.truncated) == (99, False)
    assert answer.judge_tokens(Verify(draft, target)) == 50 + 100 + 99


@pytest.mark.parametrize(
    "acceptance",
    [Acceptance(alpha=0.6, spread=0.2, persistence=0.5, siblings=0.5), Acceptance(alpha=0.6, siblings=1.0)],
)
def test_every_branch_has_the_stationary_rate_at_every_position(acceptance: Acceptance) -> None:
    """Over independent answers, first and last position, branches 0 and 2. False alarm 4e-6 each case."""
    n = 3000
    firsts = [acceptance.first(7, i, 4) for i in range(n)]
    siblings = [acceptance.sibling(7, i, 2, *first) for i, first in enumerate(firsts)]
    verdicts = np.array([[accepted for accepted, _ in firsts], siblings])
    assert np.abs(verdicts[:, :, [0, 3]].mean(axis=1) - 0.6).max() <= Z * math.sqrt(0.6 * 0.4 / n)


def test_sticky_acceptance() -> None:
    acceptance = Acceptance(alpha=0.75, persistence=0.6)
    verdicts = np.array(behaviour(acceptance=acceptance, steps=Fixed(40_000)).answer(0).accepted())
    before, after = verdicts[:-1], verdicts[1:]
    for given_, p in ((before, 0.9), (~before, 0.3)):
        assert abs(after[given_].mean() - p) <= Z * math.sqrt(p * (1 - p) / given_.sum())


def test_spread_between_problems() -> None:
    """Relative error of a standard deviation from n samples is about sqrt((kurtosis - 1) / 4n) <= 1 / sqrt(2n)."""
    n = 4000
    alphas = np.array([Acceptance(alpha=0.6, spread=0.2).problem_alpha(1, i) for i in range(n)])
    assert abs(alphas.mean() - 0.6) <= Z * 0.2 / math.sqrt(n)
    assert abs(alphas.std(ddof=1) / 0.2 - 1.0) <= Z / math.sqrt(2 * n)
    assert 0.0 < alphas.min() < alphas.max() < 1.0


@pytest.mark.parametrize("siblings", [0.0, 0.4, 0.635])
def test_union_of_siblings_is_beta_binomial(siblings: float) -> None:
    n, acceptance = 30_000, Acceptance(alpha=0.63, siblings=siblings)
    answer = behaviour(acceptance=acceptance, steps=Fixed(n)).answer(0)
    verdicts = np.array([answer.accepted(branch) for branch in range(8)])
    for width in (2, 4, 8):
        p = float(accepted_among(0.63, width, siblings))
        assert abs(verdicts[:width].any(axis=0).mean() - p) <= Z * math.sqrt(p * (1 - p) / n)


def test_recording_a_drawn_answer_and_replaying_it_changes_nothing() -> None:
    """The measuring procedure records; the replay gives the same times under every schedule of width 1."""
    answer = behaviour(seed=11).answer(3)
    operations = run_answer(paired_trajectory, answer, ENGINES).operations
    written = {(op.role, op.prefix.depth + 1): op.result for op in operations if isinstance(op, Generate)}
    steps = (
        StepTrace(
            draft_tokens=(draft := written[DRAFT, op.candidate.depth]).n_tokens,
            target_tokens=(target := written[TARGET, op.candidate.depth]).n_tokens,
            accepted=op.result.accepted,
            draft_final=draft.final,
            target_final=target.final,
            judge_tokens=answer.judge_tokens(op),
        )
        for op in operations
        if isinstance(op, Verify)
    )
    replay = replayed(*steps, prompt_tokens=100)
    for k1 in (1, 2, 5):
        for make in (partial(lookahead_async, k1=k1), partial(lookahead_sync, k1=k1)):
            original = run_answer(make, answer, ENGINES)
            assert run_answer(make, replay.answer(0), ENGINES).commit_times == original.commit_times


STEP = StepTrace(draft_tokens=2, target_tokens=3, accepted=True)


def test_replay_of_the_baseline() -> None:
    session = run_answer(autoregressive, replayed(STEP, baseline=(4, 5, 6)).baseline_answer(4), ENGINES)
    assert [s.n_tokens for s in session.committed] == [4, 5, 6]
    assert session.committed[-1].final
    with pytest.raises(ParameterError, match="bare"):
        replayed(STEP, problem="bare").baseline_answer(0)


def test_replay_ends_even_where_a_schedule_leaves_the_recording() -> None:
    """Sync commits a target step that did not end the answer; the replay lets the next target step end it."""
    replay = replayed(STEP, replace(STEP, draft_final=True))
    session = run_answer(partial(lookahead_sync, k1=2), replay.answer(0), ENGINES)
    assert [step.role for step in session.committed] == ["draft", "target", "target"]


def test_a_schedule_that_refuses_unjudged_accepts_as_many_as_published() -> None:
    """0.5 of all positions, of the judged ones more (4 s.e.: 6e-5 false alarms); others meet what was drawn."""
    lengths = Lengths(target=Lognormal(mean=40.0, cv=1.2), draft=Lognormal(mean=20.0, cv=1.2), limit=60)
    drawn = SyntheticBehaviour(lengths=lengths, acceptance=Acceptance(alpha=0.5), steps=Fixed(400))
    assert drawn.judged_under(PAPER) is drawn
    rules = Rules(reject_after_truncation=True)
    judged = drawn.judged_under(rules)
    assert judged.acceptance.alpha > 0.55
    runs = [run_answer(partial(lookahead_async, k1=1, rules=rules), judged.answer(i), ENGINES) for i in range(10)]
    by_draft = [step.role == DRAFT for run in runs for step in run.committed[1:]]
    assert abs(np.mean(by_draft) - 0.5) < 4 * math.sqrt(0.25 / len(by_draft))


test_bad_behaviours = refused(
    lambda make, options: make(**options),
    (Acceptance, {"alpha": 1.2}, "alpha=1.2"),
    (Acceptance, {"alpha": math.nan}, "alpha=nan"),
    (Acceptance, {"alpha": 0.5, "spread": 0.5}, "spread=0.5"),
    (Acceptance, {"alpha": 0.5, "persistence": 1.0}, "persistence=1.0"),
    (Acceptance, {"alpha": 0.5, "siblings": -0.1}, "siblings=-0.1"),
    (Lognormal, {"mean": 0.0, "cv": 1.0}, "mean=0.0"),
    (Lognormal, {"mean": 1.0, "cv": math.inf}, "cv=inf"),
    (Fixed, {"n": 0}, "n=0"),
    (Lengths, {"target": Fixed(1), "draft": Fixed(1), "correlation": 1.5}, "correlation=1.5"),
    (Lengths, {"target": Fixed(1), "draft": Fixed(1), "lag1": 1.0}, "lag1=1.0"),
    (Lengths, {"target": Fixed(1), "draft": Fixed(1), "limit": 0}, "limit=0"),
    (TraceBehaviour, {"traces": ()}, "traces"),
    (AnswerTrace, {"prompt_tokens": 0, "steps": ()}, "steps"),
    (StepTrace, {"draft_tokens": -1, "target_tokens": 1, "accepted": True}, "draft_tokens=-1"),
    (behaviour, {"prompt_tokens": -1}, "prompt_tokens=-1"),
    (
        partial(run_answer, partial(lookahead_async, k1=2, width=2), replayed(STEP).answer(0)),
        {"engines": ENGINES},
        "the recorded drafts per position",
    ),
)
