"""Servers by load: plain decoding and each token-level method at 1, 2, 4, ... answers at once, level by level.

Every level is several closed loops of some seconds (`calibrate.loads.closed_loop`), one in each round over all levels,
since a machine's speed changes by a tenth from one loop to the next; rounds are in opposite orders by turns. Each loop
is an entry of the journal. At a server that lets requests wait, larger levels are left out; so are, by name, a level
that it refused, and all larger ones.

With one answer at a time, engines that share a processor seldom work at the same time; with several they do, and the
clients themselves take time. So rounds of Lookahead Reasoning are run with 2, 4, 8 clients too, and what each engine
did in them is recorded (`measure_clients`); `calibrate.costs.fit.CostFit.slowdown` compares it with one answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Final

from calibrate.engines.http.wire import RefusedError
from calibrate.engines.speculation import Decoding
from calibrate.loads.closed_loop import run_loop
from calibrate.loads.sums import cautions, record_of, unusable
from calibrate.record.engine_records import ClientsInUse, InUse, LoadRecord, as_json
from calibrate.record.journal import Journal
from calibrate.running.closed_loop import real_round
from calibrate.running.interleaved import RealConfiguration
from calibrate.running.patience import Patience
from calibrate.running.problem import Problem
from calibrate.running.wall_clock import WallClock
from sim.algorithms import lookahead_async
from sim.roles import TARGET
from theory.errors import ParameterError, check_integers

__all__ = ["ROUNDS", "LoadOptions", "LoadSweep", "kept_clients", "kept_loads", "load_notes", "measure_clients"]

_QUESTIONS: Final = 256
"""Most questions that the clients send in turns."""
_PLAN: Final = "rounds of loads"
_SECONDS: Final = (1.0, 6.0)
"""Least and largest length of a loop, s."""
_ENOUGH_S: Final = 1.5
"""Least length of the loops of more than one round, s."""
ROUNDS: Final = 4
"""Most loops of a level, each in a round over all levels."""
_STEPS: Final = RealConfiguration(make=partial(lookahead_async, k1=2))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Which loads are measured, and for how long."""

    levels: tuple[int, ...] = ()
    """Numbers of answers at once; empty: 1, 2, 4, ... up to what a server runs at once, at most ``most``."""
    most: int = 256
    share: float = 1.0 / 3.0
    """Share of the calibration's time that all loads together may take, in (0, 1); but a loop takes 1 s at least, and
    levels that are named are all measured."""

    def __post_init__(self) -> None:
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in self.levels):
            raise ParameterError("concurrency", self.levels, "must be integers >= 1, e.g. 1,4,16")
        check_integers(self, most=1)
        if not 0.0 < self.share < 1.0:
            raise ParameterError("share", self.share, "must be in (0, 1)")

    @property
    def most_levels(self) -> tuple[int, ...]:
        """The levels, where time allows all of them."""
        doubled = (2**i for i in range(self.most.bit_length()))
        return tuple(sorted({*self.levels} or {*doubled, self.most}))

    def up_to(self, limit: int | None) -> LoadOptions:
        """Return the options for a server that runs so many sequences at once; None: not known."""
        return self if limit is None else replace(self, most=min(self.most, limit))

    def plan(self, others_s: float, n_decodings: int) -> tuple[list[int], float, int]:
        """Return the levels, the seconds of a loop, and the number of rounds.

        Parameters
        ----------
        others_s : time that the rest of the calibration took, s.

        >>> LoadOptions(most=16).plan(60.0, 2)
        ([1, 2, 4, 8, 16], 1.5, 2)
        >>> LoadOptions(most=16).plan(6.0, 1)
        ([1, 4, 16], 1.0, 1)
        """
        budget_s = round(others_s * self.share / (1.0 - self.share), 3)
        least, longest = _SECONDS
        levels = list(self.most_levels)
        while not self.levels and len(levels) > 2 and least * len(levels) * n_decodings > budget_s:
            levels = levels[::2]
        each_s = budget_s / (len(levels) * n_decodings)
        n_rounds = min(max(int(each_s / _ENOUGH_S), 1), ROUNDS)
        return levels, min(max(each_s / n_rounds, least), longest), n_rounds


@dataclass(slots=True, kw_only=True)
class LoadSweep:
    """The loads of a calibration."""

    options: LoadOptions
    decodings: Sequence[Decoding]
    clock: WallClock
    journal: Journal
    patiently: Patience
    progress: Callable[[str], None]

    async def measure(
        self, problems: Sequence[Problem], others_s: float, before: Callable[[int], Awaitable[None]]
    ) -> None:
        """Measure all levels in as many rounds as there is time for; ``others_s`` as for `LoadOptions.plan`."""
        options = self.options.up_to(self.clock.backend(TARGET).describe().get("max_batch"))
        planned = partial(options.plan, others_s, len(self.decodings))
        levels, seconds, n_rounds = self.journal.kept(_PLAN, planned)
        questions = [await self.clock.root(problem.prompt) for problem in problems[:_QUESTIONS]]
        for number in range(ROUNDS):
            if number < n_rounds:
                await before(number)
            for at_once, decoding in product(reversed(levels) if number % 2 else levels, self.decodings):
                key = _key(decoding.key, at_once, number)
                if key not in self.journal and number < n_rounds and self._runs(decoding.key, at_once, number):
                    level = partial(self._level, questions, at_once, seconds, decoding)
                    self.journal.add(key, await self.patiently(level))
                self.progress(key)

    def _runs(self, decoding: str, at_once: int, number: int) -> bool:
        """Whether a level is measured: at first all until requests wait or one is left out, later those that ran."""
        levels = self.journal[_PLAN][0]
        first = {n: self.journal[key] for n in levels if (key := _key(decoding, n, 0)) in self.journal}
        if number:
            return at_once in first and first[at_once]["record"] is not None
        smaller = [entry["record"] for n, entry in first.items() if n < at_once]
        return not any(one is None or (one["queued"] and not self.options.levels) for one in smaller)

    async def _level(
        self, questions: Sequence[Any], at_once: int, seconds: float, decoding: Decoding
    ) -> dict[str, Any]:
        """The journal entry of a level: its record, None if it is left out, and notes."""
        where = _key(decoding.key, at_once, 0)
        try:
            loop = await run_loop(self.clock, questions, at_once, seconds, decoding.speculation)
        except RefusedError as error:
            return {"record": None, "notes": [f"warning: {where} is left out: {error}"]}
        record = record_of(loop, decoding.method, decoding.knobs)
        reason = unusable(loop, record)
        if record is None or reason:
            return {"record": None, "notes": [f"warning: {where} is left out: {reason}"]}
        return {"record": record.model_dump(mode="json"), "notes": [f"{where}: {c}" for c in cautions(loop, record)]}


def _in_round(what: str, number: int) -> str:
    """Return the name in the journal of what is measured in each round; of the first round it is the thing's own."""
    return f"{what}, round {number + 1}" if number else what


def _key(decoding: str, at_once: int, number: int) -> str:
    return _in_round(f"{decoding}, {at_once} at once", number)


def kept_loads(journal: Journal, decodings: Sequence[Decoding]) -> list[LoadRecord]:
    """Return the records of all loops that were finished, smallest load first, those of a level by round."""
    return [LoadRecord.model_validate(one["record"]) for one in _entries(journal, decodings) if one["record"]]


def load_notes(journal: Journal, decodings: Sequence[Decoding]) -> list[str]:
    """Return the notes on all finished levels, for the profile."""
    return [note for entry in _entries(journal, decodings) for note in entry["notes"]]


def _entries(journal: Journal, decodings: Sequence[Decoding]) -> list[Any]:
    """The loops that are finished, level by level."""
    levels = journal[_PLAN][0] if _PLAN in journal else ()
    keys = (_key(one.key, n, number) for n, one, number in product(levels, decodings, range(ROUNDS)))
    return [journal[key] for key in keys if key in journal]


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
        key = _in_round(f"{n} clients", number)
        if key not in journal:
            journal.add(key, await patiently(partial(measured, n)))
        progress(key)


def kept_clients(journal: Journal, clients: Sequence[int], engine: str) -> list[ClientsInUse]:
    """Return the work of an engine in all rounds that are finished."""
    keys = (_in_round(f"{n} clients", number) for n in clients for number in range(ROUNDS))
    return [ClientsInUse.model_validate(journal[key][engine]) for key in keys if key in journal]
