"""What a plan says that speculation gains by answers at once, beside what whole answers in closed loops measure.

    python -m benchmarks.by_load

starts servers with planted passes (by sequences and rows, with prompts that join them, drafts right by position), has
them measured as `calibrate openai` does, up to 32 answers at once, plans, and measures again on other questions: at 64
too, beyond what was timed. With `--profile PROFILE --prompts FILE` the servers of a measured profile are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from calibrate.loads.closed_loop import run_loop
from calibrate.loads.levels import Decoding, LoadOptions
from calibrate.loads.sums import record_of
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.models.recorded import models_of
from calibrate.models.servers import RemoteModels
from calibrate.record.engine_records import LoadRecord
from calibrate.record.profile import Profile
from calibrate.running.problem import Problem
from sim.estimate import Estimate
from specplan.api.calibrating import calibrate
from specplan.output import table
from specplan.planning.crowds_text import crowds
from specplan.planning.planner import Request, plan
from specplan.prompts import read_prompts

LOADS: Final = (1, 4, 16, 32, 64)
TIMED: Final = (1, 4, 16, 32)
"""Loads that the calibration of planted servers measures."""
SECONDS: Final = 3.0
"""Length of a loop."""

PASSES: Final[dict[str, Any]] = {
    "iteration_s": 0.016,
    "sequence_s": 0.0006,
    "prefill_s": 0.053,
    "prefill_token_s": 2e-5,
    "reading_s": 0.048,
    "step_tokens": (15, 25),
    "steps": 2,
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
SPECULATIVE: Final = {"method": "draft_model", "model": "small", "num_speculative_tokens": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A method at a load."""

    method: str
    at_once: int
    planned: Estimate
    """Tokens per second / those of plain decoding with as many answers at once."""
    plain: LoadRecord
    own: LoadRecord

    @property
    def measured(self) -> float:
        """The gain in closed loops."""
        return (self.own.tokens / self.own.seconds) / (self.plain.tokens / self.plain.seconds)

    @property
    def error(self) -> float:
        """Planned / measured gain - 1, [-]."""
        return self.planned.value / self.measured - 1.0


def compared(
    profile: Profile, models: RemoteModels, problems: Sequence[Problem], loads: Sequence[int] = LOADS
) -> list[Row]:
    """Return what is planned from a profile beside what its servers do at these loads.

    Parameters
    ----------
    profile : measured, with token-level methods.
    models : its servers, which have nothing else to do.
    problems : questions that the profile has not seen.
    loads : answers at once.
    """
    methods = sorted({record.method for record in profile.token})
    found = crowds(profile, plan(profile, Request(methods=tuple(methods))), loads)
    planned = {(row.configuration.method, row.answers): row.gain for row in found}
    decodings = {
        one.method: Decoding(method=one.method, knobs=one.knobs, speculation=models.speculation(one.method, one.knobs))
        for one in models.token_settings()
    }
    loops = asyncio.run(_measured(models, [Decoding(), *decodings.values()], problems, loads))
    return [
        Row(
            method=method,
            at_once=load,
            planned=planned[method, load],
            plain=loops[Decoding().key, load],
            own=loops[decoding.key, load],
        )
        for method, decoding in decodings.items()
        for load in loads
        if (decoding.key, load) in loops
    ]


async def _measured(
    models: RemoteModels, decodings: Sequence[Decoding], problems: Sequence[Problem], loads: Sequence[int]
) -> dict[tuple[str, int], LoadRecord]:
    """The records of closed loops, by decoding and load; plain decoding and methods take turns."""
    loops = {}
    async with models.open() as (_, clock):
        questions = [await clock.root(problem.prompt) for problem in problems]
        for load, one in product(loads, decodings):
            loop = await run_loop(clock, questions, load, SECONDS, one.speculation)
            if (record := record_of(loop, one.method, one.knobs)) is not None:
                loops[one.key, load] = record
    return loops


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
            *(f"{one.tokens / one.seconds:.0f}" for one in (row.own, row.plain)),
            *(f"{1e3 * (one.first_token_s or 0.0):.0f}" for one in (row.own, row.plain)),
        ]
        for row in rows
    ]
    return table(headings, cells)


@contextmanager
def planted(changes: Mapping[str, Any] = DRAFTED) -> Iterator[RemoteModels]:
    """Serve a planted target, and another one with a draft model, each in a process of its own."""
    sys.path.append(str(Path(__file__).parent.parent / "tests" / "helpers"))
    server = import_module("openai_server")
    with ExitStack() as stack:
        plain, fast = (
            stack.enter_context(server.serving_apart(server.Planted(**PASSES | more))) for more in ({}, dict(changes))
        )
        speculative = json.dumps([{"server": fast, **SPECULATIVE}])
        yield RemoteModels(target=plain, draft="", speculative=speculative)


def questions(n: int, first: int = 0) -> list[Problem]:
    """Return questions of which no two begin alike."""
    numbers = range(first, first + n)
    return [Problem(name=f"q{i}", prompt=f"{i} apples and {3 * i} pears are how many?") for i in numbers]


def calibrated(models: RemoteModels, folder: Path, n: int = 6) -> Profile:
    """Measure planted servers, as the command does but for fewer timings."""
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": one.prompt}) + "\n" for one in questions(n)), encoding="utf-8")
    timings = MeasureOptions(batches=(1, 2), contexts=(16,), iterations=8, prefills=(4, 16), repeats=2, rounds=1)
    return calibrate(models, prompts=prompts, answers=n, timings=timings, loads=LoadOptions(levels=TIMED))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", type=Path, help="measured profile of running servers; default: planted ones")
    parser.add_argument("--prompts", type=Path, help="JSONL file of questions that the profile has not seen")
    parser.add_argument("--loads", default=",".join(map(str, LOADS)), help="answers at once, with commas between them")
    given = parser.parse_args(arguments)
    loads = [int(load) for load in given.loads.split(",")]
    if given.profile is None:
        with planted() as models, TemporaryDirectory() as folder:
            rows = compared(calibrated(models, Path(folder)), models, questions(64, first=100), loads)
    else:
        if given.prompts is None:
            parser.error("--profile needs --prompts")
        profile = Profile.read(given.profile)
        opened = models_of(profile.settings)
        assert isinstance(opened, RemoteModels), "the profile is not of servers"
        rows = compared(profile, opened, read_prompts(given.prompts, 256), loads)
    sys.stdout.write(as_table(rows) + "\n")


if __name__ == "__main__":
    main()
