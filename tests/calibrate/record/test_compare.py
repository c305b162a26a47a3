"""Comparing profiles: published examples, error rates on planted data, and what a reader is told."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from measured_profiles import measured, position
from scipy import stats

from calibrate.record.answer_records import RecordedAnswer
from calibrate.record.compare import Share, compare, log_ratio, newcombe, settings_that_differ
from calibrate.record.engine_records import DecodeSample, EngineRecord, PrefillSample
from calibrate.record.library import bundled
from calibrate.record.profile import Profile
from sim.estimate import Estimate
from theory.errors import ParameterError

FALSE_FAIL = 1e-6
"""Probability that a test of rates fails by chance."""


@pytest.mark.parametrize(("first", "second"), [((3, 10), (9, 10)), ((0, 10), (10, 10)), ((84, 98), (10, 10))])
def test_newcombe_agrees_with_its_definition(first: tuple[int, int], second: tuple[int, int]) -> None:
    (p, pl, pu), (q, ql, qu) = (
        (k / n, *stats.binomtest(k, n).proportion_ci(method="wilson")) for k, n in (first, second)
    )
    by_hand = q - p - math.hypot(q - ql, pu - p), q - p + math.hypot(qu - q, p - pl)
    assert newcombe(Share(p, first[1]), Share(q, second[1]))[1:3] == pytest.approx(by_hand)


SHARES = st.builds(Share, st.floats(0.0, 1.0), st.floats(2.0, 500.0))


@given(SHARES, SHARES, st.floats(0.0, 0.9))
@example(Share(0.875, 2.0), Share(0.9375, 78.0), 0.875)  # the interval's end crosses 0 more than once
def test_p_value_and_interval_of_a_proportion_say_the_same(first: Share, second: Share, correlation: float) -> None:
    gap, low, high, chance = newcombe(first, second, correlation=correlation)
    assert low <= gap + 1e-12
    assert gap <= high + 1e-12
    if abs(chance - 0.05) > 1e-6:
        assert (chance < 0.05) == (low > 0.0 or high < 0.0)


def test_log_ratio_without_spread() -> None:
    assert log_ratio([2.0, 2.0], [2.0, 2.0]) == (1.0, 1.0, 1.0, 1.0)
    assert log_ratio([2.0, 2.0], [4.0, 4.0])[3] == 0.0


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


def test_planted_differences_are_found_and_only_those() -> None:
    """A target half as fast again, and half the acceptance: in 90 % of the comparisons, and nothing else in 95 %."""
    rng = np.random.default_rng(4)
    trials, seen, accepted, wrong = 25, 0, 0, 0
    for _ in range(trials):
        found = compare(profile(rng), profile(rng, scale=1.5, alpha=0.35))
        assert len(found.differences) == 11
        names = {one.quantity for one in found.real}
        seen += "big: iteration batch   1" in names
        accepted += "step acceptance alpha1" in names
        wrong += any(name.startswith("small") for name in names)
        one = next(one for one in found.differences if one.quantity == "big: iteration batch   1")
        assert one.n == (6, 6)
        assert 1.2 < one.change < 1.9
    assert seen >= stats.binom.ppf(FALSE_FAIL, trials, 0.9)
    assert accepted >= stats.binom.ppf(FALSE_FAIL, trials, 0.9)
    assert wrong <= stats.binom.isf(FALSE_FAIL, trials, 0.05)


def test_intervals_of_the_acceptance_cover_the_planted_difference() -> None:
    """Clustered answers, 95 %: within its standard error, at a false-alarm rate of 1e-6; naive counting would fail."""
    rng = np.random.default_rng(6)
    trials, inside = 120, 0
    for _ in range(trials):
        one, two = (BASE.model_copy(update={"answers": answers(rng, alpha), "engines": {}}) for alpha in (0.7, 0.6))
        found = compare(one, two).differences[0]
        inside += found.low <= -0.1 <= found.high
    assert inside >= stats.binom.ppf(FALSE_FAIL, trials, 0.95)


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
