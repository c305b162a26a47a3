"""The gain through two gateways is that of what they run: known where drafts cost nothing and are always right."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from openai_server import Planted, serving
from served_plans import write_profile

from benchmarks.gateway_gain import PLAIN, gateway, measured
from sim.configuration import Configuration

SYNC = Configuration.parse("lr-sync k1=2")


@pytest.mark.slow
def test_always_right_drafts_that_cost_nothing_gain_and_the_turns_tell_how_much(tmp_path: Path) -> None:
    # An iteration takes longer than a busy machine takes for a request.
    slow, fast = Planted(iteration_s=0.04, acceptance=1.0), Planted(acceptance=1.0)
    profile = write_profile(tmp_path)
    with ExitStack() as stack:
        roles = {
            role: stack.enter_context(serving(planted)).url
            for role, planted in (("target", slow), ("draft", fast), ("judge", fast))
        }
        urls = [stack.enter_context(gateway(one, tmp_path, profile, roles)) for one in (PLAIN, SYNC)]
        found = measured(*urls, [f"question {i}" for i in range(8)], 1)
    assert found.n == 4
    # Two steps at once of three: between 1 and 3 times as fast; what HTTP takes is in both.
    assert 1.1 < found.value < 3.0
    assert found.low < found.value < found.high
