"""Engines elsewhere: what shares a processor shares its time, and what is alone again has all of it."""

from __future__ import annotations

import pytest
from measured_profiles import STEP_TOKENS, measured
from refusals import refused

from calibrate.replay.system import System, system_of
from calibrate.replay.trials import Trials
from sim.configuration import PLAIN, Configuration
from sim.trial import run_trial

TARGET_S, DRAFT_S = 0.010, 0.004
REFUSED = 4
PROFILE = measured([False] * REFUSED, target_s=TARGET_S, draft_s=DRAFT_S)


def seconds(places: dict[str, str], configuration: Configuration) -> float:
    return float(run_trial(Trials(PROFILE, places=places).trial(configuration), [0]).seconds[0])


def test_a_draft_on_the_target_s_processor_takes_its_time_from_the_target() -> None:
    """Draft and target begin a step together, and every draft is refused: a step takes T alone, T + D on one core."""
    one = Configuration.parse("lr-async k1=1 rules=paper")
    step, draft = (STEP_TOKENS - 1) * TARGET_S, (STEP_TOKENS - 1) * DRAFT_S
    apart = seconds({}, one)
    assert apart == pytest.approx(REFUSED * step, rel=1e-4)  # a verdict takes a microsecond
    assert seconds({"draft": "target"}, one) == pytest.approx(REFUSED * (step + draft), rel=1e-4)
    assert seconds({"draft": "target"}, PLAIN) == seconds({}, PLAIN)
    assert seconds({"draft": "target", "judge": "own"}, one) == seconds({"draft": "target"}, one)


def test_engines_forget_the_company_in_which_they_were_measured() -> None:
    """On one core the draft's measured slowness beside the judge was 1.5; beside the target it has half of the core."""
    made = system_of(PROFILE)
    cores = {"big": "core 0", "small": "core 1", "judge": "core 1"}
    together = System(
        behaviour=made.behaviour,
        costs=made.costs,
        placement=made.placement,
        devices=cores,
        beside={"small": 1.5, "big": 1.1},
    )
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
