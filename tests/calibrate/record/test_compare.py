"""Comparing profiles: published examples, error rates on planted data, and what a reader is told."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_profiles import measured, position
from scipy import stats

from calibrate.record.answer_records import RecordedAnswer
from calibrate.record.compare import compare, settings_that_differ
from calibrate.record.engine_records import DecodeSample, EngineRecord, PrefillSample
from calibrate.record.library import bundled
from calibrate.record.profile import Profile
from calibrate.record.two_samples import Share, log_ratio, newcombe
from sim.estimate import Estimate
from theory.errors import ParameterError

FALSE_FAIL = 1e-6


def at_most(hits: int, trials: int, rate: float) -> None:
    """The rate is no larger than stated; fails by chance with probability 1e-6."""
    assert hits <= stats.binom.isf(FALSE_FAIL, trials, rate)


def at_least(hits: int, trials: int, rate: float) -> None:
    assert hits >= stats.binom.ppf(FALSE_FAIL, trials, rate)


# The tests themselves


@pytest.mark.parametrize(("first", "second"), [((3, 10), (9, 10)), ((0, 10), (10, 10)), ((84, 98), (10, 10))])
def test_newcombe_agrees_with_its_definition(first: tuple[int, int], second: tuple[int, int]) -> None:
    (a, n), (b, m) = first, second
    found = newcombe(Share(a / n, n), Share(b / m, m))
    assert found[1:3] == pytest.approx(_by_hand((a / n, n), (b / m, m)))


def _by_hand(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    z = float(stats.norm.ppf(0.975))

    def wilson(p: float, n: float) -> tuple[float, float]:
        roots = np.roots([1.0 + z * z / n, -(2.0 * p + z * z / n), p * p])
        return float(min(roots)), float(max(roots))

    (p, n), (q, m) = first, second
    (pl, pu), (ql, qu) = wilson(p, n), wilson(q, m)
    return q - p - math.hypot(q - ql, pu - p), q - p + math.hypot(qu - q, p - pl)


@given(
    p=st.floats(0.0, 1.0),
    q=st.floats(0.0, 1.0),
    n=st.floats(2.0, 500.0),
    m=st.floats(2.0, 500.0),
    correlation=st.floats(0.0, 0.9),
)
def test_p_value_and_interval_of_a_proportion_say_the_same(
    p: float, q: float, n: float, m: float, correlation: float
) -> None:
    gap, low, high, chance = newcombe(Share(p, n), Share(q, m), correlation=correlation)
    assert low <= gap + 1e-12
    assert gap <= high + 1e-12
    if abs(chance - 0.05) > 1e-6:
        assert (chance < 0.05) == (low > 0.0 or high < 0.0)


def test_coverage_and_false_alarms_of_newcombe() -> None:
    """Exactly, over all outcomes: 95 % intervals of equal proportions leave 0 out in at most 6.5 % of the cases."""
    n = 25
    pairs = [(a, b, newcombe(Share(a / n, n), Share(b / n, n)).p) for a in range(n + 1) for b in range(n + 1)]
    for p in (0.1, 0.3, 0.5, 0.8):
        weight = stats.binom.pmf(np.arange(n + 1), n, p)
        rejected = sum(float(weight[a] * weight[b]) for a, b, chance in pairs if chance < 0.05)
        assert rejected <= 0.065


def test_log_ratio_without_spread() -> None:
    assert log_ratio([2.0, 2.0], [2.0, 2.0]) == (1.0, 1.0, 1.0, 1.0)
    assert log_ratio([2.0, 2.0], [4.0, 4.0])[3] == 0.0


# Whole profiles


def engine(rng: np.random.Generator, scale: float) -> EngineRecord:
    """Rounds of a machine whose speed differs by 10 % from round to round, and by 5 % from sample to sample."""
    decode, prefill, request = [], [], []
    for _ in range(6):
        mood = scale * rng.lognormal(0.0, 0.1)
        for context, batch, i in product((32, 256), (1, 4), range(4)):
            seconds = mood * (0.01 + 0.002 * batch) * rng.lognormal(0.0, 0.05)
            decode.append(
                DecodeSample.model_construct(batch=batch, context=batch * (context + i), tokens=1, seconds=seconds)
            )
        for tokens in (4, 4, 4, 48, 48, 48):
            seconds = mood * (0.01 + 1e-4 * tokens) * rng.lognormal(0, 0.05)
            prefill.append(PrefillSample.model_construct(tokens=tokens, cached=0, seconds=seconds))
        request += [mood * 0.001 * float(rng.lognormal(0, 0.05)) for _ in range(4)]
    return EngineRecord.model_construct(device="cpu", decode=decode, prefill=prefill, request_s=request)


STEPS = {accepted: position(accepted) for accepted in (False, True)}


def answers(rng: np.random.Generator, alpha: float, n: int = 40, own: object = None) -> list[RecordedAnswer]:
    """Answers whose own acceptance varies around ``alpha``, beyond what independent verdicts would."""
    chances = rng.beta(8 * alpha, 8 * (1 - alpha), n) if own is None else np.asarray(own)
    found = []
    for number, chance in enumerate(chances):
        steps = [STEPS[bool(yes)] for yes in rng.random(10) < chance]
        found.append(RecordedAnswer.model_construct(problem=str(number), prompt_tokens=8, steps=steps, baseline=[]))
    return found


BASE = measured([True, False])


def profile(rng: np.random.Generator, *, scale: float = 1.0, alpha: float = 0.7, **changes: object) -> Profile:
    engines = {"big": engine(rng, scale), "small": engine(rng, 0.2)}
    return BASE.model_copy(update={"engines": engines, "answers": answers(rng, alpha), **changes})


def test_equal_machines_seldom_differ() -> None:
    """11 tests a comparison, 40 comparisons: at most 5 % of these call anything real."""
    rng = np.random.default_rng(3)
    trials = 40
    found = [compare(profile(rng), profile(rng)) for _ in range(trials)]
    assert {len(one.differences) for one in found} == {11}
    at_most(sum(bool(one.real) for one in found), trials, 0.05)


def test_planted_differences_are_found_and_only_those() -> None:
    """A target half as fast again, and half the acceptance: in 90 % of the comparisons, and nothing else in 95 %."""
    rng = np.random.default_rng(4)
    trials, seen, accepted, wrong = 25, 0, 0, 0
    for _ in range(trials):
        found = compare(profile(rng), profile(rng, scale=1.5, alpha=0.35))
        names = {one.quantity for one in found.real}
        seen += "big: iteration batch   1" in names
        accepted += "step acceptance alpha1" in names
        wrong += any(name.startswith("small") for name in names)
        one = next(one for one in found.differences if one.quantity == "big: iteration batch   1")
        assert one.n == (6, 6)
        assert 1.2 < one.change < 1.9
    at_least(seen, trials, 0.9)
    at_least(accepted, trials, 0.9)
    at_most(wrong, trials, 0.05)


def test_intervals_of_the_acceptance_cover_the_planted_difference() -> None:
    """Clustered answers, 95 %: within its standard error, at a false-alarm rate of 1e-6; naive counting would fail."""
    rng = np.random.default_rng(6)
    trials, inside = 120, 0
    for _ in range(trials):
        one, two = (BASE.model_copy(update={"answers": answers(rng, alpha), "engines": {}}) for alpha in (0.7, 0.6))
        found = compare(one, two).differences[0]
        inside += found.low <= -0.1 <= found.high
    at_least(inside, trials, 0.95)


def test_the_same_questions_make_a_sharper_comparison() -> None:
    rng = np.random.default_rng(7)
    own = rng.beta(2.0, 1.0, 60)
    first, second = (BASE.model_copy(update={"answers": answers(rng, 0.7, own=own)}) for _ in range(2))
    renamed = [a.model_copy(update={"problem": f"other {a.problem}"}) for a in second.answers]
    paired = compare(first, second).differences[-1]
    unpaired = compare(first, second.model_copy(update={"answers": renamed})).differences[-1]
    assert paired.change == unpaired.change
    assert paired.high - paired.low < 0.9 * (unpaired.high - unpaired.low)


def test_settings_machine_and_models_are_listed() -> None:
    one = BASE.model_copy(update={"settings": {"temperature": 0.6, "seed": 1}})
    machine = BASE.provenance.model_copy(update={"cpu": "another", "created": "2027-01-01", "packages": {"torch": "2"}})
    two = BASE.model_copy(update={"settings": {"temperature": 0.0, "seed": 1, "top_p": 0.9}, "provenance": machine})
    found = {s.name: (s.first, s.second) for s in settings_that_differ(one, two)}
    assert found == {
        "settings.temperature": ("0.6", "0.0"),
        "settings.top_p": ("-", "0.9"),
        "machine.cpu": ("", "another"),
        "packages.torch": ("-", "2"),
    }


def test_speedups_are_compared_with_their_intervals() -> None:
    def speedup(value: float, half: float) -> Estimate:
        low, high = value * math.exp(-half), value * math.exp(half)
        return Estimate(value=value, stderr=value * half / 1.96, low=low, high=high, n=40)

    one = profile(np.random.default_rng(9))
    same = compare(one, one)
    assert (same.real, same.settings) == ((), ())
    assert all(d.p == pytest.approx(1.0) for d in same.differences)
    far = compare(one, one, speedups={"x": (speedup(1.2, 0.03), speedup(1.5, 0.03))}).differences[-1]
    near = compare(one, one, speedups={"x": (speedup(1.2, 0.2), speedup(1.3, 0.2))}).differences[-1]
    assert far.real
    assert not near.real
    assert math.log(far.high / far.low) / 2 == pytest.approx(math.hypot(0.03, 0.03))


def test_what_cannot_be_compared_is_said() -> None:
    rng = np.random.default_rng(10)
    one = profile(rng)
    two = one.model_copy(update={"engines": {"big": one.engines["big"], "other": one.engines["small"]}, "answers": []})
    found = compare(one, two)
    assert "step acceptance: not recorded in both" in found.not_compared
    assert any(text.startswith("engine other: only in") for text in found.not_compared)
    published = bundled("lr-deepseek-gsm8k")
    with pytest.raises(ParameterError, match="no raw samples"):
        compare(published, published)
    with pytest.raises(ParameterError, match="confidence"):
        compare(one, two, confidence=1.0)
