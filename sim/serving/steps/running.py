"""Runs of the loop: which trials it runs, what it starts from, and what was seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from sim.algorithms.checks import JUDGED, Check
from sim.algorithms.lookahead_async import lookahead_async
from sim.algorithms.rules import PAPER
from sim.algorithms.rules import Rules as Schedule
from sim.answers.drawn import DrawnAnswer
from sim.answers.token_passes import DrawnPasses, SpeculatedAnswer
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost, TableCost
from sim.operations import DRAFT, JUDGE, TARGET, Step
from sim.serving.answers import ServedAnswer, ServedLoad
from sim.serving.engine import ServingEngine
from sim.serving.limits import JoiningCost
from sim.serving.loop.running import FAR, SLOTS, compiled, is_worth_compiling
from sim.serving.steps import batches, places, queues, texts, tree
from sim.serving.steps import engine as engine_module
from sim.serving.steps import loop as loop_module
from sim.serving.steps import records as r
from sim.serving.steps.engine import settle, slot_of
from sim.serving.steps.loop import loop
from sim.serving.steps.records import Prices, Rules, State
from sim.serving.under_way import under_way
from sim.trial import Trial
from sim.virtual_clock import Answer, with_stand_ins
from theory.errors import ParameterError, SpecplanError

__all__ = ["NoRoomError", "StepsRun", "loop_for", "served_by"]

_ROLES: Final = (TARGET, DRAFT, JUDGE)
_ENGINES: Final = 3
_LINEAR: Final = (LinearCost, TableCost)
"""Costs that are linear in the context, so that two points tell all of them for a batch."""
_REQUESTS_OF_A_STEP: Final = 4.0
"""Requests per step that is committed, about."""
_AMPLE: Final = 2
"""What there is room for, steps of an answer and requests / what was met, or what is in flight."""

Loop = Callable[..., Iterator[tuple[int, int, int, float]]]


class NoRoomError(SpecplanError):
    """A run needs more than was thought: the engines of events have to run it."""


class Served(NamedTuple):
    """What the loop can run."""

    algorithm: Mapping[str, Any]
    """Knobs."""
    roles: tuple[int, ...]
    """Number of the engine of target, draft and judge."""
    engines: tuple[BatchEngine, ...]


def served_by(trial: Trial) -> Served | None:
    """Return what the loop runs of a trial; None: it needs events.

    It runs asynchronous Lookahead Reasoning with one draft per position and a judge, on engines whose devices have no
    neighbours; only the target's cache may be finite.
    """
    algorithm = trial.algorithm
    if not isinstance(algorithm, partial) or algorithm.func is not lookahead_async or algorithm.args:
        return None
    knobs = {"width": 1, "rules": PAPER, "check": JUDGED, **algorithm.keywords}
    rules: Schedule = knobs["rules"]
    check: Check = knobs["check"]
    if (knobs["width"], rules.slot, rules.fallback, check.verifier) != (1, "commit", "reuse", JUDGE):
        return None
    known = with_stand_ins(trial.engines)
    found = [known.get(role) for role in _ROLES]
    suited = [one for one in found if isinstance(one, BatchEngine) and _is_suited(one, is_target=one is found[0])]
    if len(suited) < len(found):
        return None
    numbered = sorted(dict.fromkeys(suited), key=lambda one: one.device.engines.index(one))
    return Served(knobs, tuple(map(numbered.index, suited)), tuple(numbered))


def _is_suited(engine: BatchEngine, *, is_target: bool) -> bool:
    if engine.beside != 1.0 or engine.device.neighbours:
        return False
    if type(engine) is ServingEngine:
        return isinstance(engine.cost, JoiningCost) and (is_target or math.isinf(engine.limits.cache_tokens))
    # A prefill that takes no time is no event of its own.
    return type(engine) is BatchEngine and isinstance(engine.cost, _LINEAR) and engine.cost.prefill(0) > 0.0


def loop_for(trial: Trial, tokens: int, first: int) -> Loop | None:
    """Return the loop, compiled, where that is worth it for so many tokens more; None: events are to run.

    Parameters
    ----------
    trial : of `served_by`.
    tokens : that are to be written.
    first : index of an answer.
    """
    lengths: list[int] = getattr(trial.answer(first), "written_lengths", list)()
    step = sum(lengths) / len(lengths) if lengths else math.inf
    if not is_worth_compiling(int(_REQUESTS_OF_A_STEP * tokens / step)):
        return None
    return compiled((queues, texts, tree, places, batches, engine_module, loop_module), "loop")


class StepsRun:
    """A closed loop of so many answers, as `sim.serving.run` looks at one.

    Parameters
    ----------
    trial, served : what runs, and what the loop needs to know of it.
    concurrency : answers in flight.
    tokens : that will be written, about.
    first : index of the first answer.
    met_under_way : whether the first answers are in the middle of their lives.
    way : the loop, compiled or not.

    Raises
    ------
    NoRoomError : as do its methods.
    """

    def __init__(
        self,
        trial: Trial,
        served: Served,
        concurrency: int,
        tokens: int,
        first: int,
        *,
        met_under_way: bool,
        way: Loop = loop,
    ) -> None:
        self.trial, self.served, self.concurrency = trial, served, concurrency
        self.target = served.engines[served.roles[0]]
        limits = self.target.limits if isinstance(self.target, ServingEngine) else None
        met, self._following = under_way(trial, concurrency, first, limits) if met_under_way else ([], first)
        self._met, self.n_met = iter(met), len(met)
        self._rules = self._rules_of(tokens, first)
        self._state = self._state_of()
        in_flight = self._n_requests
        self._prices = Prices(np.full((2 * _ENGINES, in_flight + 1), math.nan), np.full((3 * _ENGINES, SLOTS), -1.0))
        self._loop = way(self._rules, self._state, self._prices, concurrency)
        self._go_on(r.BY_TIME, 0.0, 1)

    def _rules_of(self, tokens: int, first: int) -> Rules:
        rules: Schedule = self.served.algorithm["rules"]
        lengths = [
            _drawn(self.trial.answer(index)).written_lengths() for index in range(first, first + self.concurrency)
        ]
        mean = sum(map(sum, lengths)) / len(lengths)
        window = self.served.algorithm["k1"] + rules.extra_in_flight
        return Rules(
            window=window,
            prefetches=rules.prefetch_draft,
            cancels_late=rules.late_draft == "cancel",
            late_in_order=rules.late_draft == "in-order",
            in_order=rules.restart == "in-order",
            reject_first=rules.reject_first,
            reject_after_cut=rules.reject_after_truncation,
            cancels_at_end=rules.cancel_at_end,
            overhead=_drawn(self.trial.answer(first)).overhead_tokens,
            ring=window + 3,
            slab=_AMPLE * max(map(len, lengths)),
            answers=4 * self.concurrency + int(_AMPLE * tokens / max(mean, 1.0)) + 64,
        )

    @property
    def _n_requests(self) -> int:
        """Requests that there is room for."""
        return _AMPLE * self.concurrency * 3 * (self._rules.window + 2) + 64

    def _state_of(self) -> State:
        rules, engines, n = self._rules, self.served.engines, self._n_requests
        width = max(self.concurrency * max(rules.slab, rules.ring), rules.answers + 1, n + 1, r.N_WHOLE)
        whole, real = np.zeros((r.N_ROWS, width), dtype=np.int64), np.zeros((r.N_REAL_ROWS, width))
        devices = list(dict.fromkeys(engine.device for engine in engines))
        whole[r.ENGINE, :_ENGINES], whole[r.DEVICE, :_ENGINES], whole[r.SERVES, :_ENGINES] = (
            self.served.roles,
            range(3),
            1,
        )
        for number, engine in enumerate(engines):
            whole[r.DEVICE, number], whole[r.IS_SHARED, number] = (
                devices.index(engine.device),
                bool(engine.device.concerned),
            )
            whole[r.SERVES, number] = isinstance(engine, ServingEngine)
            real[r.CAPACITY : r.SHARE + 1, number] = _limits_of(engine)
        real[[r.STARTED, r.FIRST_S, r.ENDED_S]], real[r.UNUSED] = math.nan, -1.0
        real[r.SPEED], real[r.RESTING], real[r.TAU] = 1.0, -math.inf, math.inf
        whole[r.STACK, :n], whole[r.FINISH] = np.arange(1, n + 1), -1
        told = {r.FREE: n, r.PRICED: -1, r.EVERY: 1, r.NEXT_ANSWER: 1, r.LOADED: 1}
        whole[r.WHOLE, list(told)] = list(told.values())
        return State(whole, real)

    @property
    def now(self) -> float:
        """Seconds of the clock."""
        return float(self._state.f[r.REAL, r.NOW])

    @property
    def written(self) -> int:
        """Tokens that stand so far."""
        return int(self._state.f[r.REAL, r.TOTAL])

    def until_written(self, tokens: float) -> None:
        """Let time pass until so many tokens are written, as seen every so many events."""
        self._go_on(r.BY_TOKENS, tokens, self.concurrency)

    def until_time(self, seconds: float) -> None:
        """Let time pass until so many seconds are over, as seen every so many events."""
        self._go_on(r.BY_TIME, seconds, self.concurrency)

    def round_s(self) -> float:
        """Seconds until all answers that began first have committed for the first time."""
        self._go_on(r.BY_COMMITS, 0.0, 1)
        return self.now

    def begin_window(self) -> None:
        """Count from here on."""
        self._began, self._tokens_before, self._busy_before = self.now, self.written, self._busy()
        self._done_before = int(self._state.i[r.WHOLE, r.ENDED])

    def window(self, in_flight: float) -> ServedLoad:
        """What has happened since then."""
        times, answers = self._state.f, self._state.i
        seconds, done = self.now - self._began, int(answers[r.WHOLE, r.ENDED])
        busy = {role: value - self._busy_before[role] for role, value in self._busy().items()}
        seen = (np.arange(times.shape[1]) > self.n_met) & (times[r.STARTED] >= self._began)
        ended = answers[r.ORDER, self._done_before : done]
        ended = ended[seen[ended]]
        told = times[[r.STARTED, r.FIRST_S, r.ENDED_S]][:, ended].tolist()
        going = np.flatnonzero(seen & np.isnan(times[r.ENDED_S]))
        number = self.served.roles[0]
        return ServedLoad(
            answers=tuple(map(ServedAnswer, *told, answers[r.TOKENS, ended].tolist())),
            unended_s=tuple((self.now - times[r.STARTED, going]).tolist()),
            n_ended=done - self._done_before,
            seconds=seconds,
            tokens=self.written - self._tokens_before,
            in_flight=in_flight,
            busy={role: value / seconds if seconds else 0.0 for role, value in busy.items()},
            preempted=int(answers[r.PREEMPTED, number]),
            cache_share=float(times[r.REAL, r.PEAK] / times[r.CAPACITY, number]),
            waited_s=float(times[r.WAITED, number]),
            seed=self.trial.seed,
        )

    def _busy(self) -> dict[str, float]:
        engines, result = self.served.engines, {}
        for role, engine in self.trial.engines.items():
            if isinstance(engine, BatchEngine):
                result[role] = 0.0
                if engine in engines:
                    settle(self._state, engines.index(engine))
                    result[role] = float(self._state.f[r.BUSY, engines.index(engine)])
        return result

    def _go_on(self, mode: int, wanted: float, every: int) -> None:
        """Let the loop run until something is reached; tell it what it asks for."""
        self._state.i[r.WHOLE, [r.MODE, r.EVERY, r.PASSED]] = mode, every, 0
        self._state.f[r.REAL, r.WANTED] = wanted
        for asks, ref, n, read in self._loop:
            if asks == loop_module.REACHED:
                return
            if asks == loop_module.ASKS_ANSWER:
                self._load(ref, n)
            elif asks == loop_module.HAS_NO_ROOM:
                break
            else:
                self._tell(asks, ref, n, read)
        raise NoRoomError("the arrays of a loop are too small")

    def _tell(self, asks: int, number: int, batch: int, read: float) -> None:
        """Say what iterations of an engine cost."""
        engine, known = self.served.engines[number], self._prices
        cost: Any = engine.cost  # by `served_by` that of a serving engine is a `JoiningCost`
        if asks == loop_module.ASKS_LINE:
            known.lines[2 * number, batch] = base = cost.iteration(batch, 0.0)
            known.lines[2 * number + 1, batch] = (cost.iteration(batch, FAR) - base) / FAR
        elif asks == loop_module.ASKS_READING:
            seconds = cost.reading(batch, read) if isinstance(engine, ServingEngine) else cost.prefill(int(read))
            rows = slice(3 * number, 3 * number + 3)
            known.readings[rows, slot_of(batch, read, SLOTS)] = float(batch), read, seconds
        else:
            rule = f"must take more than 0 s (batch {batch}): check the cost model"
            raise ParameterError("iteration", cost.iteration(batch, 0.0), rule)

    def _load(self, place: int, number: int) -> None:
        """Lay out the steps of the next answer for a place."""
        s, rules = self._state, self._rules
        answer, text = self._next()
        drawn = _drawn(answer)
        if drawn.n_steps > rules.slab or number > rules.answers:
            raise NoRoomError("an answer is longer than those that were met first, or there are more of them")
        begin = place * rules.slab
        for row, values in enumerate(_steps_of(answer, drawn)):
            s.i[r.OWN_TOKENS + row, begin : begin + drawn.n_steps] = values
        position = text.depth + 1
        s.i[[r.LAST, r.ROOT], place] = drawn.n_steps - 1, position
        by = r.WRITES if text.role == TARGET else r.ASKS
        tree.add_node(rules, s, place, position, text.context_tokens, text.n_tokens, by, 0)
        s.i[r.WHOLE, r.LOADED] = number + 1

    def _next(self) -> tuple[Answer, Step]:
        for answer, text in self._met:
            return answer, text
        answer = self.trial.answer(self._following)
        self._following += 1
        return answer, answer.root


def _drawn(answer: Answer) -> DrawnAnswer:
    """The drawn answer within one.

    Raises
    ------
    NoRoomError : it is another one.
    """
    if isinstance(answer, SpeculatedAnswer):
        drafts = answer.source(DRAFT) is answer.source(JUDGE) is None
        source = answer.source(TARGET)
        if not drafts or not (source is None or isinstance(source, DrawnPasses)):
            raise NoRoomError("passes are not drawn")
        answer = answer.inner
    if type(answer) is not DrawnAnswer:
        raise NoRoomError("answers are not drawn")
    return answer


def _steps_of(answer: Answer, drawn: DrawnAnswer) -> Iterator[Any]:
    """Rows of `State.steps`."""
    limit = drawn.limit
    own, drafted = np.array(drawn.target_lengths()), np.array(drawn.draft_lengths())
    tokens = np.minimum(own, limit)
    source = answer.source(TARGET) if isinstance(answer, SpeculatedAnswer) else None
    passes = tokens - 1
    if isinstance(source, DrawnPasses) and isinstance(answer, SpeculatedAnswer):
        before = np.arange(-1, len(own) - 1)
        passes = source.numbers(np.full(len(own), answer.index), TARGET, before, passes)
    yield from (tokens, np.minimum(drafted, limit), passes, drawn.accepted(), own > limit, drafted > limit)


def _limits_of(engine: BatchEngine) -> tuple[float, ...]:
    """A column of `Rules.limits`."""
    request_s, waking_s = float(engine.cost.request_s), float(engine.waking_s)
    if not isinstance(engine, ServingEngine):
        return math.inf, float(engine.max_batch), math.inf, 1.0, 0.0, request_s, waking_s, 0.0, 0.0
    limits, cost = engine.limits, engine.cost
    assert isinstance(cost, JoiningCost)
    most, batched = float(limits.most_sequences), float(limits.max_batched_tokens)
    held = float(limits.cache_tokens), most, batched, float(limits.rows), float(limits.chunked)
    return *held, request_s, waking_s, *map(float, cost.joins)
