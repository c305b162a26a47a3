"""What engines did, told apart by whether another one worked too."""

import asyncio
from dataclasses import dataclass

import pytest

from calibrate.engines.work import EngineStatistics, Pass, Prefill
from calibrate.measuring.answers import undelayed_seconds
from calibrate.measuring.engine_work import summed, work_done
from calibrate.record.engine_records import InUse, Work
from sim.engines.batching import RESTED_S
from sim.operations import Generate, Operation, Verify, prompt
from sim.roles import DRAFT, EMBEDDING, TARGET


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
    iterations=(Pass.plain(1, 100, 1.0, 1.0), Pass.plain(1, 101, 1.0, 2.0), Pass.plain(2, 202, 2.0, 4.0)),
    prefills=(Prefill(30, 0, 1.0, 7.0),),
)
SMALL = EngineStatistics(
    iterations=(Pass.plain(1, 10, 1.2, 3.2), Pass.plain(1, 11, 0.8, 6.3)), prefills=(Prefill(5, 2, 0.5, 2.0),)
)


def recorded(big: EngineStatistics, small: EngineStatistics) -> dict[str, InUse]:
    return asyncio.run(work_done({"big": Engine(big), "small": Engine(small)}, {"big": [0.1, 0.2]}))


def test_work_counts_as_done_beside_another_engine_if_that_worked_at_any_moment_of_it() -> None:
    found = recorded(BIG, SMALL)
    assert found["big"].decode == [(1, 2, 201, 2.0), (2, 1, 202, 2.0)]
    assert found["big"].request == (2, pytest.approx(0.3))
    # The second iteration overlaps for 0.5 of 1 s, the third for 1.2 of 2 s, the prefill for 0.3 of 1 s.
    assert found["big"].beside == Work(
        decode=[(1, 1, 101, 1.0), (2, 1, 202, 2.0)], prefill=(1, 30, 1.0), waking=(1, 30, 1.0)
    )
    assert found["big"].company_s == pytest.approx(0.5 + 1.2 + 0.3)
    assert found["big"].undisturbed == Work(decode=[(1, 1, 100, 1.0)], prefill=(0, 0, 0.0))
    assert found["small"].beside == Work(decode=[(1, 2, 21, 2.0)], prefill=(1, 5, 0.5), waking=(1, 5, 0.5))
    assert found["small"].company_s == pytest.approx(1.2 + 0.3 + 0.5)
    assert found["small"].undisturbed == Work(decode=[], prefill=(0, 0, 0.0))


def test_passes_over_drafts_are_counted_apart_from_plain_iterations() -> None:
    speculating = EngineStatistics(
        iterations=(Pass.plain(1, 10, 1.0, 1.0),),
        passes=(Pass(2, 30, 8, 5, 1.5, 0.5, 2.5), Pass(1, 20, 4, 2, 1.0, 0.2, 3.5), Pass(1, 24, 4, 3, 1.0, 0.2, 4.5)),
    )
    found = recorded(speculating, EngineStatistics(iterations=(Pass.plain(1, 10, 0.4, 3.0),)))["big"]
    assert found.decode == [(1, 1, 10, 1.0)]
    assert found.passes == [(1, 2, 44, 2.0), (2, 1, 30, 1.5)]
    assert found.beside == Work(passes=[(1, 1, 20, 1.0)])
    assert found.company_s == pytest.approx(0.4)
    assert found.undisturbed == Work(decode=[(1, 1, 10, 1.0)], passes=[(1, 1, 24, 1.0), (2, 1, 30, 1.5)])
    assert found.seconds == pytest.approx(4.5)
    assert summed([found, found])[0].passes == [(1, 4, 88, 4.0), (2, 2, 60, 3.0)]


def test_prefills_that_found_a_pass_are_counted() -> None:
    """One read beside decoding needed none of its own, and of three that were read together two did not."""
    joining = EngineStatistics(
        prefills=(
            Prefill(5, 0, 0.5, 1.0),
            Prefill(5, 0, 0.1, 2.0, beside=2),
            *(Prefill(5, 0, 0.2, ended_s, together=3) for ended_s in (3.0, 3.1, 3.2)),
        )
    )
    found = recorded(joining, EngineStatistics())["big"]
    assert (found.prefill.n, found.joined) == (5, pytest.approx(3.0))
    assert found.waking.n == 2  # the first one, and one of the three
    assert (found.undisturbed.joined, found.beside) == (pytest.approx(3.0), Work())
    assert summed([found, found])[0].joined == pytest.approx(6.0)
    company = EngineStatistics(iterations=(Pass.plain(1, 5, 0.3, 2.1),))
    beside = recorded(joining, company)["big"]
    assert (beside.undisturbed.joined, beside.beside and beside.beside.joined) == (pytest.approx(2.0), 1.0)


def test_what_ends_as_another_begins_had_no_company() -> None:
    first = EngineStatistics(iterations=(Pass.plain(1, 10, 1.0, 1.0),))
    second = EngineStatistics(iterations=(Pass.plain(1, 10, 1.0, 2.0),))
    for one in recorded(first, second).values():
        assert one.beside == Work()
        assert one.company_s == 0.0
        assert one.undisturbed.seconds == 1.0


def test_prefills_are_told_apart_by_whether_the_engine_had_rested() -> None:
    """The first one, and those that begin `RESTED_S` after the last work, whatever that was; not those that follow."""
    rest = RESTED_S
    busy = EngineStatistics(
        prefills=(
            Prefill(10, 0, 0.01, 1.0),
            Prefill(20, 0, 0.01, 1.0 + 0.01 + 0.9 * rest),
            Prefill(40, 0, 0.01, 2.0),
            Prefill(80, 0, 0.01, 2.02 + 0.01 + 1.1 * rest),
        ),
        iterations=(Pass.plain(1, 10, 0.01, 1.99 - 0.5 * rest), Pass.plain(1, 10, 0.01, 2.02)),
    )
    done = recorded(busy, EngineStatistics())["big"]
    assert done.prefill == (4, 150, pytest.approx(0.04))
    assert done.waking == (2, 90, pytest.approx(0.02))
    assert done.undisturbed.waking == done.waking


def test_records_add_up() -> None:
    found = recorded(BIG, SMALL)
    (whole,) = summed([found["big"], found["big"]])
    assert whole.decode == [(1, 4, 402, 4.0), (2, 2, 404, 4.0)]
    assert whole.request == (4, pytest.approx(0.6))
    both = Work(decode=[(1, 2, 202, 2.0), (2, 2, 404, 4.0)], prefill=(2, 60, 2.0), waking=(2, 60, 2.0))
    assert whole.beside == both
    assert whole.waking == (2, 60, 2.0)
    assert whole.company_s == pytest.approx(4.0)
    older = found["big"].model_copy(update={"shared_s": None})
    assert summed([older])[0].company_s == pytest.approx(4.0)  # all of what was done beside the other one
    (mixed,) = summed([found["big"], found["big"].model_copy(update={"beside": None})])
    assert (mixed.beside, mixed.shared_s, mixed.company_s) == (None, None, 0.0)
    assert summed([]) == []
    assert (mixed.undisturbed.decode, mixed.undisturbed.waking) == (mixed.decode, mixed.waking)  # as in older profiles


# Verdicts by roles that run on no engine: which of them tell how long one takes.

ROOT = prompt(3)


def done(operation: Operation, started: float, finished: float, *, cancelled: bool = False) -> Operation:
    operation.started, operation.finished, operation.cancelled = started, finished, cancelled
    return operation


def verdict(started: float, finished: float, *, cancelled: bool = False) -> Operation:
    return done(Verify(ROOT, ROOT, role=EMBEDDING), started, finished, cancelled=cancelled)


def test_verdicts_count_that_had_their_processor_to_themselves() -> None:
    """Those with the target's company; not those beside a draft, beside each other, or after an abandoned one."""
    draft, target = Generate(DRAFT, ROOT), Generate(TARGET, ROOT)
    operations = [
        done(target, 0.0, 9.0),
        verdict(1.0, 1.25),
        done(draft, 2.0, 2.5),
        verdict(2.25, 2.75),
        verdict(3.0, 3.5),
        verdict(3.25, 3.75),
        verdict(4.0, 4.125, cancelled=True),
        verdict(4.125, 4.5),
        verdict(5.0, 5.5),
        verdict(6.0, -1.0),
    ]
    assert undelayed_seconds(operations, EMBEDDING) == [0.25, 0.5]


def test_a_draft_that_has_not_ended_is_still_there() -> None:
    draft = done(Generate(DRAFT, ROOT), 1.0, -1.0)
    assert undelayed_seconds([draft, verdict(0.0, 0.5), verdict(2.0, 2.5)], EMBEDDING) == [0.5]
