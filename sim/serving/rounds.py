"""A round: a fixed set of questions, and clients that each take the next one when their last answer is there.

It is finite, with everybody busy at its beginning and fewer and fewer at its end, so that it can be run for real in the
very same form: answers per second are the answers over the time until the last one has ended, on either clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sim.algorithms import autoregressive
from sim.engines.batching import BatchEngine
from sim.operations import Generate
from sim.roles import TARGET
from sim.timeline import Run
from sim.trial import Trial
from sim.virtual_clock import Session, VirtualClock
from theory.errors import ParameterError

__all__ = ["Round", "check_clients", "in_flight", "limited", "simulated_round"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What is seen of a round, on either clock."""

    seconds: tuple[float, ...]
    """Time of each answer from its start to its end, s; in the order of the questions."""
    tokens: tuple[int, ...]
    """Committed tokens of each answer."""
    first: tuple[float, ...]
    """Time of each answer from its start to the first token that a user sees, s: of methods that write steps, to the
    end of the first step that stands."""
    makespan: float
    """From the first start to the last end, s."""
    in_flight: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    """By role, pairs (n, seconds): how long exactly n of its steps were in flight."""

    @property
    def answers_at_once(self) -> float:
        """Answers in flight, mean over the round."""
        return sum(self.seconds) / self.makespan

    def most_steps(self, role: str) -> int:
        """Return the most steps of a role that were in flight at once."""
        return max((n for n, _ in self.in_flight.get(role, ())), default=0)


def simulated_round(trial: Trial, indices: Sequence[int], concurrency: int) -> Round:
    """Simulate a round.

    Parameters
    ----------
    trial : the algorithm, its answers and the engines that they share.
    indices : of the answers, in the order of the questions.
    concurrency : clients, 1 <= concurrency <= len(indices).

    Raises
    ------
    ParameterError : no client, or more of them than questions.
    """
    check_clients(concurrency, len(indices))
    clock = VirtualClock(trial.engines)
    sessions: list[Session] = []
    first: dict[Session, float] = {}
    target = trial.engines.get(TARGET)
    # Whatever a request for a whole answer writes will stand, and its user sees it at once.
    noted = target.first_token_s if isinstance(target, BatchEngine) and trial.algorithm is autoregressive else {}

    def take_next() -> None:
        if len(sessions) < len(indices):
            answer = trial.answer(indices[len(sessions)])
            session = Session(clock, trial.algorithm(answer.root), answer)
            owner = session._done

            def ended(ended: Session) -> None:
                first[ended] = noted.get(owner, ended.commit_times[0]) - ended.started
                take_next()

            session.on_finish = ended
            sessions.append(session)
            session.resume()

    for _ in range(concurrency):
        take_next()
    while len(sessions) < len(indices):
        clock.run(sessions[-1])  # at its end at the latest the next one begins
    clock.run(*sessions)
    makespan = max(float(session.finished or 0.0) for session in sessions)
    return Round(
        seconds=tuple(float(session.finished or 0.0) - session.started for session in sessions),
        tokens=tuple(sum(step.n_tokens for step in session.committed) for session in sessions),
        first=tuple(first[session] for session in sessions),
        makespan=makespan,
        in_flight=in_flight(((session, 0.0) for session in sessions), makespan),
    )


def check_clients(concurrency: int, n_questions: int) -> None:
    """Refuse a round whose clients do not all get a question."""
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or not 1 <= concurrency <= n_questions:
        rule = f"must be an integer from 1 to {n_questions}, the questions of a round"
        raise ParameterError("concurrency", concurrency, rule)


def limited(trial: Trial, most: Mapping[str, int]) -> Trial:
    """Return the trial on engines that decode so many sequences at once; roles left out have no limit."""
    for role, engine in trial.engines.items():
        if role in most and isinstance(engine, BatchEngine):
            engine.max_batch = most[role]
    return trial


def in_flight(runs: Iterable[tuple[Run, float]], makespan: float) -> dict[str, tuple[tuple[int, float], ...]]:
    """Return by role pairs (n, seconds): how long exactly n of its steps were in flight.

    Parameters
    ----------
    runs : answers, each with what is to be added to its times, s, so that the round begins at 0.
    makespan : when the round ends, s; what runs on then counts up to there.
    """
    changes: dict[str, list[tuple[float, int]]] = {}
    for run, offset in runs:
        for op in run.operations:
            if isinstance(op, Generate):
                end = op.finished + offset if op.finished >= 0.0 else makespan
                changes.setdefault(op.role, []).extend([(op.started + offset, 1), (min(end, makespan), -1)])
    by_role: dict[str, tuple[tuple[int, float], ...]] = {}
    for role, events in sorted(changes.items()):
        seconds: Counter[int] = Counter()
        now, n = 0.0, 0
        for moment, change in sorted(events):
            seconds[n] += max(moment - now, 0.0)  # type: ignore[assignment]  # a counter of seconds
            now, n = max(moment, now), n + change
        seconds[0] += max(makespan - now, 0.0)  # type: ignore[assignment]
        by_role[role] = tuple(pair for pair in sorted(seconds.items()) if pair[1] > 0.0)
    return by_role
