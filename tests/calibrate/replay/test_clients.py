"""Several answers in flight: methods that write steps have the engine times that were measured with so many clients."""

from __future__ import annotations

import pytest
from measured_profiles import measured, speculated, with_engine

from calibrate.record.engine_records import ClientsInUse
from calibrate.replay.trials import Trials
from sim.configuration import PLAIN, Configuration
from sim.trial import run_trial

TARGET_S, DRAFT_S = 0.010, 0.004
LR = Configuration.parse("lr-async k1=2 rules=paper")
OVER_DRAFT_MODEL = Configuration.parse("lr-async k1=2 rules=paper + draft-model k2=3")


PROFILE = measured([True, False] * 4, target_s=TARGET_S, draft_s=DRAFT_S)


@pytest.fixture(scope="module")
def trials() -> Trials:
    """A profile whose engines all took 1.8 times as long with four answers in flight."""
    profile = speculated(PROFILE)
    for name, iteration_s in (("big", TARGET_S), ("small", DRAFT_S), ("judge", 1e-6)):
        work = ClientsInUse(decode=[(1, 30, 30 * 64, 1.8 * 30 * iteration_s)], clients=4, in_flight=4.0)
        profile = with_engine(profile, name, clients_in_use=[work])
    return Trials(profile)


def seconds(trials: Trials, configuration: Configuration, in_flight: float) -> float:
    return float(run_trial(trials.trial(configuration, in_flight=in_flight), range(3)).seconds.sum())


def test_steps_take_as_long_as_the_engines_did_with_so_many_clients(trials: Trials) -> None:
    for configuration in (LR, OVER_DRAFT_MODEL):
        alone = seconds(trials, configuration, 1.0)
        assert seconds(trials, configuration, 4.0) == pytest.approx(1.8 * alone, rel=1e-6)
        assert seconds(trials, configuration, 2.0) == pytest.approx(1.4 * alone, rel=1e-6)
        assert seconds(trials, configuration, 32.0) == pytest.approx(1.8 * alone, rel=1e-6)


def test_whole_answers_and_older_profiles_are_as_before(trials: Trials) -> None:
    for configuration in (PLAIN, Configuration.parse("draft-model k2=3")):
        assert seconds(trials, configuration, 8.0) == seconds(trials, configuration, 1.0)
    older = Trials(PROFILE)
    assert seconds(older, LR, 8.0) == seconds(older, LR, 1.0)
