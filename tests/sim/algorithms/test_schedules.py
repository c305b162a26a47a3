"""Schedules of Lookahead Reasoning where lengths vary: the released scheduler replayed, and arrays against SimPy."""

from functools import partial
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from released_scheduler import Texts, commit_times

from sim.algorithms import EAGER, RELEASED_CODE, Rules, lookahead_async
from sim.algorithms.rules import PRESETS
from sim.engines.fixed import FixedEngine
from sim.fast.recursions import async_recursion
from sim.operations import Generate, Step, Verdict, Verify, prompt
from sim.roles import TARGET
from sim.trial import run_answer

NANO = 1e-9
"""Seconds per token here: lengths so fine that no two texts end at the same moment by chance."""


class Told:
    """An answer in the words of the replay."""

    def __init__(self, texts: Texts) -> None:
        self.texts, self.root, self.last = texts, prompt(0), len(texts.target_s) - 1

    def generate(self, operation: Generate) -> Step:
        at, texts = operation.prefix.depth + 1, self.texts
        if operation.role == TARGET:
            seconds, cut = texts.target_s[at], texts.target_truncated[at]
        else:
            seconds, cut = texts.draft_s[operation.branch][at], texts.draft_truncated[operation.branch][at]
        n_tokens = round(seconds / NANO)
        return Step(operation.prefix, operation.role, n_tokens, final=at == self.last, truncated=bool(cut))

    def verify(self, operation: Verify) -> Verdict:
        return Verdict(bool(self.texts.accepted[operation.branch][operation.candidate.depth]))

    def judge_tokens(self, operation: Verify) -> int:
        return 0


def drawn(
    seed: int, *, cv: float, c1: float = 0.3, verify_s: float = 0.03, limit_s: float = 2.5, n: int = 25, width: int = 1
) -> Texts:
    """Lognormal lengths of mean 1 s, correlated along the answer and between the models; sticky acceptance."""
    rng = np.random.default_rng(seed)
    sigma, lag1, correlation = np.sqrt(np.log1p(cv**2)), rng.choice([0.0, 0.4]), rng.choice([0.0, 0.6])
    z = rng.standard_normal(n)
    for d in range(1, n):
        z[d] = lag1 * z[d - 1] + np.sqrt(1.0 - lag1**2) * z[d]
    others = correlation * z + np.sqrt(1.0 - correlation**2) * rng.standard_normal((width, n))
    target, drafts = (np.exp(sigma * x - sigma**2 / 2.0) for x in (z, others))
    after_yes, after_no = (0.7, 0.7) if rng.random() < 0.5 else (0.9, 0.3)
    lots = rng.random((width, n))
    accepted = np.empty((width, n), dtype=bool)
    for d in range(n):
        accepted[:, d] = lots[:, d] < (after_yes if d == 0 or accepted[0, d - 1] else after_no)

    def cut(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.round(np.minimum(seconds, limit_s + 1e-3 * rng.random(seconds.shape)) / NANO) * NANO

    return Texts(
        target_s=cut(target),
        draft_s=np.round(c1 * cut(drafts) / NANO) * NANO,
        accepted=accepted,
        target_truncated=target > limit_s,
        draft_truncated=drafts > limit_s,
        verify_s=verify_s,
    )


SEEDS, C1 = st.integers(0, 2**31), st.sampled_from([0.05, 0.3, 0.9])
TEXTS = st.builds(
    drawn,
    SEEDS,
    cv=st.sampled_from([0.5, 0.8, 1.25]),
    c1=C1,
    verify_s=st.sampled_from([0.0, 0.03, 0.3]),
    limit_s=st.sampled_from([2.5, 100.0]),
)
BUSHES = st.integers(2, 3).flatmap(lambda width: st.builds(partial(drawn, cv=1.25, n=12, width=width), SEEDS, c1=C1))
"""Texts with several drafts of each step."""


def simulated(texts: Texts, k1: int, rules: Rules) -> list[float]:
    """When steps are committed on the virtual clock."""
    by_length = FixedEngine(lambda n, p, c: NANO * n)
    engines = {"target": by_length, "draft": by_length, "judge": FixedEngine(texts.verify_s)}
    make = partial(lookahead_async, k1=k1, rules=rules, width=len(texts.draft_s))
    return run_answer(make, Told(texts), engines).commit_times  # type: ignore[arg-type]


def by_arrays(many: list[Texts], k1: int, rules: Rules) -> NDArray[np.float64]:
    commits, _ = async_recursion(
        [t.target_s for t in many],
        [t.draft_s[0] for t in many],
        [t.accepted[0] for t in many],
        k1=k1,
        verify_s=[[t.verify_s] for t in many],
        rules=rules,
        target_truncated=[t.target_truncated for t in many],
        draft_truncated=[t.draft_truncated[0] for t in many],
    )
    return commits


@given(case=st.tuples(TEXTS, st.integers(1, 8)) | st.tuples(BUSHES, st.integers(1, 3)))
@settings(max_examples=85, deadline=None, derandomize=True)
def test_released_code_is_the_released_scheduler(case: tuple[Texts, int]) -> None:
    texts, k1 = case
    found = simulated(texts, k1, RELEASED_CODE)
    np.testing.assert_allclose(found, commit_times(texts, max_depth=k1), rtol=1e-12)


@pytest.mark.parametrize("cv", [0.5, 1.25])
def test_eager_is_faster_than_the_released_scheduler(cv: float) -> None:
    """By 5 to 20 % at k1 = 6; per answer it may lose. 40 answers of 100 steps each."""
    texts = [drawn(seed, cv=cv, c1=0.25, n=100) for seed in range(40)]
    released = fmean(commit_times(t, max_depth=6)[-1] for t in texts)
    eager = by_arrays(texts, 6, EAGER)[:, -1].mean()
    assert 1.05 < released / eager < 1.20


RULES = st.one_of(
    st.sampled_from(list(PRESETS.values())),
    st.builds(
        Rules,
        prefetch_draft=st.booleans(),
        extra_in_flight=st.integers(0, 2),
        late_draft=st.sampled_from(["wait", "cancel", "in-order"]),
        restart=st.sampled_from(["verdict", "in-order"]),
        winner=st.sampled_from(["first-verdict", "first-branch"]),
        reject_first=st.booleans(),
        reject_after_truncation=st.booleans(),
    ),
)


@given(texts=TEXTS, k1=st.integers(1, 8), rules=RULES)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_arrays_give_the_simulators_times_under_all_rules(texts: Texts, k1: int, rules: Rules) -> None:
    np.testing.assert_allclose(simulated(texts, k1, rules), by_arrays([texts], k1, rules)[0], rtol=1e-12)
