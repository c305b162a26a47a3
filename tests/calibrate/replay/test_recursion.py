"""Times without shared iterations, as a control variate of simulated ones."""

from __future__ import annotations

import pytest

from calibrate.record.library import bundled
from calibrate.replay.recursion import SIMULATED, sharing_factor, unshared_seconds
from calibrate.replay.trials import Trials
from sim.configuration import Configuration
from sim.estimate import ratio_of_totals
from sim.trial import trial_seconds

MOST = SIMULATED[-1]
TRIALS = Trials(bundled("lr-deepseek-gsm8k"))


@pytest.mark.parametrize(
    "text",
    [
        "lr-async k1=2 rules=paper",
        "lr-async k1=2 width=3 rules=released-code",
        "lr-sync k1=2 width=2 rules=paper",
    ],
)
def test_simulated_times_are_a_steady_multiple(text: str) -> None:
    """Of other answers too, so that few simulated ones can be extended; shared iterations make none faster by much."""
    one = Configuration.parse(text)
    unshared = TRIALS.unshared_seconds(one, range(2 * MOST))
    simulated = trial_seconds(TRIALS.trial(one), range(MOST, 2 * MOST))
    others = ratio_of_totals(simulated, unshared[MOST:])
    assert others.relative_half_width < 0.04
    factor = sharing_factor(lambda answers: trial_seconds(TRIALS.trial(one), answers), unshared, 0.01)
    assert factor.value == pytest.approx(others.value, rel=0.05)
    assert 0.97 < factor.value < 1.5


def test_other_methods_have_no_recursion() -> None:
    assert unshared_seconds(TRIALS.system, Configuration(method="confspec", k1=2), range(3)) is None
    assert unshared_seconds(TRIALS.system, Configuration(method="spec-reason"), range(3)) is None
