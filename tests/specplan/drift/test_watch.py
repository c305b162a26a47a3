"""What moved is named, with what was predicted and what is seen; and nothing else is."""

from __future__ import annotations

import random

import pytest
from measured_profiles import STEP_TOKENS, measured

from calibrate.record.library import load
from sim.configuration import Configuration
from specplan.drift.expected import Band, Pace, acceptance, lengths, paces
from specplan.drift.watch import DriftWatch

BAND = Band(value=0.8, low=0.78, high=0.82)


def rank(tokens: int) -> float:
    return min(max((tokens - 10) / 20, 0.0), 1.0)


def watch() -> DriftWatch:
    return DriftWatch(
        accepted=BAND,
        lengths={"target": (Band(value=0.5, low=0.47, high=0.53), rank)},
        paces={"target": Pace(by_batch={1: 0.01, 4: 0.013})},
    )


def fed(seed: int, steps: int, *, p: float = 0.8, longer: int = 0, slower: float = 1.0) -> DriftWatch:
    rng, found = random.Random(seed), watch()
    for _ in range(steps):
        found.judged(rng.random() < p)
        found.wrote("target", rng.randint(10, 30) + longer)
        found.timed("target", 1, 0.01 * slower * rng.lognormvariate(0.0, 0.1))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_reported_where_nothing_moved(seed: int) -> None:
    assert fed(seed, 3_000).findings == ()


def test_what_never_happens_is_no_drift_where_it_need_not() -> None:
    """At most half of the steps are predicted to be slower by the margin: that none is, for ever, is as predicted."""
    found = watch()
    for _ in range(20_000):
        found.timed("target", 1, 0.01)
    assert found.findings == ()


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


def test_a_pace_beyond_what_was_measured_is_not_judged() -> None:
    found = watch()
    for _ in range(1_000):
        found.timed("target", 9, 1.0)
    assert found.findings == ()
    assert Pace(by_batch={1: 0.01, 4: 0.013}).at(2) == pytest.approx(0.011)


def test_a_measured_profile_says_what_to_expect() -> None:
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
    assert paces(profile)["target"].at(3) == pytest.approx(0.010)


def test_a_published_profile_has_nothing_to_watch_single_steps_by() -> None:
    profile = load("lr-deepseek-gsm8k")
    assert acceptance(profile, Configuration.parse("lr-async k1=2")) is None
    assert lengths(profile, "target") is None
    assert paces(profile) == {}
