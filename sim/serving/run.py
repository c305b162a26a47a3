"""Answers that come and go on shared engines, until enough is seen.

A closed loop keeps so many answers in flight; it begins with answers spread over their lives, as they are met at any
moment later, since answers that began together would stay together for long. An open loop lets them arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

from simpy import Timeout

from sim.engines.batching import BatchEngine
from sim.engines.protocol import Done
from sim.operations import TARGET, Step
from sim.serving.answers import ServedAnswer, ServedLoad
from sim.serving.engine import ServingEngine
from sim.timeline import Counts
from sim.trial import Trial
from sim.virtual_clock import Answer, DeadlockError, Session, VirtualClock
from theory.errors import ParameterError, SpecplanError

__all__ = ["OverloadError", "Resume", "arriving", "closed_loop", "resumed"]


class OverloadError(SpecplanError):
    """Answers arrive faster than the engines finish them."""


Resume = Callable[[Answer, float], Step]
"""Takes an answer and a share of it in [0, 1); returns the text after that share, from which it goes on."""

_MOST_IN_FLIGHT = 20_000
_PARTS = 8
"""Parts of a window whose paces tell how well its pace is known."""


def closed_loop(
    trial: Trial,
    *,
    concurrency: int,
    tokens: int,
    warmup_tokens: int = 0,
    resume: Resume | None = None,
    apart_s: float = 0.0,
    counts: bool = False,
) -> ServedLoad:
    """Keep ``concurrency`` answers in flight until so many tokens are committed; each that ends is replaced at once.

    Parameters
    ----------
    trial : the algorithm, its answers and the engines that they share.
    concurrency : answers in flight, >= 1.
    tokens : committed ones after which it ends, >= 1.
    warmup_tokens : of these the first, which do not count.
    resume : how answers go on from the middle: the first ones begin there, spread evenly. None: from their beginnings.
    apart_s : seconds between the beginnings of the first answers, for those that cannot go on from the middle.
    counts : whether to count tokens in vain.

    Raises
    ------
    ParameterError : a count outside its domain.
    """
    for name, value in (("concurrency", concurrency), ("tokens", tokens)):
        if value < 1:
            raise ParameterError(name, value, "must be an integer >= 1")
    run = _Run(trial, counts)
    for place in range(concurrency):
        share = (place + 0.5) / concurrency if resume is not None else 0.0
        run.start(replace=True, at=place * apart_s, resume=resume, share=share)
    run.until_committed(warmup_tokens)
    run.begin_window()
    for part in range(1, _PARTS + 1):
        run.until_committed(warmup_tokens + part * (tokens - warmup_tokens) / _PARTS)
        run.end_part()
    return run.window(float(concurrency))


def arriving(
    trial: Trial,
    moments_s: Sequence[float],
    *,
    warmup: int = 0,
    counts: bool = False,
    max_in_flight: int = _MOST_IN_FLIGHT,
) -> ServedLoad:
    """Let answers arrive at given moments, whatever is still in flight; the answer of an index comes at its moment.

    Parameters
    ----------
    trial : the algorithm, its answers and the engines that they share.
    moments_s : seconds, in order.
    warmup : answers that do not count, the first to end.
    counts : whether to count tokens in vain.
    max_in_flight : give up when so many answers are in flight at once.

    Raises
    ------
    ParameterError : no moment, or fewer than the warm-up.
    OverloadError : more answers in flight than that.
    """
    if len(moments_s) <= warmup:
        raise ParameterError("moments_s", len(moments_s), f"must be more than the warm-up of {warmup}")
    run = _Run(trial, counts, max_in_flight)
    for moment in moments_s:
        run.start(replace=False, at=moment)
    run.until(lambda: run.n_done >= max(warmup, 1) or not warmup)
    run.begin_window()
    run.until(lambda: run.n_done >= len(moments_s))
    return run.window(None)


def resumed(answer: Answer, share: float) -> Step:
    """Return the text of a drawn answer after a share of its steps, which the target has written and cached."""
    lengths: list[int] = answer.written_lengths()  # type: ignore[attr-defined]  # drawn answers know it
    depth = int(share * len(lengths))
    if depth == 0:
        return answer.root
    text = Step(None, TARGET, 1)
    text.depth = depth - 1
    text.context_tokens = answer.root.n_tokens + sum(lengths[:depth])
    return text


class _Place:
    """An answer in flight: who its requests report to, and how many of its tokens are committed."""

    __slots__ = ("_counted", "_tokens", "owner")

    def __init__(self, owner: Done) -> None:
        self.owner = owner
        self._counted = 0
        self._tokens = 0

    def tokens(self, session: Session) -> int:
        """Return the committed tokens; those counted before are not counted again."""
        committed = session.committed
        if len(committed) > self._counted:
            self._tokens += sum(step.n_tokens for step in committed[self._counted :])
            self._counted = len(committed)
        return self._tokens


@dataclass(slots=True)
class _Ended:
    """An answer that has ended, in the window: what users saw of it is said when nothing of it runs any more."""

    session: Session | None
    first_s: float
    tokens: int
    served: ServedAnswer | None = None


class _Run:
    """One clock with answers in flight. Of those that have ended it keeps a few numbers, so that memory stays flat."""

    def __init__(self, trial: Trial, counts: bool, max_in_flight: int = _MOST_IN_FLIGHT) -> None:
        self.trial = trial
        self.max_in_flight = max_in_flight
        self.counts = counts
        self.clock = VirtualClock(trial.engines, record=counts)
        self.indices = count()
        self.in_flight: dict[Session, _Place] = {}
        self.n_done = 0
        self.finished_tokens = 0
        self._ended: list[_Ended] | None = None  # since the window began
        self._running_on: list[_Ended] = []  # of these, whose requests still run
        self._began = 0.0
        self._tokens_before = 0
        self._busy_before: dict[str, float] = {}
        self._area = 0.0
        self._since = 0.0
        self._marks: list[tuple[float, int]] = []

    @property
    def committed(self) -> int:
        """Tokens committed so far, since the answers in flight began or went on."""
        return self.finished_tokens + sum(place.tokens(session) for session, place in self.in_flight.items())

    def start(self, *, replace: bool, at: float = 0.0, resume: Resume | None = None, share: float = 0.0) -> None:
        """Start the next answer, now or later."""
        index = next(self.indices)

        def begin(event: object = None) -> None:
            answer = self.trial.answer(index)
            root = answer.root if resume is None else resume(answer, share)
            self._count_area()
            if len(self.in_flight) >= self.max_in_flight:
                raise OverloadError(f"{self.max_in_flight} answers in flight at once: overload")
            session = Session(self.clock, self.trial.algorithm(root), answer)
            self.in_flight[session] = _Place(session._done)
            session.on_finish = lambda ended: self._on_finish(ended, replace)
            session.resume()

        if at <= self.clock.env.now:
            begin()
        else:
            Timeout(self.clock.env, at - self.clock.env.now).callbacks.append(begin)

    def _on_finish(self, session: Session, replace: bool) -> None:
        self._count_area()
        owner, tokens = self.in_flight.pop(session).owner, _tokens(session)
        self.n_done += 1
        self.finished_tokens += tokens
        first = session.commit_times[0]
        target = self.clock.engines[TARGET]
        if isinstance(target, ServingEngine):
            if len(session.committed) == 1:
                first = target.first_token_s.get(owner, first)
            target.forget(owner)
        if self._ended is None:
            session.forget()
        else:
            self._running_on.append(_Ended(session, first, tokens))
            self._ended.append(self._running_on[-1])
            self._serve()
        if replace:
            self.start(replace=True)

    def until(self, enough: Callable[[], bool]) -> None:
        """Let time pass; a few events at a time, since asking takes longer than an event."""
        env = self.clock.env
        while not enough():
            if not env._queue:
                raise DeadlockError("answers wait although nothing that they started is running")
            for _ in range(max(len(self.in_flight), 1)):
                if env._queue:
                    env.step()

    def until_committed(self, tokens: float) -> None:
        """Let time pass until so many tokens are committed."""
        self.until(lambda: self.committed >= tokens)

    def begin_window(self) -> None:
        """Count from here on."""
        self._count_area()
        self._area = 0.0
        self._ended = []
        self._began = self.clock.env.now
        self._tokens_before = self.committed
        self._busy_before = self._busy()
        self._marks = [(self._began, self._tokens_before)]

    def end_part(self) -> None:
        """Remember how far it is."""
        self._marks.append((self.clock.env.now, self.committed))

    def _paces(self) -> tuple[float, ...]:
        """Tokens per second of each part of the window."""
        return tuple(
            (tokens - before) / (now - then) for (then, before), (now, tokens) in pairwise(self._marks) if now > then
        )

    def window(self, in_flight: float | None) -> ServedLoad:
        """What has happened since then."""
        self._count_area()
        seconds = self.clock.env.now - self._began
        target = self.clock.engines[TARGET]
        busy = {role: value - self._busy_before[role] for role, value in self._busy().items()}
        serving = target if isinstance(target, ServingEngine) else None
        return ServedLoad(
            answers=tuple(ended.served or self._served(ended) for ended in self._ended or ()),
            seconds=seconds,
            tokens=self.committed - self._tokens_before,
            in_flight=in_flight if in_flight is not None else self._area / seconds if seconds else 0.0,
            busy={role: value / seconds if seconds else 0.0 for role, value in busy.items()},
            preempted=serving.preempted if serving else 0,
            cache_share=serving.cache.peak / serving.cache.capacity if serving else 0.0,
            waited_s=serving.waited_s if serving else 0.0,
            paces=self._paces(),
            seed=self.trial.seed,
        )

    def _serve(self) -> None:
        """Let go of answers that have ended and of which nothing runs on: nothing about them changes any more."""
        left = []
        for ended in self._running_on:
            session = ended.session
            assert session is not None
            if any(operation.finished < 0.0 for operation in session.operations):
                left.append(ended)
            else:
                ended.served, ended.session = self._served(ended), None
                session.forget()  # an engine may still know it as the owner of a text
        self._running_on = left

    def _served(self, ended: _Ended) -> ServedAnswer:
        session = ended.session
        assert session is not None
        assert session.finished is not None
        found = Counts.of(session) if self.counts else Counts()
        return ServedAnswer(
            arrived_s=session.started,
            first_s=ended.first_s,
            ended_s=session.finished,
            tokens=ended.tokens,
            draft_in_vain=found.wasted_draft_tokens,
            target_in_vain=found.wasted_target_tokens,
        )

    def _busy(self) -> dict[str, float]:
        found = {}
        for role in self.trial.engines:
            engine = self.clock.engines[role]
            if isinstance(engine, BatchEngine):
                engine.settle()
                found[role] = engine.busy_s
        return found

    def _count_area(self) -> None:
        now = self.clock.env.now
        self._area += len(self.in_flight) * (now - self._since)
        self._since = now


def _tokens(session: Session) -> int:
    return sum(step.n_tokens for step in session.committed)
