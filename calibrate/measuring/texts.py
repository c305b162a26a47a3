"""Answers that are generated concurrently and without timing, at a fraction of the cost of timed answers.

Acceptance and step lengths differ so much between questions that forty answers estimate an acceptance of 85 % to five
points, and a speedup no better. A batch takes little longer than one sequence, so that many more answers are generated
in the time of a few. The texts are the same as at concurrency 1. The judge's cache is not: about 4 % fewer tokens of
its prompts count as new.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from calibrate.measuring.answers import Inspection, measure_answer
from calibrate.record.journal import Journal
from calibrate.running.closed_loop import all_or_none
from calibrate.running.patience import Patience
from calibrate.running.problem import Problem, Truth
from calibrate.running.wall_clock import WallClock

__all__ = ["AT_ONCE", "ON_SERVERS", "kept_texts", "measure_texts"]

AT_ONCE: Final = 8
"""Concurrent answers."""
ON_SERVERS: Final = 32
"""Concurrent answers on servers, which queue what they cannot run at once."""


async def measure_texts(
    clock: WallClock,
    problems: Sequence[Problem],
    journal: Journal,
    *,
    truth: Truth | None,
    inspection: Inspection,
    patiently: Patience,
    progress: Callable[[str], None],
    within_s: float = math.inf,
    at_once: int = AT_ONCE,
) -> None:
    """Answer questions concurrently into a journal; questions that it holds are not answered again.

    Raises
    ------
    CalibrationError : an engine failed, or the journal cannot be written.
    """
    await clock.fresh()
    inspected = replace(inspection, drafts=min(inspection.drafts, 1))
    waiting, until = iter(problems), time.monotonic() + within_s

    async def client() -> None:
        for problem in waiting:
            if _key(problem) not in journal and time.monotonic() < until:
                answer = await patiently(partial(measure_answer, clock, problem, truth, inspected, apart=False))
                journal.add(_key(problem), {"record": answer.record.model_dump(mode="json"), "ids": answer.token_ids})
            progress(problem.name)

    await all_or_none([client() for _ in range(min(at_once, len(problems)))])


def kept_texts(journal: Journal, problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """Return the finished answers: ``record`` and ``ids``, in the order of the questions."""
    return [journal[_key(problem)] for problem in problems if _key(problem) in journal]


def _key(problem: Problem) -> str:
    return f"text:{problem.key}"
