"""Answers that come and go on shared engines, until enough is seen.

A closed loop keeps so many answers in flight. An open loop lets answers arrive. Tokens count when they are written, not
when their answer ends, so that it does not matter where a window begins or ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from simpy import Timeout

from sim.algorithms.autoregressive import autoregressive
from sim.engines.batching import BatchEngine
from sim.engines.protocol import Done
from sim.operations import Step
from sim.roles import TARGET
from sim.serving.answers import ServedAnswer, ServedLoad
from sim.serving.engine import ServingEngine
from sim.serving.loop.request_table import RequestTable
from sim.serving.loop.running import LoopRun, engine_of
from sim.serving.under_way import under_way
from sim.timeline import Counts
from sim.trial import Trial
from sim.virtual_clock import Answer, DeadlockError, Session, VirtualClock
from theory.errors import ParameterError, SpecplanError

__all__ = ["OverloadError", "arriving", "closed_loop"]


class OverloadError(SpecplanError):
    """Answers arrive faster than the engines finish them."""


_MOST_IN_FLIGHT: Final = 20_000
_OVERLOAD: Final = "{} answers in flight at once: overload"
_CAUTION: Final = 0.5
"""Share of the events that seem to be left after which tokens are counted again, [-]."""
_ROUNDS_WARMUP: Final = 2.0
"""Rounds after which answers that began theirs at one moment are out of step, and rounds that are counted at least."""
_ROUNDS: Final = 4.0
_KNOWN: Final = 16
"""Events per answer in flight from which tokens per event are known."""


def closed_loop(
    trial: Trial,
    *,
    concurrency: int,
    tokens: int,
    warmup_tokens: int = 0,
    met_under_way: bool = False,
    whole_rounds: bool = False,
    apart_s: float = 0.0,
    first: int = 0,
    counts: bool = False,
) -> ServedLoad:
    """Keep ``concurrency`` answers in flight until so many tokens are written; each that ends is replaced at once.

    Parameters
    ----------
    trial : the algorithm, its answers and the engines that they share.
    concurrency : answers in flight, >= 1.
    tokens : written ones after which it ends, >= 1.
    warmup_tokens : of these the first, which do not count.
    met_under_way : whether the first answers are in the middle of their lives, as at any later moment.
    whole_rounds : whether answers that commit several steps at a time, and all begin a round at one moment, must also
        have got out of step before it counts, and must then be counted for several rounds.
    apart_s : seconds between the beginnings of the first answers, where they are not: a server that begins empty.
    first : index of the first answer, >= 0: loops on other answers are independent of each other.
    counts : whether to count tokens in vain.

    Raises
    ------
    ParameterError : a count outside its domain.
    """
    for name, value in (("concurrency", concurrency), ("tokens", tokens)):
        if value < 1:
            raise ParameterError(name, value, "must be an integer >= 1")
    if (engine := engine_of(trial)) is not None:
        table = RequestTable(trial)
        following = table.meet(concurrency, first, engine.limits) if met_under_way else first
        met = len(table)
        table.until(following, concurrency, tokens)
        moments = [0.0] * met + [place * apart_s for place in range(concurrency - met)]
        return LoopRun(trial, table, moments, marks=(warmup_tokens, tokens), warmup=met).load(float(concurrency))
    run = _Run(trial, counts, first=first)
    if met_under_way:
        run.meet(concurrency, first)
    for place in range(concurrency - len(run.in_flight)):
        run.start(replace=True, at=place * apart_s)
    round_s = run.round_s() if whole_rounds else 0.0
    run.until_written(warmup_tokens)
    run.until(lambda: run.clock.env.now >= _ROUNDS_WARMUP * round_s, seldom=True)
    run.begin_window()
    run.until_written(run.written + tokens - warmup_tokens if round_s else tokens)
    run.until(lambda: run.clock.env.now >= (_ROUNDS_WARMUP + _ROUNDS) * round_s, seldom=True)
    return run.window(float(concurrency))


def arriving(
    trial: Trial,
    moments_s: Sequence[float],
    *,
    warmup: int = 0,
    first: int = 0,
    counts: bool = False,
    max_in_flight: int = _MOST_IN_FLIGHT,
) -> ServedLoad:
    """Let answers arrive at given moments, whatever is still in flight; each index from ``first`` on at its moment.

    Parameters
    ----------
    trial : the algorithm, its answers and the engines that they share.
    moments_s : seconds, in order.
    warmup : arrivals that do not count, the first ones.
    first : index of the first answer, >= 0: arrivals of other answers, at other moments, are independent of each other.
    counts : whether to count tokens in vain.
    max_in_flight : give up when so many answers are in flight at once.

    Raises
    ------
    ParameterError : no moment, or fewer than the warm-up.
    OverloadError : more answers in flight than that.
    """
    if len(moments_s) <= warmup:
        raise ParameterError("moments_s", len(moments_s), f"must be more than the warm-up of {warmup}")
    if engine_of(trial) is not None:
        table = RequestTable(trial)
        table.begin(range(first, first + len(moments_s)))
        looped = LoopRun(trial, table, moments_s, warmup=warmup, in_flight=max_in_flight)
        if looped.is_overloaded:
            raise OverloadError(_OVERLOAD.format(max_in_flight))
        return looped.load(None)
    run = _Run(trial, counts, max_in_flight, first=first)
    for moment in moments_s:
        run.start(replace=False, at=moment)
    run.until(lambda: run.n_begun > warmup)
    run.begin_window(from_index=first + warmup)
    run.until(lambda: run.n_done >= len(moments_s))
    return run.window(None)


@dataclass(slots=True)
class _Place:
    """An answer in flight, or one that has ended in the window."""

    session: Session | None  # None: nothing of it runs any more, and what users saw of it is known
    index: int | None  # None: met under way, so that nobody saw it begin
    owner: Done | None  # whom its requests report to; None after its end
    counted: int = 0
    _tokens: int = 0
    first_s: float = 0.0
    served: ServedAnswer | None = None

    def tokens(self) -> int:
        """Return the committed tokens; those counted before are not counted again."""
        if self.session is not None and len(self.session.committed) > self.counted:
            self._tokens += sum(step.n_tokens for step in self.session.committed[self.counted :])
            self.counted = len(self.session.committed)
        return self._tokens


class _Run:
    """One clock with answers in flight. Of those that have ended it keeps a few numbers, so that memory stays flat."""

    def __init__(self, trial: Trial, counts: bool, max_in_flight: int = _MOST_IN_FLIGHT, *, first: int = 0) -> None:
        self.trial = trial
        self.max_in_flight = max_in_flight
        self.counts = counts
        self.clock = VirtualClock(trial.engines, record=counts)
        self.indices = count(first)
        self.in_flight: dict[Session, _Place] = {}
        self.n_begun = 0
        self.n_done = 0
        self.finished_tokens = 0
        target = self.clock.engines[TARGET]
        self._target = target if isinstance(target, BatchEngine) else None
        self._serving = target if isinstance(target, ServingEngine) else None
        # Whatever a request of plain decoding writes will stand; of other methods only what is committed does.
        self._streams = self._target is not None and trial.algorithm is autoregressive
        self._ended: list[_Place] = []  # of the answers that count
        self._running_on: list[_Place] = []  # of these, whose requests still run
        self._began: float | None = None
        self._from_index = 0
        self._done_before = 0
        self._tokens_before = 0
        self._busy_before: dict[str, float] = {}
        self._area = 0.0
        self._since = 0.0

    @property
    def written(self) -> int:
        """Tokens that stand so far, since the answers in flight began or went on."""
        committed = self.finished_tokens + sum(place.tokens() for place in self.in_flight.values())
        return committed + self._target.written() if self._streams and self._target is not None else committed

    def start(self, *, replace: bool, at: float = 0.0) -> None:
        """Start the next answer, now or later."""
        index = next(self.indices)

        def begin(event: object = None) -> None:
            answer = self.trial.answer(index)
            self._launch(answer, answer.root, index, replace)

        if at <= self.clock.env.now:
            begin()
        else:
            Timeout(self.clock.env, at - self.clock.env.now).callbacks.append(begin)

    def meet(self, n: int, first: int) -> None:
        """Take up so many answers under way, or as many as the target has places for."""
        begun, following = under_way(self.trial, n, first, self._serving.limits if self._serving else None)
        self.indices = count(following)
        for answer, root in begun:
            self._launch(answer, root, None, replace=True)

    def _launch(self, answer: Answer, root: Step, index: int | None, replace: bool) -> None:
        self._count_area()
        if len(self.in_flight) >= self.max_in_flight:
            raise OverloadError(_OVERLOAD.format(self.max_in_flight))
        self.n_begun += 1
        session = Session(self.clock, self.trial.algorithm(root), answer)
        self.in_flight[session] = _Place(session, index, session._done)
        session.on_finish = lambda ended: self._on_finish(ended, replace)
        session.resume()

    def _is_seen(self, session: Session, place: _Place) -> bool:
        """Whether what users see of an answer counts: of those that began in the window."""
        if self._began is None or place.index is None or place.index < self._from_index:
            return False
        return session.started >= self._began or self._from_index > 0

    def _on_finish(self, session: Session, replace: bool) -> None:
        self._count_area()
        place = self.in_flight.pop(session)
        owner, place.owner = place.owner, None
        assert owner is not None
        self.n_done += 1
        self.finished_tokens += place.tokens()
        place.first_s = session.commit_times[0]  # when its user has seen the first token
        if self._target is not None:
            if self._streams:
                place.first_s = self._target.first_token_s.get(owner, place.first_s)
            self._target.forget(owner)
        if self._is_seen(session, place):
            self._running_on.append(place)
            self._ended.append(place)
            self._serve()
        else:
            session.forget()
        if replace:
            self.start(replace=True)

    def until(self, enough: Callable[[], bool], *, seldom: bool = False) -> None:
        """Let time pass, event by event, or as many events at a time as answers are in flight."""
        while not enough():
            self._pass(max(len(self.in_flight), 1) if seldom else 1)

    def round_s(self) -> float:
        """Seconds until all answers that are in flight have committed for the first time; 0 for what is a stream."""
        if self._streams:
            return 0.0
        for session in list(self.in_flight):
            while session.finished is None and not session.commit_times:
                self._pass(1)
        return self.clock.env.now

    def until_written(self, tokens: float) -> None:
        """Let time pass until so many tokens are written; to count them takes longer than an event, so seldom."""
        before, few, passed = self.written, max(len(self.in_flight), 1), 0
        while (written := self.written) < tokens:
            known = self._streams and passed > _KNOWN * few and written > before  # tokens per event
            left = (tokens - written) * passed / (written - before) if known else 0.0
            events = max(min(int(_CAUTION * left), passed), few)
            self._pass(events)
            passed += events

    def _pass(self, events: int) -> None:
        env = self.clock.env
        if not env._queue:
            raise DeadlockError("answers wait although nothing that they started is running")
        for _ in range(events):
            if env._queue:
                env.step()

    def begin_window(self, *, from_index: int = 0) -> None:
        """Count from here on; of arrivals, those of this index and later."""
        self._count_area()
        self._area = 0.0
        self._from_index = from_index
        self._done_before = self.n_done
        self._began = self.clock.env.now
        self._tokens_before = self.written
        self._busy_before = self._busy()

    def window(self, in_flight: float | None) -> ServedLoad:
        """What has happened since then."""
        self._count_area()
        assert self._began is not None
        seconds = self.clock.env.now - self._began
        busy = {role: value - self._busy_before[role] for role, value in self._busy().items()}
        serving = self._serving
        return ServedLoad(
            answers=tuple(place.served or self._served(place) for place in self._ended),
            unended_s=tuple(
                self.clock.env.now - session.started
                for session, place in self.in_flight.items()
                if self._is_seen(session, place)
            ),
            n_ended=self.n_done - self._done_before,
            seconds=seconds,
            tokens=self.written - self._tokens_before,
            in_flight=in_flight if in_flight is not None else self._area / seconds if seconds else 0.0,
            busy={role: value / seconds if seconds else 0.0 for role, value in busy.items()},
            preempted=serving.preempted if serving else 0,
            cache_share=serving.cache.peak / serving.cache.capacity if serving else 0.0,
            waited_s=serving.waited_s if serving else 0.0,
            seed=self.trial.seed,
        )

    def _serve(self) -> None:
        """Let go of answers that have ended and of which nothing runs on: nothing about them changes any more."""
        running_on, self._running_on = self._running_on, []
        for place in running_on:
            session = place.session
            assert session is not None
            if any(operation.finished < 0.0 for operation in session.operations):
                self._running_on.append(place)
            else:
                place.served, place.session = self._served(place), None
                session.forget()  # an engine may still know it as the owner of a text

    def _served(self, place: _Place) -> ServedAnswer:
        session = place.session
        assert session is not None
        assert session.finished is not None
        result = Counts.of(session) if self.counts else Counts()
        return ServedAnswer(
            arrived_s=session.started,
            first_s=place.first_s,
            ended_s=session.finished,
            tokens=place.tokens(),
            draft_in_vain=result.wasted_draft_tokens,
            target_in_vain=result.wasted_target_tokens,
        )

    def _busy(self) -> dict[str, float]:
        result = {}
        for role in self.trial.engines:
            engine = self.clock.engines[role]
            if isinstance(engine, BatchEngine):
                engine.settle()
                result[role] = engine.busy_s
        return result

    def _count_area(self) -> None:
        now = self.clock.env.now
        self._area += len(self.in_flight) * (now - self._since)
        self._since = now
