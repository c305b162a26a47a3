"""The yardstick: asynchronous Lookahead Reasoning as a textbook SimPy program.

One process per position of the answer, a `Resource` for the window of k1 positions and one for the draft model, and an
interrupt for what a rejection throws away. Width 1, the paper's rules, step times given by position. A test holds it to
the commit times of ``sim.algorithms.lookahead_async``; ``benchmarks.speed`` compares the speed of the two.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import simpy

__all__ = ["idiomatic_commit_times"]


class _Answer:
    """What all positions of one answer share."""

    def __init__(
        self,
        target_s: Sequence[float],
        draft_s: Sequence[float],
        accepted: Sequence[bool],
        k1: int,
        verify_s: float,
    ) -> None:
        self.env = simpy.Environment()
        self.window = simpy.Resource(self.env, capacity=k1)
        self.draft_model = simpy.Resource(self.env, capacity=1)
        self.target_s = target_s
        self.draft_s = draft_s
        self.accepted = accepted
        self.verify_s = verify_s
        self.commit_times: list[float] = []
        self.over = self.env.event()


class _Position:
    """One position: it holds a place in the window from its start to its commit, or until it is interrupted."""

    def __init__(self, answer: _Answer, depth: int, parent: _Position | None) -> None:
        self.answer = answer
        self.depth = depth
        self.committed_before = None if parent is None else parent.committed
        self.committed = answer.env.event()
        self.child: _Position | None = None
        self.process = answer.env.process(self.live())

    def live(self) -> Generator[simpy.Event, object, None]:
        answer, env = self.answer, self.answer.env
        try:
            with answer.window.request() as place:
                yield place
                target = env.timeout(answer.target_s[self.depth])
                with answer.draft_model.request() as turn:
                    yield turn
                    yield env.timeout(answer.draft_s[self.depth])
                self.follow()
                yield target
                yield env.timeout(answer.verify_s)
                if not answer.accepted[self.depth]:
                    self.drop_child()
                    self.follow()
                if self.committed_before is not None:
                    yield self.committed_before
                self.commit()
        except simpy.Interrupt:
            self.drop_child()

    def follow(self) -> None:
        if self.depth + 1 < len(self.answer.accepted):
            self.child = _Position(self.answer, self.depth + 1, self)

    def drop_child(self) -> None:
        if self.child is not None and self.child.process.is_alive:
            self.child.process.interrupt()
        self.child = None

    def commit(self) -> None:
        self.answer.commit_times.append(self.answer.env.now)
        self.committed.succeed()
        if self.depth + 1 == len(self.answer.accepted):
            self.answer.over.succeed()


def idiomatic_commit_times(
    target_s: Sequence[float],
    draft_s: Sequence[float],
    accepted: Sequence[bool],
    *,
    k1: int,
    verify_s: float = 0.0,
) -> list[float]:
    """Return when each step of one answer is committed, in seconds.

    Parameters
    ----------
    target_s, draft_s : step times by position, s, equal lengths.
    accepted : verdicts by position.
    k1 : target steps in flight, >= 1.
    verify_s : time of a verdict, s.
    """
    answer = _Answer(target_s, draft_s, accepted, k1, verify_s)
    _Position(answer, 0, None)
    answer.env.run(until=answer.over)
    return answer.commit_times
