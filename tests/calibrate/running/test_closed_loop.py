"""Rounds of clients on the wall clock: on engines that answer in turns of the event loop, then on real ones."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from replies import Scripted, chosen, generated, times

from calibrate.engines.protocol import Choice, Generation, Progress, Prompt, Request
from calibrate.record.journal import Journal
from calibrate.running.closed_loop import Loaded, real_round, rounds_of, run_under_load
from calibrate.running.interleaved import BASELINE, RealConfiguration
from calibrate.running.problem import Problem
from calibrate.running.verifiers import LlmJudge
from calibrate.running.wall_clock import StepLimits, WallClock
from sim.algorithms import autoregressive, lookahead_async
from theory.errors import CalibrationError, ParameterError

LOOKAHEAD = RealConfiguration(make=partial(lookahead_async, k1=2))
PLAIN = RealConfiguration(make=autoregressive)


class TurnEngine(Scripted):
    """Writes what a request's seed says, a turn of the event loop per token; knows who is in flight and was aborted.

    ``fails_at`` names the request, counted from 1, that fails.
    """

    def __init__(self, fails_at: int = 0) -> None:
        super().__init__("turns")
        self.n_requests = 0
        self.fails_at = fails_at
        self.running: list[Prompt] = []
        self.aborted: list[Prompt] = []
        self.most = 0

    async def generate(self, request: Request, progress: Progress | None = None) -> Generation:
        self.n_requests += 1
        if self.n_requests == self.fails_at:
            raise CalibrationError("the engine broke")
        n, ids = 2 + request.seed % 5, [65 + request.seed // 5 % 26]
        await self._turns(request.prompt, n)
        text, written = chr(ids[0]) * (n - 1) + "\n\n", (*ids * (n - 1), 10)
        at = times(time.monotonic())
        return generated(n, at, text=text, ids=written, finish="stop", n_prompt=len(request.prompt))

    async def choose(self, prompt: Prompt, choices: Sequence[str]) -> Choice:
        await self._turns(prompt, 1)
        yes = 0.9 if len(prompt) % 3 else 0.1
        return chosen(choices, (yes, 1.0 - yes), times(time.monotonic()))

    async def _turns(self, prompt: Prompt, n: int) -> None:
        self.running.append(prompt)
        self.most = max(self.most, len(self.running))
        try:
            for _ in range(n):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.aborted.append(prompt)
            raise
        finally:
            self.running.remove(prompt)


def clock_on(target: TurnEngine, draft: TurnEngine) -> WallClock:
    roles = {"target": target, "draft": draft, "judge": target}
    return WallClock(roles, LlmJudge(prompt=lambda a, b: a + b), limits=StepLimits(max_steps=5), seed=3)


def questions(n: int) -> list[Problem]:
    return [Problem(name=f"q{i}", prompt=f"question {i}") for i in range(n)]


@pytest.mark.parametrize("configuration", [PLAIN, LOOKAHEAD])
async def test_answers_are_the_same_whoever_else_is_answered(configuration: RealConfiguration) -> None:
    """Everything an answer is made of is its own: seeds, prefixes, verdicts, and requests that are cancelled."""
    asked = questions(7)
    engines = {load: (TurnEngine(), TurnEngine()) for load in (1, 3, 7)}
    found = {load: await real_round(clock_on(*pair), asked, configuration, load) for load, pair in engines.items()}
    assert found[1].round.tokens == found[3].round.tokens == found[7].round.tokens
    committed = {load: [one.steps for one in real.counts] for load, real in found.items()}
    n_steps = 1 if configuration is PLAIN else 5  # this engine ends an answer that is one request after a step
    assert committed[1] == committed[3] == committed[7] == [n_steps] * 7
    assert [one.accepted for one in found[1].counts] == [one.accepted for one in found[7].counts]
    assert all(not engine.running for pair in engines.values() for engine in pair)
    if configuration is PLAIN:
        assert [target.most for target, _ in engines.values()] == [1, 3, 7]
        assert [found[load].round.most_steps("target") for load in engines] == [1, 3, 7]
    else:
        assert all(engine.aborted for pair in engines.values() for engine in pair)  # some lookahead was in vain


async def test_when_an_answer_fails_the_others_are_aborted_and_the_error_is_told() -> None:
    target, draft = TurnEngine(fails_at=5), TurnEngine()
    with pytest.raises(CalibrationError, match=r"of 'target': the engine broke$"):
        await real_round(clock_on(target, draft), questions(6), PLAIN, 3)
    assert not target.running
    assert target.aborted


async def test_what_an_answer_leaves_running_is_not_lost_when_another_ends() -> None:
    """Two answers end at one time while their clock waits for aborts: it knows of all that runs on."""
    target, draft = TurnEngine(), TurnEngine()
    clock = clock_on(target, draft)
    roots = [await clock.root(question.prompt) for question in questions(4)]
    await asyncio.gather(*(clock.run(lookahead_async(root, k1=3), stream=str(i)) for i, root in enumerate(roots)))
    await clock.drain()
    assert not target.running
    assert not draft.running


async def test_rounds_are_neighbours_and_every_client_needs_a_question() -> None:
    asked = questions(11)
    parts = rounds_of(asked, 4)
    assert [len(part) for part in parts] == [3, 3, 3, 2]
    assert [problem for part in parts for problem in part] == asked
    clock = clock_on(TurnEngine(), TurnEngine())
    with pytest.raises(ParameterError, match=r"concurrency=3 must be an integer from 1 to 2, the questions of a round"):
        await run_under_load(clock, rounds_of(questions(5), 2), {}, [3])


async def test_what_is_broken_off_goes_on_and_nothing_is_run_twice(tmp_path: Path) -> None:
    path, rounds = tmp_path / "result.json.part", rounds_of(questions(6), 2)

    async def carry_out(journal: Journal, progress: Callable[[str], None]) -> Loaded:
        clock = clock_on(TurnEngine(), TurnEngine())
        return await run_under_load(clock, rounds, {"lr": LOOKAHEAD}, [1, 2], journal=journal, progress=progress)

    def breaking(part: str) -> None:
        first.append(part)
        if len(first) == 3:
            raise KeyboardInterrupt

    first: list[str] = []
    with Journal(path, {"of": "a test"}) as journal:
        with pytest.raises(KeyboardInterrupt):
            await carry_out(journal, breaking)
        assert journal.keys() == first
    again: list[str] = []
    with Journal(path, {"of": "a test"}) as journal:
        kept = {key: journal[key] for key in journal.keys()}  # noqa: SIM118 - a journal is no mapping
        found = await carry_out(journal, again.append)
        assert {key: journal[key] for key in kept} == kept
        assert len(journal) == 8
    assert again[:3] == first
    assert sorted(again) == sorted(set(again))
    assert {part: len(rounds) for part, rounds in found.items()} == {
        (name, load): 2 for name in (BASELINE, "lr") for load in (1, 2)
    }
    with Journal(path, {"of": "a test"}) as journal:
        whole = await carry_out(journal, again.append)
    assert whole == found


async def test_real_engines_give_the_same_answers_to_many_at_once(engines: Any) -> None:
    """Three questions by LR, alone and at once: batches differ, texts do not; verdicts of one never reach another."""
    asked = [Problem(name=word, prompt=f" he has {word} apples.\n\n") for word in ("two", "ten", "five")]
    found = [await real_round(engines.clock(), asked, LOOKAHEAD, load) for load in (1, 3)]
    assert found[0].round.tokens == found[1].round.tokens
    assert found[1].round.answers_at_once > 1.0 >= found[0].round.answers_at_once * 0.999
    assert found[1].round.most_steps("target") > found[0].round.most_steps("target")
