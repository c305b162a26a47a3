"""What engines did, told apart by whether another one worked too."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from calibrate.engines.protocol import EngineStatistics
from calibrate.measuring.engine_work import in_use_records, summed
from calibrate.record.profile import InUse, Work


@dataclass
class Engine:
    """Tells what it is told to."""

    statistics: EngineStatistics

    async def stats(self, *, clear: bool = False) -> EngineStatistics:
        assert clear
        return self.statistics


# The big one decodes from 0 to 4 s and prefills from 6 to 7 s; the small one prefills at 1.5 to 2 s and decodes from
# 2 to 3.2 and 5.5 to 6.3 s.
BIG = EngineStatistics(
    iterations=((1, 100, 1.0), (1, 101, 1.0), (2, 202, 2.0)),
    prefills=((30, 0, 1.0),),
    n_aborted_tokens=0,
    iteration_ends=(1.0, 2.0, 4.0),
    prefill_ends=(7.0,),
)
SMALL = EngineStatistics(
    iterations=((1, 10, 1.2), (1, 11, 0.8)),
    prefills=((5, 2, 0.5),),
    n_aborted_tokens=0,
    iteration_ends=(3.2, 6.3),
    prefill_ends=(2.0,),
)


def recorded(big: EngineStatistics, small: EngineStatistics) -> dict[str, InUse]:
    return asyncio.run(in_use_records({"big": Engine(big), "small": Engine(small)}, {"big": [0.1, 0.2]}))


def test_work_counts_as_done_beside_another_engine_if_that_worked_at_any_moment_of_it() -> None:
    found = recorded(BIG, SMALL)
    assert found["big"].decode == [(1, 2, 201, 2.0), (2, 1, 202, 2.0)]
    assert found["big"].request == (2, pytest.approx(0.3))
    # The second iteration overlaps for 0.5 of 1 s, the third for 1.2 of 2 s, the prefill for 0.3 of 1 s.
    assert found["big"].beside == Work(decode=[(1, 1, 101, 1.0), (2, 1, 202, 2.0)], prefill=(1, 30, 1.0))
    assert found["big"].company_s == pytest.approx(0.5 + 1.2 + 0.3)
    assert found["big"].alone == Work(decode=[(1, 1, 100, 1.0)], prefill=(0, 0, 0.0))
    assert found["small"].beside == Work(decode=[(1, 2, 21, 2.0)], prefill=(1, 5, 0.5))
    assert found["small"].company_s == pytest.approx(1.2 + 0.3 + 0.5)
    assert found["small"].alone == Work(decode=[], prefill=(0, 0, 0.0))


def test_what_ends_as_another_begins_had_no_company() -> None:
    first = EngineStatistics(
        iterations=((1, 10, 1.0),), prefills=(), n_aborted_tokens=0, iteration_ends=(1.0,), prefill_ends=()
    )
    second = EngineStatistics(
        iterations=((1, 10, 1.0),), prefills=(), n_aborted_tokens=0, iteration_ends=(2.0,), prefill_ends=()
    )
    for one in recorded(first, second).values():
        assert one.beside == Work()
        assert one.company_s == 0.0
        assert one.alone.seconds == 1.0


def test_without_moments_nothing_is_told_apart() -> None:
    blind = EngineStatistics(iterations=BIG.iterations, prefills=BIG.prefills, n_aborted_tokens=0)
    found = recorded(blind, SMALL)
    assert found["big"].beside is None
    assert found["big"].alone == Work(decode=found["big"].decode, prefill=found["big"].prefill)
    assert found["small"].beside is None


def test_records_add_up() -> None:
    found = recorded(BIG, SMALL)
    (whole,) = summed([found["big"], found["big"]])
    assert whole.decode == [(1, 4, 402, 4.0), (2, 2, 404, 4.0)]
    assert whole.request == (4, pytest.approx(0.6))
    assert whole.beside == Work(decode=[(1, 2, 202, 2.0), (2, 2, 404, 4.0)], prefill=(2, 60, 2.0))
    assert whole.company_s == pytest.approx(4.0)
    older = found["big"].model_copy(update={"shared_s": None})
    assert summed([older])[0].company_s == pytest.approx(4.0)  # all of what was done beside the other one
    (mixed,) = summed([found["big"], found["big"].model_copy(update={"beside": None})])
    assert (mixed.beside, mixed.shared_s, mixed.company_s) == (None, None, 0.0)
    assert summed([]) == []
