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
from sim.operations import WAIT, Action, Algorithm, Cancel, Commit, Generate, Outcome, Step, prompt, singly
from sim.timeline import Counts, Timeline
from sim.virtual_clock import DeadlockError, Session, VirtualClock

TOKENS = seconds_per_token()["target"]


def answer(*target_tokens: int) -> object:
    return scripted("-" * len(target_tokens), [1] * len(target_tokens), target_tokens).answer(0)


def drive(algorithm: Algorithm, engine: object = TOKENS) -> tuple[Session, VirtualClock]:
    clock = VirtualClock({"target": engine, "draft": TOKENS}, record=False)  # type: ignore[dict-item]
    session = clock.launch(algorithm, answer(5, 5, 5))  # type: ignore[arg-type]
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
    heard: list[str] = []
    ops: dict[str, Generate] = {}

    def algorithm() -> Algorithm:
        root = prompt(0)
        ops.update({name: Generate("target", root, i) for i, name in enumerate("abcd")})
        yield from ops.values()
        yield Cancel(ops["b"])
        names = {id(op): name for name, op in ops.items()}
        heard.append(names[id((yield WAIT))])
        # c has ended at the same moment and waits for delivery: cancelled now, it is not delivered.
        yield Cancel(ops["c"])
        yield Cancel(ops["c"])
        heard.append(names[id((yield WAIT))])

    drive(algorithm())
    assert heard == ["a", "d"]
    assert [op.tokens for op in ops.values()] == [5, 0, 5, 5]  # c generated all of its tokens, though in vain


@pytest.mark.parametrize("engine", [TOKENS, BatchEngine(LinearCost(base_s=1.0, prefill_s=1.0))])
def test_a_cancelled_operation_knows_how_far_it_came(engine: object) -> None:
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

    def seconds(n_tokens: int, n_prompt: int, context: int) -> float:
        seen.append((n_tokens, n_prompt, context))
        return float(n_tokens)

    def algorithm() -> Algorithm:
        yield Generate("target", prompt(7))
        own = (yield WAIT).result
        yield Generate("target", own)
        yield WAIT
        yield Generate("target", Step(own, "draft", 2))
        yield WAIT

    drive(algorithm(), FixedEngine(seconds))
    assert seen == [(5, 7, 7), (5, 0, 12), (5, 2, 14)]


def test_recording_can_be_turned_off_without_changing_the_times() -> None:
    times = []
    for record in (True, False):
        one = answer(3, 4, 5)
        clock = VirtualClock(seconds_per_token(judge_s=0.5), record=record)
        session = clock.launch(lookahead_async(one.root, k1=2), one)  # type: ignore[attr-defined, arg-type]
        clock.run(session)
        times.append(session.commit_times)
        assert bool(session.operations) == record
    assert times[0] == times[1] == [3.5, 8.0, 13.5]


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
        yield Commit(operation.result)
        if waits_in_vain:
            yield WAIT

    clock = VirtualClock({"target": TOKENS}, record=record)
    session = clock.launch(algorithm(), answer(5))  # type: ignore[arg-type]
    with pytest.raises(DeadlockError) if waits_in_vain else nullcontext():
        clock.run(session)
    assert gc.isenabled()
    assert during == [not record]


def test_a_list_of_actions_is_what_they_are_one_by_one_with_a_wait_after_them() -> None:
    """The same operations at the same times, and the same answers to every ``yield``."""
    lists = [run(algorithm) for algorithm in (_in_lists, lambda: singly(_in_lists()))]
    assert lists[0] == lists[1]
    assert lists[0][0] == [("draft", 0.0, 2.0, False), ("target", 0.0, 3.0, False), ("draft", 2.0, 3.0, True)]


def _in_lists() -> Algorithm:
    root = prompt(3)
    draft, target, more = Generate("draft", root), Generate("target", root), Generate("draft", root, 1)
    assert (yield [draft, target]) is draft
    asked: list[Action] = [more]
    assert (yield asked) is target
    asked[:] = [Cancel(more), Commit(target.result)]
    draft.outcome, target.outcome, more.outcome = Outcome.DISCARDED, Outcome.COMMITTED, Outcome.DISCARDED
    yield from asked


def run(algorithm: Callable[[], Algorithm]) -> tuple[list[tuple[object, ...]], list[float]]:
    clock = VirtualClock({"target": FixedEngine(3.0), "draft": FixedEngine(2.0)})
    session = clock.launch(algorithm(), answer(5))  # type: ignore[arg-type]
    clock.run(session)
    return [(op.role, op.started, op.finished, op.cancelled) for op in session.operations], session.commit_times


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
    behaviour = drawn_answers(9.0, cv=1.0, alpha=0.6, steps=60, limit=30, siblings=0.3)
    rates = {"target": (0.01, 0.003), "draft": (0.004, 0.001), "judge": (0.05, 0.0)}
    found = []
    for by_engine in (False, True):
        clock = VirtualClock(
            {
                role: FixedEngine(PerToken(*rate).__call__ if by_engine else PerToken(*rate))
                for role, rate in rates.items()
            }
        )
        one = behaviour.answer(0)
        session = clock.launch(lookahead_async(one.root, k1=3, width=width, rules=rules), one)
        clock.run(session)
        found.append((Timeline.of(session), Counts.of(session)))
    assert found[0] == found[1]
    assert any(span.cancelled and span.tokens for span in found[0][0].spans)


def test_the_clock_times_requests_in_simpys_queue() -> None:
    """What the environment needs of an event they have: its own `step` takes them up like others."""
    clock = VirtualClock(seconds_per_token(judge_s=0.5))
    one = answer(3, 4, 5)
    session = clock.launch(lookahead_async(one.root, k1=2), one)  # type: ignore[attr-defined, arg-type]
    while session.finished is None:
        clock.env.step()
    assert session.commit_times == [3.5, 8.0, 13.5]
