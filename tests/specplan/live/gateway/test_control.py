"""Which configuration runs at which load, and after failures."""

import pytest
from virtual_gateways import SPECULATING, ClosedLoop, Engine

from sim.configuration import Configuration
from specplan.live.comparing.measured import Measured
from specplan.live.gateway.control import Control
from specplan.live.gateway.plans import PLAIN, SPECULATIVE, ServingPlan

DEEP, SHALLOW, EAGLE = map(Configuration.parse, ("lr-async k1=4", "lr-async k1=2", "eagle k2=4"))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def planned(*by_load: tuple[int, Configuration]) -> ServingPlan:
    return ServingPlan(by_load=by_load)


PLAN = planned((1, DEEP), (4, SHALLOW), (16, PLAIN))


# Between 1 and 4 the border is 2, between 4 and 16 it is 8; the smaller load has them.
@pytest.mark.parametrize(
    ("in_flight", "wanted"), [(0, DEEP), (2, DEEP), (3, SHALLOW), (8, SHALLOW), (9, PLAIN), (99, PLAIN)]
)
def test_the_nearest_planned_load_counts(in_flight: int, wanted: Configuration) -> None:
    assert PLAN.at(in_flight) == wanted


def test_more_load_is_heeded_at_once_and_less_after_a_while_without_it() -> None:
    clock = Clock()
    control = Control(PLAN, 64, clock)
    assert control.wanted() == DEEP
    for clock.now, control.in_flight in ((0.0, 12), (0.0, 1), (1.5, 12), (2.5, 1), (4.4, 1)):
        assert control.wanted() == PLAIN
    clock.now = 4.6
    assert control.wanted() == DEEP
    assert control.n_switches == 2


def test_a_failure_switches_off_for_longer_each_time_what_needs_the_helper() -> None:
    clock = Clock()
    control = Control(PLAN, 64, clock)
    pauses = []
    for _ in range(3):
        control.failed("draft")
        begin = clock.now
        while control.wanted() == PLAIN:
            clock.now += 0.5
        pauses.append(clock.now - begin)
    assert pauses == [2.0, 4.0, 8.0]
    by_tokens = Configuration.parse("prompt-lookup k2=4")
    control = Control(planned((1, by_tokens), (4, DEEP)), 64, clock)
    control.failed("draft")
    assert control.wanted() == by_tokens
    control.failed(SPECULATIVE)  # in the same pause
    assert control.wanted() == PLAIN
    control = Control(planned((1, by_tokens), (4, DEEP)), 64, clock)
    control.failed(SPECULATIVE)
    assert control.wanted() == PLAIN
    control.in_flight = 4
    assert control.wanted() == DEEP


def test_a_text_is_left_at_a_steps_end_and_for_what_works_on_tokens_after_any_of_them() -> None:
    control = Control(planned((1, EAGLE), (4, PLAIN), (16, DEEP)), 64, Clock())
    assert control.wanted() == EAGLE
    assert not control.leaves(EAGLE, step_ends=True)
    control.in_flight = 4
    assert not control.leaves(EAGLE, step_ends=False)  # nobody has asked what is wanted now
    assert control.wanted() == PLAIN
    assert control.leaves(EAGLE, step_ends=False)
    control.in_flight = 16
    assert control.wanted() == DEEP
    assert not control.leaves(PLAIN, step_ends=False)
    assert control.leaves(PLAIN, step_ends=True)


def test_what_is_measured_decides_the_load_is_held_alike_and_failed_helpers_are_not_asked() -> None:
    loop = ClosedLoop(4, lambda now: Engine(tokens=1.6, drafts_s=0.0012)).run(100)
    control = loop.control
    assert control.wanted() == SPECULATING
    control.failed("draft")
    for seconds in (0.0, 1.9):
        loop.now += seconds
        assert control.wanted() == PLAIN
    loop.now += 0.2
    while control.wanted() == PLAIN:  # which is measured once more
        loop.run(loop.n_ended + 1)
    control.in_flight = 16  # a load that is new
    assert control.wanted() == PLAIN
    control.in_flight = 4
    for seconds in (0.0, 1.9):
        loop.now += seconds
        assert control.wanted() == PLAIN
    loop.now += 0.2
    assert control.wanted() == SPECULATING
    plans = Measured(PLAN.candidate, PLAIN)
    assert Control(PLAN, 64, Clock(), plans).wanted() == PLAIN
    assert plans.wanted(16, 0.0) == PLAIN
    assert plans.comparisons.keys() == {1}  # where plain decoding is planned nothing is tried
