"""Each law catches a violation planted in a run that was in order."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants import InvariantError, check, check_engine, check_timeline
from sim_worlds import batch_engines, drawn_answers, seconds_per_token
from simpy import Timeout

from sim.algorithms import EAGER, PAPER, RELEASED_CODE, Rules, autoregressive, lookahead_async, lookahead_sync
from sim.answers.lengths import Lognormal
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.engines.device import Device
from sim.operations import Generate, Outcome, Verify
from sim.trial import run_answer
from sim.virtual_clock import Session, VirtualClock

BEHAVIOUR = drawn_answers(20.0, cv=1.0, alpha=0.6, steps=Lognormal(mean=10.0, cv=0.4), limit=60, siblings=0.3, seed=2)
RULES = [
    PAPER,
    RELEASED_CODE,
    EAGER,
    Rules(late_draft="cancel"),
    Rules(late_draft="cancel", restart="in-order", fallback="none"),
    Rules(late_draft="in-order", fallback="regenerate", reject_after_truncation=True),
    Rules(winner="most-confident", fallback="none"),
    Rules(slot="oldest-target", restart="in-order", fallback="regenerate"),
    Rules(slot="any-target", prefetch_draft=False, winner="first-branch"),
    Rules(reject_first=True, reject_after_truncation=True, barrier=False),
    Rules(cancel_at_end=False, prefetch_draft=False),
]


@given(
    index=st.integers(0, 10**6),
    k1=st.integers(1, 6),
    width=st.integers(1, 3),
    rules=st.sampled_from(RULES),
    sync=st.booleans(),
    shared=st.booleans(),
    neighbours=st.integers(0, 2),
)
@settings(max_examples=120, deadline=None, derandomize=True)
def test_all_laws_hold_for_all_rules(
    index: int, k1: int, width: int, rules: Rules, sync: bool, shared: bool, neighbours: int
) -> None:
    """Random rules, widths, engines that share a device, and other answers on them."""
    clock = VirtualClock(batch_engines(Device() if shared else None))
    make = lookahead_sync if sync else lookahead_async
    k1 = min(k1, 3) if width > 1 else k1
    sessions = []
    for i in range(neighbours + 1):
        answer = BEHAVIOUR.answer(index + i)
        sessions.append(clock.launch(make(answer.root, k1=k1, width=width, rules=rules), answer, at=0.05 * i))
    clock.run(*sessions)
    window = k1 + (0 if sync else rules.extra_in_flight)
    along_a_path = width > 1 and not sync and rules.slot != "commit"  # so many then, but the tree may be deeper
    most = None if along_a_path else sum(width**level for level in range(window))
    for session in sessions:
        check(session, max_targets=most)
        check_timeline(session)


def first(session: Session, outcome: Outcome, kind: type = Generate) -> Any:
    return next(op for op in session.operations if isinstance(op, kind) and op.outcome is outcome)


def forget_an_outcome(session: Session) -> None:
    first(session, Outcome.DISCARDED).outcome = Outcome.PENDING


def end_before_start(session: Session) -> None:
    op = first(session, Outcome.DISCARDED)
    op.finished = op.started / 2.0 - 1e-3 if op.started else op.finished


def swap_commits(session: Session) -> None:
    session.committed[:2] = reversed(session.committed[:2])


def write_too_late(session: Session) -> None:
    """Move the end of a committed step past the start of what needed it."""
    op = next(op for op in session.operations if op.result is session.committed[0])
    op.finished = session.finished or 0.0


def unjudged(session: Session) -> None:
    session.operations.remove(first(session, Outcome.ACCEPTED, Verify))


def judged_twice(session: Session) -> None:
    verify = first(session, Outcome.REJECTED, Verify)
    session.operations.insert(session.operations.index(verify), verify)


def accept_too_much(session: Session) -> None:
    first(session, Outcome.REFERENCE).outcome = Outcome.COMMITTED


def not_ended(session: Session) -> None:
    session.finished = None


@pytest.mark.parametrize(
    ("law", "plant"),
    [
        ("INV-1", forget_an_outcome),
        ("INV-1", not_ended),
        ("INV-2", end_before_start),
        ("INV-3", swap_commits),
        ("INV-4", write_too_late),
        ("INV-5", unjudged),
        ("INV-6", judged_twice),
        ("INV-7", accept_too_much),
    ],
)
def test_a_planted_violation_is_caught(
    law: str, plant: Callable[[Session], None], checked_runs: dict[Any, Any]
) -> None:
    engines = seconds_per_token(0.1, 0.02, judge_s=0.3)
    session = run_answer(lambda root: lookahead_async(root, k1=3), BEHAVIOUR.answer(1), engines)
    check(session)
    plant(session)
    with pytest.raises(InvariantError) as caught:
        check(session)
    assert caught.value.law == law
    checked_runs.clear()


class Lazy(BatchEngine):
    """Stands idle for two seconds after each request before it looks at the next."""

    def _arrive(self, job: Any) -> None:
        Timeout(self._env, 2.0).callbacks.append(lambda event: BatchEngine._arrive(self, job))


def test_an_idle_engine_with_work_waiting_is_caught(checked_runs: dict[Any, Any]) -> None:
    lazy = Lazy(LinearCost(base_s=0.1))
    session = run_answer(autoregressive, BEHAVIOUR.answer(0), {"target": lazy})
    with pytest.raises(InvariantError, match="INV-9"):
        check_engine(lazy, session.operations, session.finished or 0.0)
    checked_runs.clear()
