"""Which configuration runs at which load, and after failures."""

import pytest

from sim.configuration import Configuration
from specplan.live.comparing.comparison import Verdict
from specplan.live.comparing.measured import Measured
from specplan.live.gateway.control import Control
from specplan.live.gateway.plans import PLAIN, SPECULATIVE, ServingPlan
from specplan.live.gateway.requests import Refusal

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


def test_a_failure_switches_off_for_longer_each_time_and_methods_without_helpers_stay() -> None:
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
    alone = Control(planned((1, Configuration.parse("prompt-lookup k2=4"))), 4, clock)
    alone.failed("draft")
    assert alone.wanted().method == "prompt-lookup"
    alone.failed(SPECULATIVE)  # in the same pause
    assert alone.wanted() == PLAIN


def test_a_server_that_speculates_is_needed_by_token_level_methods_alone() -> None:
    control = Control(planned((1, DEEP), (4, EAGLE)), 64, Clock())
    control.failed(SPECULATIVE)
    assert control.wanted() == DEEP
    control.in_flight = 4
    assert control.wanted() == PLAIN


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


async def test_no_more_than_the_most_are_admitted() -> None:
    control = Control(PLAN, 1)
    left = await control.place()
    with pytest.raises(Refusal) as caught:
        await control.place()
    assert caught.value.status == 429
    left()
    await control.place()
    assert control.in_flight == 1


def test_what_is_measured_decides_the_load_is_held_alike_and_failed_helpers_are_not_asked() -> None:
    clock, said = Clock(), list[str]()
    measured = Measured(PLAN.candidate, PLAIN, tell=said.append)
    control = Control(PLAN, 64, clock, measured)
    assert drive(control, clock, 400) > 100
    assert measured.comparisons[4].verdict is Verdict.GAINS
    assert all(line.startswith("at 4 in flight lr-async k1=2 gains and is on") for line in said)
    control.failed("draft")
    begin = clock.now
    assert drive(control, clock, 1) == 0
    assert clock.now < begin + 2.0  # while the pause lasts
    control.in_flight = 16  # where plain decoding is planned nothing is tried
    assert control.wanted() == PLAIN
    control.in_flight = 4
    clock.now += 1.0
    assert control.wanted() == PLAIN
    assert 16 not in measured.comparisons
    control.in_flight = 1  # a load that is new
    clock.now += 3.0
    control.wanted()
    clock.now += 3.0
    assert control.wanted() == PLAIN


def drive(control: Control, clock: Clock, n_answers: int) -> int:
    """Answers of ten steps, four in flight; return those that `SHALLOW`, 1.5 times as fast, wrote wholly."""
    control.in_flight, n_own = 4, 0
    for number in range(n_answers):
        running, all_own = None, True
        for _ in range(10):
            wanted = control.wanted()
            if wanted != running:
                control.stops(number)
                control.starts(number, wanted)
                running = wanted
            clock.now += 0.1 / (1.5 if wanted == SHALLOW else 1.0)
            all_own = all_own and wanted == SHALLOW
            control.wrote(number, 10)
        control.stops(number)
        control.ends(number, by_itself=True)
        n_own += all_own
    return n_own
