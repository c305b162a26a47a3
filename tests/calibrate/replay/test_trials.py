"""Trials of a profile: other processors, several answers in flight, a published speedup, and times by recursion."""

from dataclasses import replace

import pytest
from measured_profiles import STEP_TOKENS, measured, speculated, with_engine
from refusals import refused

from calibrate.record.engine_records import ClientsInUse
from calibrate.record.library import bundled
from calibrate.replay.recursion import SIMULATED, sharing_factor, unshared_seconds
from calibrate.replay.system import system_of
from calibrate.replay.token_passes import AveragedCost
from calibrate.replay.trials import Trials
from sim.configuration import PLAIN, Configuration
from sim.engines.costs import LinearCost
from sim.estimate import ratio_of_totals
from sim.roles import TARGET
from sim.trial import trial_seconds

TARGET_S, DRAFT_S = 0.010, 0.004
REFUSED = 4
PROFILE = measured([False] * REFUSED, target_s=TARGET_S, draft_s=DRAFT_S)
LR = Configuration.parse("lr-async k1=2 rules=paper")


def seconds(trials: Trials, configuration: Configuration, in_flight: float = 1.0) -> float:
    return float(trial_seconds(trials.trial(configuration, in_flight=in_flight), range(3)).sum())


def test_a_draft_on_the_target_s_processor_takes_its_time_from_the_target() -> None:
    """Draft and target begin a step together, and every draft is refused: a step takes T alone, T + D on one core."""
    one = Configuration.parse("lr-async k1=1 rules=paper")
    step, draft = (STEP_TOKENS - 1) * TARGET_S, (STEP_TOKENS - 1) * DRAFT_S
    apart, together = Trials(PROFILE), Trials(PROFILE, places={"draft": "target"})
    # A verdict takes a microsecond.
    assert seconds(apart, one) == pytest.approx(3 * REFUSED * step, rel=1e-4)
    assert seconds(together, one) == pytest.approx(3 * REFUSED * (step + draft), rel=1e-4)
    assert seconds(together, PLAIN) == seconds(apart, PLAIN)
    assert seconds(Trials(PROFILE, places={"draft": "target", "judge": "own"}), one) == seconds(together, one)


def test_engines_forget_the_company_in_which_they_were_measured() -> None:
    """On one core the draft's measured slowness beside the judge was 1.5; beside the target it has half of the core."""
    cores = {"big": "core 0", "small": "core 1", "judge": "core 1"}
    together = replace(system_of(PROFILE), devices=cores, beside={"small": 1.5, "big": 1.1})
    moved = together.placed({"judge": "own"})
    assert moved.moved == {"small", "judge"}
    assert moved.devices["big"] == "core 0"
    assert together.placed({}) is together
    assert together.placed({"judge": "draft"}).moved == frozenset()


test_places_that_are_not_known_are_refused = refused(
    lambda places, profile=PROFILE: system_of(profile).placed(places),
    ({"referee": "own"}, "place='referee' must be one of target, draft, judge"),
    ({"judge": "gpu"}, "place='gpu'"),
    (
        {"judge": "own"},
        PROFILE.model_copy(update={"placement": {**PROFILE.placement, "judge": "big"}}),
        "runs on the engine of the target",
    ),
)


def test_steps_take_as_long_as_the_engines_did_with_so_many_clients() -> None:
    """Engines took 1.8 times as long with four answers in flight; whole answers and older profiles are as before."""
    profile = speculated(PROFILE)
    for name, iteration_s in (("big", TARGET_S), ("small", DRAFT_S), ("judge", 1e-6)):
        work = ClientsInUse(decode=[(1, 30, 30 * 64, 1.8 * 30 * iteration_s)], clients=4, in_flight=4.0)
        profile = with_engine(profile, name, clients_in_use=[work])
    trials = Trials(profile)
    for configuration in (LR, Configuration.parse("lr-async k1=2 rules=paper + draft-model k2=3")):
        alone = seconds(trials, configuration)
        for in_flight, slower in ((2.0, 1.4), (4.0, 1.8), (32.0, 1.8)):
            assert seconds(trials, configuration, in_flight) == pytest.approx(slower * alone, rel=1e-6)
    for configuration in (PLAIN, Configuration.parse("draft-model k2=3")):
        assert seconds(trials, configuration, 8.0) == seconds(trials, configuration)
    assert seconds(Trials(PROFILE), LR, 8.0) == seconds(Trials(PROFILE), LR)


def test_averaged_passes_cost_the_rows_of_others_and_what_is_lost_at_the_end_of_steps() -> None:
    """By hand: passes of 2 tokens; one sequence pays nothing more, four the drafts of three, a step its last pass."""
    cost = AveragedCost(LinearCost(base_s=1.0, sequence_s=0.0, request_s=0.5), 2.0, rows_s=0.1, cut_tokens=0.25)
    assert cost.iteration(1, 0.0) == 0.5
    assert cost.iteration(4, 0.0) == pytest.approx(1.3 / 2.0)
    assert cost.request_s == pytest.approx((0.5 + 0.25) / 2.0)


def test_published_prompt_lookup_alone_is_as_fast_as_published_and_loses_below_steps() -> None:
    """The published speedup is met to its rounding where answers are decoded in one piece, not where in steps."""
    trials = Trials(bundled("lr-deepseek-aime24"))
    plain = Configuration.parse("prompt-lookup k2=9")
    below = Configuration.parse("lr-async k1=1 rules=paper + prompt-lookup k2=9")
    assert [trials.trial(one).engines[TARGET].cost.cut_tokens > 0.0 for one in (plain, below)] == [False, True]
    assert seconds(trials, PLAIN) / seconds(trials, plain) == pytest.approx(1.53, abs=0.005)


MOST = SIMULATED[-1]
PUBLISHED = Trials(bundled("lr-deepseek-gsm8k"))


@pytest.mark.parametrize(
    "text",
    ["lr-async k1=2 rules=paper", "lr-async k1=2 width=3 rules=released-code", "lr-sync k1=2 width=2 rules=paper"],
)
def test_simulated_times_are_a_steady_multiple_of_those_without_shared_iterations(text: str) -> None:
    """Of other answers too, so that few simulated ones can be extended; shared iterations make none faster by much."""
    one = Configuration.parse(text)
    unshared = PUBLISHED.unshared_seconds(one, range(2 * MOST))
    others = ratio_of_totals(trial_seconds(PUBLISHED.trial(one), range(MOST, 2 * MOST)), unshared[MOST:])
    assert others.relative_half_width < 0.04
    factor = sharing_factor(lambda answers: trial_seconds(PUBLISHED.trial(one), answers), unshared, 0.01)
    assert factor.value == pytest.approx(others.value, rel=0.05)
    assert 0.97 < factor.value < 1.5


def test_other_methods_have_no_recursion() -> None:
    assert unshared_seconds(PUBLISHED.system, Configuration(method="confspec", k1=2), range(3)) is None
    assert unshared_seconds(PUBLISHED.system, Configuration(method="spec-reason"), range(3)) is None
