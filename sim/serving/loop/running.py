"""Runs of the loop: which trials it runs, what it starts from, and what was seen; compiled where that is worth it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from importlib.util import find_spec
from types import FunctionType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sim.algorithms.autoregressive import autoregressive
from sim.engines.batching import BatchEngine
from sim.roles import TARGET
from sim.serving.answers import ServedAnswer, ServedLoad
from sim.serving.engine import ServingEngine
from sim.serving.limits import JoiningCost
from sim.serving.loop import changes, places
from sim.serving.loop import records as r
from sim.serving.loop.records import Prices, Requests, Rules, State
from sim.serving.loop.request_table import LIVED, NEW, TEXT, TOKENS, RequestTable, compiled_walk
from sim.trial import Trial
from theory.errors import ParameterError

__all__ = ["WORTH_COMPILING", "Column", "LoopRun", "engine_of"]

WORTH_COMPILING = 1_000_000
"""Requests run by this process from which on the loop is compiled: that takes as long as about half of them."""

_FAR: Final = float(1 << 20)
"""Tokens of context at which the second point of a cost's line is taken."""
_SLOTS: Final = 1 << 12
"""Readings whose prices are kept."""
_requests = [0]

Column = Callable[[NDArray[Any]], Any]
"""Rows as the loop reads them: lists, or arrays where it is compiled."""


def engine_of(trial: Trial) -> ServingEngine | None:
    """Return the engine on which a trial can be run by the loop; None: it needs events."""
    target = trial.engines.get(TARGET)
    if trial.algorithm is not autoregressive or type(target) is not ServingEngine:
        return None
    return target if isinstance(target.cost, JoiningCost) else None


class LoopRun:
    """A run of the loop over answers.

    Parameters
    ----------
    trial : of an `engine_of`.
    table : the answers, in the order in which they begin.
    moments_s : when the first of them begin, s, in order.
    marks : tokens that are written where the window begins and where it ends; None: it begins with the arrival of the
        answer ``warmup``, and ends with the last answer.
    warmup : see there; with marks, answers that nobody saw begin.
    in_flight : answers in flight at most.
    """

    def __init__(
        self,
        trial: Trial,
        table: RequestTable,
        moments_s: Sequence[float],
        *,
        marks: tuple[float, float] | None = None,
        warmup: int = 0,
        in_flight: float = math.inf,
    ) -> None:
        engine = engine_of(trial)
        assert engine is not None
        self.trial = trial
        self.engine = engine
        self.table = table
        self.warmup = warmup
        self.is_closed = marks is not None
        _requests[0] += table.columns.shape[1]
        is_compiled = _requests[0] >= WORTH_COMPILING and find_spec("numba") is not None
        column: Column = np.asarray if is_compiled else lambda rows: rows.tolist()
        self._walk = compiled_walk() if is_compiled else None
        self._requests = _requests_of(table, table.passes(self._walk), column)
        batches = min(engine.limits.most_sequences, len(table))
        self._prices = Prices(column(np.full((2, batches + 1), math.nan)), column(np.full((3, _SLOTS), -1.0)))
        self._state = _state(len(table), marks or (math.inf, math.inf), len(moments_s), column)
        self._rules = self._rules_of(moments_s, in_flight, column)
        self._run(compiled() if is_compiled else changes.loop)
        self._check()

    @property
    def is_overloaded(self) -> bool:
        """Whether too many answers were in flight."""
        return bool(self._state.whole[r.OVERLOADED])

    def _rules_of(self, moments_s: Sequence[float], in_flight: float, column: Column) -> Rules:
        limits, cost, waking_s = self.engine.limits, self.engine.cost, self.engine.waking_s
        assert isinstance(cost, JoiningCost)
        least, share = cost.joins
        return Rules(
            answers=len(self.table),
            capacity=float(limits.cache_tokens),
            most=limits.most_sequences,
            batched=limits.max_batched_tokens,
            rows=float(limits.rows),
            apart=limits.apart,
            request_s=float(cost.request_s),
            waking_s=float(waking_s),
            least=float(least),
            share=float(share),
            moments=column(np.array(moments_s, dtype=np.float64)),
            replaces=self.is_closed,
            warmup=self.warmup,
            in_flight=int(min(in_flight, len(self.table) + 1)),
        )

    def _run(self, loop: Callable[..., Any]) -> None:
        """Let the loop run; compute what iterations cost whenever it yields."""
        cost, known = self.engine.cost, self._prices
        assert isinstance(cost, JoiningCost)
        for asks, batch, read in loop(self._requests, self._rules, self._state, known):
            if asks == changes.ASKS_LINE:
                known.lines[0][batch] = base = cost.iteration(batch, 0.0)
                known.lines[1][batch] = (cost.iteration(batch, _FAR) - base) / _FAR
            elif asks == changes.ASKS_READING:
                reading = (float(batch), read, cost.reading(batch, read))
                for row, value in zip(known.readings, reading, strict=True):
                    row[changes.slot(batch, read, _SLOTS)] = value
            else:
                seconds = cost.iteration(batch, 0.0)
                rule = f"must take more than 0 s (batch {batch}): check the cost model"
                raise ParameterError("iteration", seconds, rule)

    def _check(self) -> None:
        """Refuse requests that do not fit into the cache, even while nothing else is in it."""
        columns, first = self.table.columns, self.table.first
        sizes = np.maximum.reduceat(columns[TEXT] + columns[TOKENS], first[:-1])
        most = max(sizes[~np.isnan(self._floats[r.STARTED])].tolist(), default=0)
        if most > self.engine.cache.capacity:
            rule = f"must hold a request of {most} tokens: give it more, or ask for less"
            raise ParameterError("cache_tokens", self.engine.cache.capacity, rule)

    @cached_property
    def _floats(self) -> NDArray[np.float64]:
        """By answer, shape (11, answers)."""
        return np.asarray(self._state.floats)[:, :-1]

    @cached_property
    def _ints(self) -> NDArray[np.int64]:
        """By answer, shape (16, answers)."""
        return np.asarray(self._state.ints)[:, :-1]

    @cached_property
    def _window(self) -> NDArray[np.float64]:
        """Seconds of the clock at the window's two ends, shape (2,)."""
        return np.asarray(self._state.real[r.SECONDS_AT : r.SECONDS_AT + 2])

    def load(self, in_flight: float | None) -> ServedLoad:
        """Return what was seen in the window; ``in_flight``: the answers in flight, None: their mean is taken."""
        whole, real = self._state.whole, self._state.real
        seconds, ended = float(np.diff(self._window)[0]), slice(*whole[r.ENDED_AT : r.ENDED_AT + 2])
        going = self._in_flight(1)
        worked = float(real[r.BUSY_AT + 1] - real[r.BUSY_AT])
        busy = {role: engine for role, engine in self.trial.engines.items() if isinstance(engine, BatchEngine)}
        return ServedLoad(
            answers=self._seen(ended),
            unended_s=tuple((self._window[1] - self._floats[r.STARTED, going[self._is_seen[going]]]).tolist()),
            n_ended=ended.stop - ended.start,
            seconds=seconds,
            tokens=self._written(1) - self._written(0),
            in_flight=in_flight if in_flight is not None else self._area() / seconds if seconds else 0.0,
            busy={role: worked / seconds if seconds and one is self.engine else 0.0 for role, one in busy.items()},
            preempted=int(whole[r.PREEMPTED]),
            cache_share=float(real[r.PEAK]) / self.engine.cache.capacity,
            waited_s=float(real[r.WAITED]),
            seed=self.trial.seed,
        )

    @cached_property
    def _is_seen(self) -> NDArray[np.bool_]:
        """Whether what users see of an answer counts: of those that began in the window; shape (answers,)."""
        began_in_it = self._floats[r.STARTED] >= self._window[0]
        return np.asarray((np.arange(len(self.table)) >= self.warmup) & (began_in_it | (not self.is_closed)))

    def _in_flight(self, mark: int) -> NDArray[np.int64]:
        """Answers that have begun and not ended by an end of the window."""
        begun = self._floats[r.STARTED] <= self._window[mark]
        begun[self._ints[r.ORDER, : self._state.whole[r.ENDED_AT + mark]]] = False
        return np.flatnonzero(begun)

    def _seen(self, ended: slice) -> tuple[ServedAnswer, ...]:
        """What users saw of answers that ended in the window, in the order of their ends."""
        order = self._ints[r.ORDER, ended]
        order = order[self._is_seen[order]]
        times = self._floats[[r.STARTED, r.FIRST_S, r.ENDED_S]][:, order].tolist()
        return tuple(map(ServedAnswer, *times, self.table.answer_tokens[order].tolist()))

    def _written(self, mark: int) -> int:
        """Tokens that were written by an end of the window."""
        table, going = self.table, self._in_flight(mark)
        ended = self._ints[r.ORDER, : self._state.whole[r.ENDED_AT + mark]]
        requests, done = self._ints[[r.STEP_AT + mark, r.DONE_AT + mark]][:, going]
        before = np.cumsum(table.columns[TOKENS]) - table.columns[TOKENS]
        requests = np.maximum(requests, table.first[going])  # of an answer that begins at that moment none is noted
        total = table.answer_tokens[ended].sum() + (before[requests] - before[table.first[going]]).sum()
        begun = done >= 0
        committed = table.committed(requests[begun], done[begun], self._walk)
        return int(total + begun.sum() + committed.sum())

    def _area(self) -> float:
        """Answers in flight x seconds over the window."""
        begin, end = self._window
        started, ended = self._floats[[r.STARTED, r.ENDED_S]]
        ended = np.where(np.isnan(ended), end, np.minimum(ended, end))
        return float(np.nansum(np.maximum(ended - np.maximum(started, begin), 0.0)))


@lru_cache(maxsize=1)
def compiled() -> Callable[..., Any]:
    """Return the loop, compiled with all that it calls: as the same functions among compiled ones."""
    from numba import njit

    modules = (places, changes)
    names = {name: value for module in modules for name, value in vars(module).items()}
    own = {module.__name__ for module in modules}
    # Python calls the loop only: the rest needs no code for that, which takes as long to compile.
    inner: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    for name, value in list(names.items()):
        if isinstance(value, FunctionType) and value.__module__ in own and value is not changes.loop:
            names[name] = njit(nogil=True, **inner)(FunctionType(value.__code__, names, name))
    return njit(nogil=True)(FunctionType(changes.loop.__code__, names, "loop"))


def _requests_of(table: RequestTable, passes: NDArray[np.int64], column: Column) -> Requests:
    text, new, tokens, lived = table.columns[[TEXT, NEW, TOKENS, LIVED]]
    passes = np.maximum(passes, 0)
    per_pass = np.where(passes > 0, (tokens - 1) / np.maximum(passes, 1), 0.0)
    means = text + (tokens - lived) / 2.0
    return Requests(column(table.first), column(np.array([text, new, passes])), column(np.array([per_pass, means])))


def _state(answers: int, marks: tuple[float, float], n_begin: int, column: Column) -> State:
    """Everything before the first answer begins, of which so many begin at given moments."""
    ints, floats = np.zeros((16, answers + 1), dtype=np.int64), np.zeros((11, answers + 1))
    whole, real = np.zeros(20, dtype=np.int64), np.zeros(22)
    ints[[r.BEFORE, r.BEHIND]], ints[r.FINISH], floats[r.UNUSED] = answers, -1, -1.0
    floats[[r.STARTED, r.FIRST_S, r.ENDED_S]] = math.nan
    whole[r.NEXT], real[r.CHANGE], real[r.RESTED] = n_begin, math.inf, -math.inf
    real[r.TOKENS_AT : r.TOKENS_AT + 2] = marks
    return State(*map(column, (ints, floats, whole, real)))
