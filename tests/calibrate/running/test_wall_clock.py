"""The asyncio driver: first against a scripted backend, where every moment is chosen, then on real engines."""

import asyncio
import time
from functools import partial

import pytest
from invariants import check
from replies import Scripted, generated, times

from calibrate.engines.protocol import Sampling
from calibrate.engines.speculation import Speculation
from calibrate.running.verifiers import ExactMatch, LlmJudge, RandomAcceptance
from calibrate.running.wall_clock import StepLimits, WallClock
from sim.algorithms import EAGER, RELEASED_CODE, Rules, autoregressive, lookahead_async, lookahead_sync, step_by_step
from sim.operations import WAIT, Cancel, Commit, Generate, Step
from sim.roles import DRAFT, TARGET
from theory.errors import CalibrationError, ParameterError

QUESTION = " he has two apples.\n\n"


class ScriptedBackend(Scripted):
    """Answers when the test says so, always with the same text."""

    def __init__(self, name="scripted", tokenizer_id="letters", n_tokens=3, finish="stop", at_once=False):
        super().__init__(name, tokenizer_id)
        self.requests = []
        self.aborted = []
        self.open = []
        self.reply = {"n_tokens": n_tokens, "finish": finish}
        self.at_once = at_once

    async def generate(self, request, progress=None):
        self.requests.append(request)
        if not self.at_once:
            gate = asyncio.get_running_loop().create_future()
            self.open.append(gate)
            try:
                end = await gate
            except asyncio.CancelledError:
                self.aborted.append(request)
                progress.n_generated = 2
                raise
        else:
            end = time.monotonic()
        n = min(self.reply["n_tokens"], request.max_tokens)
        text, ids = "x" * n + "\n\n", tuple(range(100, 100 + n))
        return generated(n, times(end), text=text, ids=ids, finish=self.reply["finish"], n_prompt=len(request.prompt))

    async def until(self, n):
        """Wait until ``n`` requests are open."""
        while len(self.open) < n:
            await asyncio.sleep(0)


def scripted():
    """Return a clock on two scripted backends, and these."""
    target, draft = ScriptedBackend("target"), ScriptedBackend("draft")
    return WallClock({"target": target, "draft": draft, "judge": target}, ExactMatch()), target, draft


async def begun(algorithm):
    """Begin a run on two scripted backends: its task, when a request is open at each, the clock, and the two."""
    clock, target, draft = scripted()
    run = asyncio.create_task(clock.run(algorithm(await clock.root(QUESTION))))
    await draft.until(1)
    await target.until(1)
    return run, clock, target, draft


def two_then(root, *, log, cancel=False):
    """Start a target and a draft step; log what is delivered."""
    first, second = Generate(TARGET, root), Generate(DRAFT, root)
    yield first
    yield second
    done = yield WAIT
    log.append(done.role)
    if cancel:
        yield Cancel(second if done is first else first)
        return
    done = yield WAIT
    log.append(done.role)
    yield Commit(first.result)


@pytest.mark.parametrize("order", [["target", "draft"], ["draft", "target"]])
async def test_completions_of_one_moment_are_delivered_in_the_order_in_which_they_ended(order):
    log = []
    run, _, target, draft = await begun(partial(two_then, log=log))
    target.open[0].set_result(1.0 + order.index("target"))
    draft.open[0].set_result(1.0 + order.index("draft"))
    session = await run
    assert log == order
    assert [step.role for step in session.committed] == ["target"]
    assert session.finished >= session.commit_times[0] > 0.0


async def test_a_cancelled_operation_is_aborted_never_delivered_and_its_tokens_are_counted():
    log = []
    run, _, target, draft = await begun(partial(two_then, log=log, cancel=True))
    target.open[0].set_result(1.0)
    session = await run
    kept, dropped = session.operations
    assert log == ["target"]
    assert draft.aborted == draft.requests
    assert dropped.cancelled
    assert dropped.result is None
    assert dropped.n_generated == 2
    assert dropped.started <= dropped.finished <= session.finished
    assert kept.n_generated == 0  # its result says how many
    assert kept.result.n_tokens == 3


async def test_what_ended_before_it_was_cancelled_is_not_delivered_either():
    log = []

    def drops_one_that_is_ready(root):
        first, second, third = Generate(TARGET, root), Generate(DRAFT, root), Generate(TARGET, root, 1)
        yield first
        yield second
        log.append((yield WAIT))
        yield Cancel(second)
        yield Cancel(second)
        yield third
        log.append((yield WAIT))

    run, _, target, draft = await begun(drops_one_that_is_ready)
    target.open[0].set_result(1.0)
    draft.open[0].set_result(2.0)
    await target.until(2)
    target.open[1].set_result(3.0)
    session = await run
    first, second, third = session.operations
    assert log == [first, third]
    assert draft.aborted == []
    assert second.cancelled
    assert second.result is None


async def test_an_error_names_its_operation_and_it_or_a_cancellation_aborts_everything_else():
    run, _, target, draft = await begun(partial(lookahead_async, k1=4))
    draft.open[0].set_result(1.0)
    await target.until(2)
    target.open[1].set_exception(CalibrationError("the engine broke"))
    with pytest.raises(CalibrationError, match=r"^step 1 of 'target': the engine broke$"):
        await run
    assert len(target.aborted) == 1
    assert len(draft.aborted) == 1
    assert all(gate.done() for gate in (*target.open, *draft.open))

    run, _, target, draft = await begun(partial(lookahead_async, k1=3))
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (target.aborted, draft.aborted) == (target.requests, draft.requests)


def left_running(root):
    target, draft = Generate(TARGET, root), Generate(DRAFT, root)
    yield target
    yield draft
    yield WAIT
    yield Commit(target.result)


async def test_what_is_left_running_runs_on_and_can_be_waited_for():
    run, clock, target, draft = await begun(left_running)
    target.open[0].set_result(1.0)
    session = await run
    late = session.operations[1]
    assert late.finished < 0.0
    assert draft.aborted == []
    asyncio.get_running_loop().call_later(0.01, draft.open[0].set_result, 2.0)
    await clock.drain()
    assert late.finished > session.finished
    assert late.result is None
    await clock.drain()

    run = asyncio.create_task(clock.run(left_running(await clock.root(QUESTION))))
    await draft.until(2)
    await target.until(2)
    target.open[1].set_result(1.0)
    await run
    await clock.close()
    assert draft.aborted == draft.requests[1:]


async def test_waiting_for_nothing_nonsense_and_missing_engines_are_errors():
    def waits(root):
        yield WAIT

    def babbles(root):
        yield Generate(TARGET, root)
        yield "nonsense"

    def asks_nobody(root):
        yield Generate("nobody", root)
        yield WAIT

    clock, *_ = scripted()
    root = await clock.root(QUESTION)
    with pytest.raises(CalibrationError, match="nothing that it started is running"):
        await clock.run(waits(root))
    with pytest.raises(TypeError, match="nonsense"):
        await clock.run(babbles(root))
    with pytest.raises(ParameterError, match="prompt"):
        await clock.root("")
    with pytest.raises(CalibrationError, match="no backend for the role 'nobody'; there are: target, draft, judge"):
        await clock.run(asks_nobody(root))
    target = ScriptedBackend(at_once=True)
    clock = WallClock({"target": target, "draft": target}, LlmJudge(prompt="{}{}".format))
    with pytest.raises(CalibrationError, match="verdict of 'judge' on step 0: the LLM judge has no engine"):
        await clock.run(lookahead_sync(root, k1=2))


async def answered(algorithm=step_by_step, *, limits=None, **backend):
    """Return the run of an algorithm on a backend that answers at once, and the backend."""
    target = ScriptedBackend("target", at_once=True, **backend)
    clock = WallClock({"target": target}, ExactMatch(), limits=limits, seed=5)
    return await clock.run(algorithm(await clock.root(QUESTION)), stream="p1"), target


@pytest.mark.parametrize(
    ("limits", "reply", "steps"),
    [
        (StepLimits(max_answer_tokens=8), {}, [(3, False, False), (3, False, False), (2, False, True)]),
        (StepLimits(max_steps=2), {}, [(3, False, False), (3, False, True)]),
        (StepLimits(max_step_tokens=3, max_steps=2), {"finish": "length"}, [(3, True, False), (3, True, True)]),
        (StepLimits(max_step_tokens=30), {"finish": "length"}, [(3, True, True)]),  # it has run out of context
        (None, {"finish": "eos"}, [(3, False, True)]),
    ],
    ids=["tokens of the answer", "steps", "tokens of steps", "context", "end of the text"],
)
async def test_where_steps_and_answers_end(limits, reply, steps):
    """Tokens of each step, whether it was cut, and whether it is the last."""
    session, target = await answered(limits=limits, **reply)
    assert [(step.n_tokens, step.truncated, step.final) for step in session.committed] == steps
    assert all(request.stop == ("\n\n",) for request in target.requests)
    if limits == StepLimits(max_answer_tokens=8):
        assert session.text == "xxx\n\n" * 2 + "xx\n\n"
        assert [request.max_tokens for request in target.requests] == [8, 5, 2]
        assert [len(request.prompt) - len(QUESTION) for request in target.requests] == [0, 3, 6]  # ids


async def test_a_whole_answer_is_one_request_with_steps_as_marks_in_it():
    session, target = await answered(autoregressive, limits=StepLimits(max_answer_tokens=50, max_step_tokens=3))
    (request,) = target.requests
    assert (request.max_tokens, request.stop) == (50, ())
    assert [step.final for step in session.committed] == [True]


async def test_engines_without_a_known_tokenizer_or_with_another_one_get_text():
    _, target = await answered(limits=StepLimits(max_steps=2), tokenizer_id=None)
    assert [request.prompt for request in target.requests] == [QUESTION, QUESTION + "xxx\n\n"]
    target, draft = ScriptedBackend("target", at_once=True), ScriptedBackend("draft", "other", at_once=True)
    clock = WallClock({"target": target, "draft": draft}, ExactMatch(), limits=StepLimits(max_steps=2))
    await clock.run(lookahead_sync(await clock.root(QUESTION), k1=2))
    assert [request.prompt for request in draft.requests] == [QUESTION]
    assert [request.prompt for request in target.requests] == [tuple(map(ord, QUESTION)), QUESTION + "xxx\n\n"]


async def test_seeds_depend_on_the_place_in_the_answer_and_nothing_else():
    seeds = {}
    for stream, seed, width in (("p1", 5, 1), ("p1", 5, 2), ("p2", 5, 1), ("p1", 6, 1)):
        target, draft = ScriptedBackend("target", at_once=True), ScriptedBackend("draft", at_once=True)
        clock = WallClock({"target": target, "draft": draft}, ExactMatch(), limits=StepLimits(max_steps=2), seed=seed)
        await clock.run(lookahead_sync(await clock.root(QUESTION), k1=2, width=width), stream=stream)
        seeds[stream, seed, width] = [request.seed for request in (*target.requests[:2], *draft.requests)]
    base, wide = seeds["p1", 5, 1], seeds["p1", 5, 2]
    assert wide[:3] == base
    assert len(set(wide)) == 4
    assert not set(base) & set(seeds["p2", 5, 1])
    assert not set(base) & set(seeds["p1", 6, 1])


async def test_engines_get_ready_before_a_run_begins():
    """A start of an engine within a run would count as the method's time."""
    ready = []

    class Prepared(ScriptedBackend):
        async def prepare(self, speculation):
            ready.append(speculation)

    clock, wanted = WallClock({TARGET: Prepared(), DRAFT: ScriptedBackend()}, ExactMatch()), Speculation(method="ngram")
    await clock.fresh()
    assert ready == []
    await clock.fresh({TARGET: wanted, DRAFT: wanted})
    assert ready == [wanted]


async def test_random_acceptance_has_its_rate_repeats_itself_and_scores_what_it_draws():
    """At a threshold t it accepts 1 - t: the score and the verdict tell the same story."""
    step = Step(None, "user", 0)

    async def verdicts(probability):
        verifier = RandomAcceptance(probability=probability)
        judged = [await verifier.verify(step, step, judge=None, seed=10 * seed) for seed in range(1000)]
        return [(one.result.accepted, one.result.score) for one in judged]

    first = await verdicts(0.3)
    assert first == await verdicts(0.3)
    assert all(accepted == (score > 0.7) for accepted, score in first)
    assert abs(sum(accepted for accepted, _ in first) / 1000 - 0.3) < 5 * (0.3 * 0.7 / 1000) ** 0.5  # 5 standard errors
    assert not any(accepted for accepted, _ in await verdicts(0.0))
    assert all(accepted for accepted, _ in await verdicts(1.0))


# Real engines from here on.

LIMITS = StepLimits(max_steps=8, max_step_tokens=12)
METHODS = {
    "sync-4": partial(lookahead_sync, k1=4),
    "async-3-wide": partial(lookahead_async, k1=3, width=2),
    "async-3-released-wide": partial(lookahead_async, k1=3, width=2, rules=RELEASED_CODE),
    "async-3-eager": partial(lookahead_async, k1=3, rules=EAGER),
    "async-3-any-slot": partial(lookahead_async, k1=3, rules=Rules(slot="any-target")),
}


@pytest.mark.parametrize(("temperature", "stream"), [(0.0, "p1"), (0.8, "p1"), (0.8, "p2")])
async def test_with_exact_match_every_schedule_commits_the_targets_text(engines, temperature, stream):
    """Greedy or sampled: a target step depends on its prefix and its place only, so speculation changes nothing."""
    clock = engines.clock(ExactMatch(), limits=LIMITS, sampling=Sampling(temperature=temperature))
    root = await clock.root(QUESTION)
    baseline = await clock.run(step_by_step(root), stream=stream)
    check(baseline)
    assert len(baseline.text) > 0
    for name, method in METHODS.items():
        session = await clock.run(method(root), stream=stream)
        await clock.drain()
        check(session)
        assert session.text == baseline.text, name
        assert [s.n_tokens for s in session.committed] == [s.n_tokens for s in baseline.committed]
