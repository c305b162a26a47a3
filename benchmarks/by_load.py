"""What a plan says that speculation gains by answers at once, beside what whole answers in closed loops measure.

    python -m benchmarks.by_load

starts servers with planted passes (by sequences and rows, with prompts that join them, drafts right by position, a
draft model and a judge for Lookahead Reasoning), has them measured as `calibrate openai` does, up to 32 answers at
once, plans, and measures again on other questions: at 64 too, beyond what was timed. Servers and clients talk over real
sockets, in virtual time: the table does not depend on the machine. With `--profile PROFILE --prompts FILE` the servers
of a measured profile are measured, in real time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import specplan as sp
from calibrate.engines.speculation import Decoding
from calibrate.loads.closed_loop import run_loop
from calibrate.loads.levels import LoadOptions
from calibrate.loads.sums import record_of
from calibrate.measuring.calibration import calibrate_models
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.models.recorded import models_of
from calibrate.models.servers import RemoteModels
from calibrate.record.engine_records import LoadRecord
from calibrate.record.profile import Profile
from calibrate.running.closed_loop import real_round
from calibrate.running.interleaved import RealConfiguration
from calibrate.running.problem import Problem, read_prompts
from calibrate.running.wall_clock import WallClock
from sim.configuration import Configuration
from sim.estimate import Estimate
from specplan.calibrating import Effort, plan_of
from specplan.output import table

LOADS: Final = (1, 4, 16, 32, 64)
TIMED: Final = (1, 4, 16, 32)
"""Loads that the calibration of planted servers measures."""
STEPWISE: Final = (1, 4)
"""Loads at which Lookahead Reasoning is measured."""
SECONDS: Final = 20.0
"""Length of a loop."""
ANSWERS: Final = 160
"""Answers of a round of Lookahead Reasoning."""

PASSES: Final[dict[str, Any]] = {
    "iteration_s": 0.016,
    "sequence_s": 0.0006,
    "prefill_s": 0.053,
    "prefill_token_s": 2e-5,
    "reading_s": 0.048,
    "step_tokens": (15, 25),
    "steps": 4,
    "counts": True,
}
"""Planted passes of plain decoding: 17 ms for one answer, 54 for 64; 48 where prompts are read."""
DRAFTED: Final[dict[str, Any]] = {
    "row_s": 0.00024,
    "k2": 4,
    "accepted": (0.85, 0.87, 0.88),
    "prefill_s": 0.081,
    "reading_s": 0.076,
}
"""What a draft model changes: 3.2 tokens a pass, 17 ms for one answer, 100 for 64; 76 where prompts are read."""
SMALL: Final[dict[str, Any]] = {
    "iteration_s": 0.003,
    "sequence_s": 0.0001,
    "prefill_s": 0.008,
    "reading_s": 0.006,
}
"""What is different for the draft model on a server of its own."""
SPECULATIVE: Final = {"method": "draft_model", "model": "small", "num_speculative_tokens": 3}
LR: Final = "lr-async"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What was measured of a method at a load."""

    tokens_per_s: float
    first_token_s: float
    """Mean time to the first token of an answer, s."""

    @classmethod
    def of(cls, record: LoadRecord) -> Rates:
        """Return those of a closed loop."""
        return cls(tokens_per_s=record.tokens / record.seconds, first_token_s=record.first_token_s or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A method at a load."""

    method: str
    at_once: int
    planned: Estimate
    """Tokens per second / those of plain decoding with as many answers at once."""
    plain: Rates
    own: Rates

    @property
    def measured(self) -> float:
        """The gain in closed loops."""
        return self.own.tokens_per_s / self.plain.tokens_per_s

    @property
    def error(self) -> float:
        """Planned / measured gain - 1, [-]."""
        return self.planned.value / self.measured - 1.0


async def compared(
    profile: Profile, models: RemoteModels, problems: Sequence[Problem], loads: Sequence[int] = LOADS
) -> list[Row]:
    """Return what is planned from a profile beside what its servers do at these loads.

    Parameters
    ----------
    profile : measured, with token-level methods, and with drafts of steps for Lookahead Reasoning.
    models : its servers, which have nothing else to do.
    problems : questions that the profile has not seen.
    loads : answers at once.
    """
    methods = sorted({record.method for record in profile.token})
    drafted = [LR] * any(answer.steps for answer in profile.all_answers)
    found = sp.plan(profile, methods=[*methods, *drafted], concurrency=loads, max_accuracy_loss=1.0).loads
    assert found is not None
    every = ((load.concurrency or 1, row) for load, rows in found.loads for row in rows)
    planned = {(row.option.configuration.method, n): row for n, row in every}
    decodings = {
        one.method: replace(one, speculation=models.speculation(one.method, one.knobs))
        for one in models.token_settings()
    }
    own: dict[tuple[str, int], Rates] = {}
    plain: dict[int, Rates] = {}
    async with models.open() as (_, clock):
        for load in loads:
            plain[load] = await _looped(clock, Decoding(), problems, load)
            for method in methods:
                own[method, load] = await _looped(clock, decodings[method], problems, load)
            if drafted and load in STEPWISE:
                own[LR, load] = await _stepwise(clock, planned[LR, load].option.configuration, problems, load)
    return [
        Row(method=method, at_once=load, planned=planned[method, load].gain, plain=plain[load], own=measured)
        for (method, load), measured in sorted(own.items())
    ]


async def _looped(clock: WallClock, decoding: Decoding, problems: Sequence[Problem], load: int) -> Rates:
    """The rates of whole answers in a closed loop."""
    questions = [await clock.root(problem.prompt) for problem in problems]
    loop = await run_loop(clock, questions, load, SECONDS, decoding.speculation)
    record = record_of(loop, decoding.method, decoding.knobs)
    assert record is not None, f"{decoding.key}: too few answers at {load} at once"
    return Rates.of(record)


async def _stepwise(clock: WallClock, configuration: Configuration, problems: Sequence[Problem], load: int) -> Rates:
    """The rates of a step-level method's answers, by as many clients."""
    asked = problems[:ANSWERS]
    done = (await real_round(clock, asked, RealConfiguration(make=configuration.algorithm()), load)).round
    return Rates(tokens_per_s=sum(done.tokens) / done.makespan, first_token_s=sum(done.first) / len(done.first))


def as_table(rows: Sequence[Row]) -> str:
    """Return the rows as text."""
    headings = ["method", "at once", "gain planned", "measured", "error", "tokens/s", "plain", "first ms", "plain"]
    cells = [
        [
            row.method,
            str(row.at_once),
            f"{row.planned.value:.2f} [{row.planned.low:.2f}, {row.planned.high:.2f}]",
            f"{row.measured:.2f}",
            f"{100 * row.error:+.1f} %",
            *(f"{one.tokens_per_s:.0f}" for one in (row.own, row.plain)),
            *(f"{1e3 * one.first_token_s:.0f}" for one in (row.own, row.plain)),
        ]
        for row in rows
    ]
    return table(headings, cells)


@asynccontextmanager
async def planted(
    drafting: Sequence[tuple[dict[str, Any], dict[str, Any]]] = (), **both: Any
) -> AsyncIterator[RemoteModels]:
    """Serve a planted target that judges too, the draft model, and the target with it, in the running loop.

    Parameters
    ----------
    drafting : what is planted in each server that speculates, and its speculative configuration; default one of k2 = 4.
    both : what else is planted in the servers of target and draft.
    """
    served = helper("openai_server")
    fast = drafting or [(DRAFTED, SPECULATIVE)]
    async with AsyncExitStack() as stack:
        urls = []
        for changes in (both, {"model": "small", **SMALL, **both}, *(made for made, _ in fast)):
            server = served.OpenAIServer(served.Planted(**PASSES | changes))
            await server.start()
            stack.push_async_callback(server.stop)
            urls.append(f"{server.url}/v1")
        target, draft, *others = urls
        speculative = [{"server": url, **config} for url, (_, config) in zip(others, fast, strict=True)]
        yield RemoteModels(target=target, draft=draft, speculative=json.dumps(speculative))


def helper(name: str) -> Any:
    """Return a module of the tests' helpers."""
    sys.path.append(str(Path(__file__).parent.parent / "tests" / "helpers"))
    return import_module(name)


def questions(n: int, first: int = 0) -> list[Problem]:
    """Return questions of which no two begin alike."""
    numbers = range(first, first + n)
    return [Problem(name=f"q{i}", prompt=f"{i} apples and {3 * i} pears are how many?") for i in numbers]


async def calibrated(models: RemoteModels, folder: Path, n: int = 12, texts: int = 100) -> Profile:
    """Measure planted servers, as the command does but for fewer timings."""
    prompts, known = folder / "prompts.jsonl", questions(n + texts)
    prompts.write_text("".join(json.dumps({"prompt": one.prompt}) + "\n" for one in known), encoding="utf-8")
    timings = MeasureOptions(batches=(1, 2, 4), contexts=(16, 64), iterations=8, prefills=(4, 16), repeats=2, rounds=1)
    effort, loads = Effort(answers=n, texts=texts), LoadOptions(levels=TIMED)
    asked = plan_of(models, effort, prompts, name="planted", command="benchmarks", engine=timings, loads=loads)
    return await calibrate_models(asked, folder / "journal")


async def on_planted_servers(loads: Sequence[int] = LOADS) -> list[Row]:
    """Calibrate planted servers, plan, and measure on other questions."""
    async with planted() as models:
        with TemporaryDirectory() as folder:
            profile = await calibrated(models, Path(folder))
        return await compared(profile, models, questions(ANSWERS, first=1000), loads)


def virtually(loads: Sequence[int] = LOADS) -> list[Row]:
    """Return `on_planted_servers` in virtual time."""
    rows: list[Row] = helper("virtual_time").run_virtually(on_planted_servers(loads))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", type=Path, help="measured profile of running servers; default: planted ones")
    parser.add_argument("--prompts", type=Path, help="JSONL file of questions that the profile has not seen")
    parser.add_argument("--loads", default=",".join(map(str, LOADS)), help="answers at once, with commas between them")
    given = parser.parse_args(arguments)
    loads = [int(load) for load in given.loads.split(",")]
    if given.profile is None:
        rows = virtually(loads)
    else:
        if given.prompts is None:
            parser.error("--profile needs --prompts")
        profile = Profile.read(given.profile)
        opened = models_of(profile.settings)
        assert isinstance(opened, RemoteModels), "the profile is not of servers"
        rows = asyncio.run(compared(profile, opened, read_prompts(given.prompts, 256), loads))
    sys.stdout.write(as_table(rows) + "\n")


if __name__ == "__main__":
    main()
