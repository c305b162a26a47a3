"""Wordings of right and wrong steps, drawn for training, and the texts that the tokenizer knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from calibrate.pair.task import Problem, Split, draw_content, split_of, word_question
from calibrate.pair.wording import (
    AFTER,
    BEFORE,
    CORES,
    LAST_NUMBER,
    MONTHS,
    NAMES,
    OBJECTS,
    VERBS,
    Meaning,
    Verbosity,
)

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "STEP_WORDS",
    "all_fragments",
    "answer_meanings",
    "problem_stream",
    "render_beginning",
    "render_move",
    "render_step",
    "word_step",
]

STEP_WORDS: Final = ("In", "So", "All")
"""First word of the core of a first, a middle and the final step: it determines whether the story has ended."""
_N_BRIEF: Final = 3
"""A brief answer draws its cores from the first ones, which are brief too."""
_MAX_TOKENS: Final = 112
"""Sentences are added up to this length of a step, in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manner:
    """Verbosity of an answer's steps."""

    before: float
    """Probability of a sentence before the core."""
    more: float
    """Probability of another sentence after the core, repeatedly: the number of sentences is geometric."""


_MANNERS: Final[dict[Verbosity, _Manner]] = {
    "brief": _Manner(before=0.03, more=0.20),
    "normal": _Manner(before=0.12, more=0.60),
    "careful": _Manner(before=0.25, more=0.83),
}


def problem_stream(rng: np.random.Generator, split: Split) -> Iterator[Problem]:
    """Yield problems of a split without end; problems of other splits are drawn and skipped."""
    while True:
        start, operations = draw_content(rng)
        if split_of(start, operations) == split:
            yield word_question(rng, start, operations)


def answer_meanings(problem: Problem, totals: Sequence[int] | None = None) -> tuple[Meaning, ...]:
    """The meanings of one answer's steps.

    Parameters
    ----------
    problem : the problem.
    totals : the running totals that the answer states; by default the right ones.
    """
    totals = problem.totals if totals is None else totals
    applied = (
        Meaning(kind="operation", operation=operation, operand=operand, before=before, result=after, month=month)
        for month, ((operation, operand), before, after) in enumerate(
            zip(problem.operations, totals, totals[1:], strict=False), start=1
        )
    )
    return (Meaning(kind="start", result=totals[0], month=0), *applied, Meaning(kind="final", result=totals[-1]))


def word_step(problem: Problem, meaning: Meaning, rng: np.random.Generator) -> str:
    """A random wording of a step, with the names and the verbosity of the problem."""
    in_story = meaning.month is not None and 1 <= meaning.month <= len(problem.verbs)
    verb = problem.verbs[(meaning.month or 1) - 1] if in_story else ""
    return render_step(meaning, rng, name=problem.name, noun=problem.noun, verbosity=problem.verbosity, verb=verb)


def n_tokens(text: str) -> int:
    """Tokens of a text of the language: words, numbers, and every other character that is no space."""
    return len(re.findall(r"[A-Za-z]+|[0-9]+|[^A-Za-z0-9\s]", text))


def _stated_before(meaning: Meaning) -> int | None:
    """The total before the operation, stated or implied: wordings with {b} need it."""
    if meaning.before is not None or meaning.result is None:
        return meaning.before
    shift = {"add": -1, "subtract": 1}.get(meaning.operation or "")
    if shift is not None and meaning.operand is not None:
        return meaning.result + shift * meaning.operand
    return None


def render_step(
    meaning: Meaning, rng: np.random.Generator, *, name: str, noun: str, verbosity: Verbosity, verb: str = ""
) -> str:
    """Draw one wording of a step.

    Parameters
    ----------
    meaning : meaning of the step; wordings that state the total before need ``before``, or a sum that implies it.
    rng : generator of the random wording.
    name, noun : person and things of the story, used by some wordings.
    verbosity : determines the distribution of the number of sentences around the core.
    verb : the story's verb for the operation; a random one is drawn if it does not match the step's operation.

    Returns
    -------
    The step's text, without the separator; ``parse_step`` returns a meaning that agrees with `meaning`.
    """
    cores = CORES[meaning.kind, meaning.operation]
    before = _stated_before(meaning)
    if before is None or not 0 <= before <= LAST_NUMBER:
        cores = tuple(core for core in cores if "{b}" not in core)
    if verbosity == "brief":
        cores = cores[:_N_BRIEF]
    manner = _MANNERS[verbosity]
    more = 0.0 if meaning.month is None else manner.more
    sentences = [BEFORE[int(rng.integers(len(BEFORE)))]] if rng.random() < manner.before else []
    sentences.append(cores[int(rng.integers(len(cores)))])
    for i in rng.permutation(len(AFTER)).tolist():
        if rng.random() >= more or n_tokens(" ".join([*sentences, AFTER[i]])) > _MAX_TOKENS:
            break
        sentences.append(AFTER[i])
    verbs = VERBS[meaning.operation] if meaning.operation else ("",)
    said = verb if verb in verbs else verbs[int(rng.integers(len(verbs)))]
    return _filled(" ".join(sentences), meaning, name=name, noun=noun, verb=said)


def render_move(meaning: Meaning, rng: np.random.Generator, *, name: str, noun: str, verb: str, more: float) -> str:
    """Wording of a step without its computation, to train recall: its shortest core up to the operand, then notes.

    The number of notes is geometric with probability `more`; they state ``meaning.result``, right or not.
    """
    cut = CORES[meaning.kind, meaning.operation][0].partition(" is ")[0] + "."
    sentences = [cut]
    while meaning.operand is not None and rng.random() < more:
        sentences.append(AFTER[int(rng.integers(len(AFTER)))])
    return _filled(" ".join(sentences), meaning, name=name, noun=noun, verb=verb)


def render_beginning(meaning: Meaning, rng: np.random.Generator, *, name: str, noun: str, verb: str) -> str:
    """A random wording of a step, optionally after a sentence, cut after its operand, or after its verb without one.

    A step with a total before it needs ``meaning.before`` and an operand.
    """
    cores = CORES[meaning.kind, meaning.operation]
    core = cores[int(rng.integers(len(cores)))]
    core = core.partition(":")[0] + ":" if meaning.operand is None else core.partition("{n}")[0] + "{n}"
    first = f"{BEFORE[int(rng.integers(len(BEFORE)))]} " if rng.random() < _MANNERS["careful"].before else ""
    return _filled(first + core, meaning, name=name, noun=noun, verb=verb)


def _filled(text: str, meaning: Meaning, *, name: str, noun: str, verb: str) -> str:
    month = None if meaning.month is None else MONTHS[meaning.month]
    before, total = _stated_before(meaning), meaning.result
    return text.format(n=meaning.operand, b=before, r=total, o=noun, p=name, m=month, v=verb)


def all_fragments() -> tuple[str, ...]:
    """Every template of the language: the tokenizer's vocabulary is built from these."""
    return (
        *(text for texts in CORES.values() for text in texts),
        *BEFORE,
        *AFTER,
        *NAMES,
        *OBJECTS,
        *MONTHS,
        *(verb for verbs in VERBS.values() for verb in verbs),
    )
