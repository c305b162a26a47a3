"""Work of engines while several clients are answered step by step at the same time.

With one answer at a time, engines that share a processor seldom work at the same time; with several they do, and the
clients themselves take time. So rounds of Lookahead Reasoning are run with 2, 4, 8 clients, several times with other
measurements in between, and what each engine did in them is recorded; `calibrate.costs.fit.CostFit.slowdown` compares
it with the times of one answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from calibrate.loads.levels import ROUNDS, in_round
from calibrate.record.engine_records import ClientsInUse, InUse, as_json
from calibrate.record.journal import Journal
from calibrate.running.closed_loop import real_round
from calibrate.running.interleaved import RealConfiguration
from calibrate.running.patience import Patience
from calibrate.running.problem import Problem
from calibrate.running.wall_clock import WallClock
from sim.algorithms import lookahead_async

__all__ = ["kept_clients", "measure_clients"]

_STEPS: Final = RealConfiguration(make=partial(lookahead_async, k1=2))


async def measure_clients(
    clock: WallClock,
    problems: Sequence[Problem],
    clients: Sequence[int],
    journal: Journal,
    number: int,
    *,
    work: Callable[[], Awaitable[Mapping[str, InUse]]],
    patiently: Patience,
    progress: Callable[[str], None],
) -> None:
    """Run a round with each number of clients, each of whom asks two questions; the journal keeps the engines' work.

    Parameters
    ----------
    number : how often this was done before; each time has other draws, and larger or smaller numbers of clients first.
    work : returns the work of each engine since its last call.

    Raises
    ------
    CalibrationError : an engine failed, or the journal cannot be written.
    """

    async def measured(n: int) -> dict[str, Any]:
        await work()
        own = [replace(problem, name=f"{problem.name} {number}") for problem in problems[: 2 * n]]  # its own draws
        done = await real_round(clock, own, _STEPS, n, work=work)
        in_flight = sum(done.round.seconds) / done.round.makespan
        return {name: {**did, "clients": n, "in_flight": in_flight} for name, did in as_json(done.work).items()}

    for n in reversed(clients) if number % 2 else clients:
        key = in_round(f"{n} clients", number)
        if key not in journal:
            journal.add(key, await patiently(partial(measured, n)))
        progress(key)


def kept_clients(journal: Journal, clients: Sequence[int], engine: str) -> list[ClientsInUse]:
    """Return the work of an engine in all rounds that are finished."""
    keys = (in_round(f"{n} clients", number) for n in clients for number in range(ROUNDS))
    return [ClientsInUse.model_validate(journal[key][engine]) for key in keys if key in journal]
