"""Runs of the loop: which trials it runs, what it starts from, and what was seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from sim.serving.steps import batches, places, texts, tree
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
    """Return the loop, compiled, where that is worth it for so many tokens more; None: events are as fast.

    Parameters
    ----------
    trial : of `served_by`.
    tokens : that are to be written.
    first : index of an answer.
    """
    lengths = getattr(trial.answer(first), "written_lengths", list)()
    step = sum(lengths) / len(lengths) if lengths else math.inf
    if not is_worth_compiling(int(_REQUESTS_OF_A_STEP * tokens / step)):
        return None
    return compiled((texts, tree, places, batches, engine_module, loop_module), "loop")


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
        self._column = _as_lists if way is loop else _as_array
        self._rules = self._rules_of(tokens, first)
        n = self._rules.answers
        self._state = self._state_of(n)
        in_flight = len(self._state.requests[0])
        self._prices = Prices(
            self._column(np.full((2 * _ENGINES, in_flight + 1), math.nan)),
            self._column(np.full((3 * _ENGINES, SLOTS), -1.0)),
        )
        self._loop = way(self._rules, self._state, self._prices, concurrency)
        self._go_on(r.BY_TIME, 0.0, 1)

    def _rules_of(self, tokens: int, first: int) -> Rules:
        rules: Schedule = self.served.algorithm["rules"]
        lengths = [
            _drawn(self.trial.answer(index)).written_lengths() for index in range(first, first + self.concurrency)
        ]
        mean = sum(map(sum, lengths)) / len(lengths)
        window = self.served.algorithm["k1"] + rules.extra_in_flight
        engines = self.served.engines
        devices = list(dict.fromkeys(engine.device for engine in engines))
        rest = range(len(engines), _ENGINES)
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
            engine=self._column(np.array(self.served.roles)),
            device=self._column(np.array([*(devices.index(one.device) for one in engines), *rest])),
            shared=self._column(np.array([*(bool(one.device.concerned) for one in engines), *(False for _ in rest)])),
            serves=self._column(np.array([isinstance(one, ServingEngine) for one in (*engines, *rest)])),
            limits=self._column(np.array([_limits_of(one) for one in (*engines, *(engines[:1] * len(rest)))]).T.copy()),
        )

    def _state_of(self, answers: int) -> State:
        rules, places = self._rules, self.concurrency
        n = _AMPLE * places * 3 * (rules.window + 2) + 64
        times, requests = np.zeros((5, answers + 1)), np.zeros((13, n + 1), dtype=np.int64)
        times[[r.STARTED, r.FIRST_S, r.ENDED_S]], times[r.UNUSED] = math.nan, -1.0
        requests[r.STACK], requests[r.FINISH] = np.arange(1, n + 2), -1
        work, whole = np.zeros((12, _ENGINES)), np.zeros(14, dtype=np.int64)
        work[r.SPEED], work[r.RESTING], work[r.TAU] = 1.0, -math.inf, math.inf
        whole[r.FREE], whole[r.PRICED], whole[r.EVERY] = n, -1, 1
        whole[r.NEXT_ANSWER] = whole[r.LOADED] = 1
        whole_numbers = {"steps": (6, places * rules.slab), "nodes": (12, places * rules.ring), "places": (4, places)}
        whole_numbers |= {"answers": (6, answers + 1), "engines": (8, _ENGINES)}
        rows = {name: np.zeros(shape, dtype=np.int64) for name, shape in whole_numbers.items()}
        rows |= {"times": times, "requests": requests, "sizes": np.zeros((7, n + 1)), "work": work}
        return State(
            **{name: self._column(array) for name, array in {**rows, "whole": whole, "real": np.zeros(6)}.items()}
        )

    @property
    def now(self) -> float:
        """Seconds of the clock."""
        return float(self._state.real[r.NOW])

    @property
    def written(self) -> int:
        """Tokens that stand so far."""
        return int(self._state.real[r.TOTAL])

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
        self._done_before = int(self._state.whole[r.ENDED])

    def window(self, in_flight: float) -> ServedLoad:
        """What has happened since then."""
        times, answers = np.asarray(self._state.times), np.asarray(self._state.answers)
        seconds, done = self.now - self._began, int(self._state.whole[r.ENDED])
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
            preempted=int(self._state.engines[r.PREEMPTED][number]),
            cache_share=float(self._state.real[r.PEAK]) / self._rules.limits[r.CAPACITY][number],
            waited_s=float(self._state.work[r.WAITED][number]),
            seed=self.trial.seed,
        )

    def _busy(self) -> dict[str, float]:
        engines, result = self.served.engines, {}
        for role, engine in self.trial.engines.items():
            if isinstance(engine, BatchEngine):
                result[role] = 0.0
                if engine in engines:
                    settle(self._state, engines.index(engine))
                    result[role] = float(self._state.work[r.BUSY][engines.index(engine)])
        return result

    def _go_on(self, mode: int, wanted: float, every: int) -> None:
        """Let the loop run until something is reached; tell it what it asks for."""
        whole = self._state.whole
        whole[r.MODE], whole[r.EVERY], whole[r.PASSED], self._state.real[r.WANTED] = mode, every, 0, wanted
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
        cost, known = self.served.engines[number].cost, self._prices
        if asks == loop_module.ASKS_LINE:
            known.lines[2 * number][batch] = base = cost.iteration(batch, 0.0)
            known.lines[2 * number + 1][batch] = (cost.iteration(batch, FAR) - base) / FAR
        elif asks == loop_module.ASKS_READING:
            seconds = cost.reading(batch, read) if isinstance(cost, JoiningCost) else cost.prefill(int(read))
            for row, value in enumerate((float(batch), read, seconds)):
                known.readings[3 * number + row][slot_of(batch, read, SLOTS)] = value
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
            s.steps[row][begin : begin + drawn.n_steps] = values
        position = text.depth + 1
        s.places[r.LAST][place], s.places[r.ROOT][place] = drawn.n_steps - 1, position
        by = r.WRITES if text.role == TARGET else r.ASKS
        tree.add_node(rules, s, place, position, text.context_tokens, text.n_tokens, by, 0)
        s.whole[r.LOADED] = number + 1

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


def _as_lists(rows: NDArray[Any]) -> Any:
    return rows.tolist()


def _as_array(rows: NDArray[Any]) -> Any:
    return rows
