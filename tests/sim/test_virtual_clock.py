"""The generator protocol, word by word, under the virtual clock."""

import gc
from collections.abc import Callable
from contextlib import nullcontext

import pytest
from sim_worlds import drawn_answers, scripted, seconds_per_token

from sim.algorithms import lookahead_async
from sim.algorithms.rules import PRESETS, Rules
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.engines.fixed import FixedEngine, PerToken
from sim.engines.protocol import Engine
from sim.operations import WAIT, Action, Algorithm, Cancel, Commit, Generate, Outcome, Step, prompt, singly
from sim.timeline import Counts, Timeline
from sim.virtual_clock import Answer, DeadlockError, Session, VirtualClock

TOKENS = seconds_per_token()["target"]


def answer(*target_tokens: int) -> Answer:
    return scripted("-" * len(target_tokens), [1] * len(target_tokens), target_tokens).answer(0)


def drive(
    algorithm: Algorithm, engine: Engine = TOKENS, draft: Engine = TOKENS, *, record: bool = False
) -> tuple[Session, VirtualClock]:
    clock = VirtualClock({"target": engine, "draft": draft}, record=record)
    session = clock.launch(algorithm, answer(5, 5, 5))
    clock.run(session)
    return session, clock


def test_the_answer_to_a_start_is_none_and_to_a_wait_the_operation() -> None:
    heard: list[object] = []

    def algorithm() -> Algorithm:
        op = Generate("target", prompt(3))
        heard.append((yield op))
        heard.append((yield WAIT) is op)
        heard.append((op.started, op.finished, op.result.n_tokens, op.result.depth))
        heard.append((yield Commit(op.result)))

    session, _ = drive(algorithm())
    assert heard == [None, True, (0.0, 5.0, 5, 0), None]
    assert session.commit_times == [5.0]


def test_what_ends_together_is_delivered_in_order_and_cancelled_work_never() -> None:
    heard: list[int] = []
    ops = [Generate("target", prompt(0), i) for i in range(4)]

    def algorithm() -> Algorithm:
        yield from ops
        yield Cancel(ops[1])
        heard.append((yield WAIT).branch)
        # The third has ended at the same moment and waits for delivery: cancelled now, it is not delivered.
        yield Cancel(ops[2])
        yield Cancel(ops[2])
        heard.append((yield WAIT).branch)

    drive(algorithm())
    assert heard == [0, 3]
    assert [op.tokens for op in ops] == [5, 0, 5, 5]  # the third generated all of its tokens, though in vain


@pytest.mark.parametrize("engine", [TOKENS, BatchEngine(LinearCost(base_s=1.0, prefill_s=1.0))])
def test_a_cancelled_operation_knows_how_far_it_came(engine: Engine) -> None:
    root = prompt(0)
    op = Generate("target", root)

    def algorithm() -> Algorithm:
        yield op
        yield Generate("draft", root)
        yield WAIT
        yield Generate("draft", root, 1)
        yield WAIT
        yield Cancel(op)

    _, clock = drive(algorithm(), engine)
    assert (op.cancelled, op.started, op.finished, op.n_generated, op.result) == (True, 0.0, 2.0, 2, None)
    clock.env.run()
    assert op.result is None


def test_prefill_covers_what_the_model_has_not_written_itself() -> None:
    """The prompt first; then nothing after its own step, and the other model's step after that."""
    seen: list[tuple[int, int, int]] = []

    def seconds(*sizes: int) -> float:
        seen.append(sizes)  # type: ignore[arg-type]
        return float(sizes[0])

    def algorithm() -> Algorithm:
        yield Generate("target", prompt(7))
        own = (yield WAIT).result
        yield Generate("target", own)
        yield WAIT
        yield Generate("target", Step(own, "draft", 2))
        yield WAIT

    drive(algorithm(), FixedEngine(seconds))
    assert seen == [(5, 7, 7), (5, 0, 12), (5, 2, 14)]


@pytest.mark.parametrize("by_simpy", [False, True])
@pytest.mark.parametrize("record", [True, False])
def test_who_keeps_the_clock_and_what_is_recorded_change_no_times(by_simpy: bool, record: bool) -> None:
    """The clock times requests in SimPy's queue: the environment's own `step` takes them up like other events."""
    one = answer(3, 4, 5)
    clock = VirtualClock(seconds_per_token(judge_s=0.5), record=record)
    session = clock.launch(lookahead_async(one.root, k1=2), one)
    if not by_simpy:
        clock.run(session)
    while session.finished is None:
        clock.env.step()
    assert session.commit_times == [3.5, 8.0, 13.5]
    assert bool(session.operations) == record


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("waits_in_vain", [True, False])
def test_no_garbage_is_looked_for_in_a_recording_while_it_runs(record: bool, waits_in_vain: bool) -> None:
    assert gc.isenabled()
    during = []

    def algorithm() -> Algorithm:
        operation = Generate("target", prompt(3))
        yield operation
        yield WAIT
        during.append(gc.isenabled())
        operation.outcome = Outcome.COMMITTED
        operation.result.final = True
        yield Commit(operation.result)
        if waits_in_vain:
            yield WAIT

    with pytest.raises(DeadlockError) if waits_in_vain else nullcontext():
        drive(algorithm(), record=record)
    assert gc.isenabled()
    assert during == [not record]


def test_a_list_of_actions_is_what_they_are_one_by_one_with_a_wait_after_them() -> None:
    """The same operations at the same times, and the same answers to every ``yield``."""

    def in_lists() -> Algorithm:
        root = prompt(3)
        draft, target, more = Generate("draft", root), Generate("target", root), Generate("draft", root, 1)
        assert (yield [draft, target]) is draft
        asked: list[Action] = [more]
        assert (yield asked) is target
        target.result.final = True
        asked[:] = [Cancel(more), Commit(target.result)]
        draft.outcome, target.outcome, more.outcome = Outcome.DISCARDED, Outcome.COMMITTED, Outcome.DISCARDED
        yield from asked

    def run(algorithm: Algorithm) -> list[tuple[object, ...]]:
        session, _ = drive(algorithm, FixedEngine(3.0), FixedEngine(2.0), record=True)
        assert session.commit_times == [3.0]
        return [(op.role, op.started, op.finished, op.cancelled) for op in session.operations]

    expected = [("draft", 0.0, 2.0, False), ("target", 0.0, 3.0, False), ("draft", 2.0, 3.0, True)]
    assert run(in_lists()) == run(singly(in_lists())) == expected


def test_a_generator_that_is_taken_apart_is_closed_with_it() -> None:
    closed = []

    def algorithm() -> Algorithm:
        try:
            yield [Generate("target", prompt(3))]
        finally:
            closed.append(True)

    actions = singly(algorithm())
    next(actions)
    actions.close()
    assert closed == [True]


@pytest.mark.parametrize("rules", PRESETS.values(), ids=PRESETS)
@pytest.mark.parametrize("width", [1, 2])
def test_who_times_a_request_makes_no_difference(rules: Rules, width: int) -> None:
    """The clock itself, where tokens alone count; or the engine, asked like any other: the same to the last bit."""
    one = drawn_answers(9.0, cv=1.0, alpha=0.6, steps=60, limit=30, siblings=0.3).answer(0)
    rates = {"target": PerToken(0.01, 0.003), "draft": PerToken(0.004, 0.001), "judge": PerToken(0.05)}

    def run(seconds: Callable[[PerToken], Callable[..., float]]) -> tuple[Timeline, Counts]:
        clock = VirtualClock({role: FixedEngine(seconds(rate)) for role, rate in rates.items()})
        session = clock.launch(lookahead_async(one.root, k1=3, width=width, rules=rules), one)
        clock.run(session)
        return Timeline.of(session), Counts.of(session)

    found = run(lambda rate: rate)
    assert found == run(lambda rate: rate.__call__)
    assert any(span.cancelled and span.tokens for span in found[0].spans)
