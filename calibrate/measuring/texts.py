"""Answers that are made several at a time: what the models say and decide, at a fraction of the price of timing it.

How often drafts are accepted, and how long steps are, differs so much between questions that a profile of forty answers
knows an acceptance of 85 % to five points, and a speedup no better than that. Batches cost little more than one
sequence, so that many more answers are to be had in the time of a few, if nobody asks what each took. The texts are
those that each question gets alone. What a judge finds in its cache is not: of its prompts some 4 % fewer tokens count
as new.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

from calibrate.measuring.answers import Inspection, MeasuredAnswer, measure_answer
from calibrate.record.journal import Journal
from calibrate.running.closed_loop import all_or_none
from calibrate.running.problem import Problem, Truth
from calibrate.running.wall_clock import WallClock

__all__ = ["kept_texts", "measure_texts"]

AT_ONCE: Final = 8
"""Answers that are made at a time."""

Patiently: TypeAlias = Callable[[Callable[[], Awaitable[MeasuredAnswer]]], Awaitable[MeasuredAnswer]]
"""Makes a piece, again from its beginning where that may help."""


async def measure_texts(
    clock: WallClock,
    problems: Sequence[Problem],
    journal: Journal,
    *,
    truth: Truth | None,
    inspection: Inspection,
    patiently: Patiently,
    progress: Callable[[str], None],
) -> None:
    """Answer questions, several at a time, into a journal; those that it holds are not answered again.

    Parameters
    ----------
    clock : real engines.
    problems : what to answer.
    journal : keeps each as it is finished (`kept_texts`).
    truth : ground truth of the task, if it has one.
    inspection : what to find out about drafts; of a position the first one alone is written.
    patiently : makes an answer, trying again where an engine broke it off.
    progress : called with the name of each.

    Raises
    ------
    CalibrationError : an engine failed, or the journal cannot be written.
    """
    await clock.fresh()
    asked = replace(inspection, drafts=min(inspection.drafts, 1))
    waiting = iter(problems)

    async def client() -> None:
        for problem in waiting:
            if _key(problem) not in journal:
                answer = await patiently(partial(measure_answer, clock, problem, truth, asked, apart=False))
                journal.add(_key(problem), {"record": answer.record.model_dump(mode="json"), "ids": answer.token_ids})
            progress(problem.name)

    await all_or_none([client() for _ in range(min(AT_ONCE, len(problems)))])


def kept_texts(journal: Journal, problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """Return those of the questions' answers that are finished: ``record`` and ``ids``, in the questions' order."""
    return [journal[_key(problem)] for problem in problems if _key(problem) in journal]


def _key(problem: Problem) -> str:
    return f"text:{problem.name}"
