"""The language of the bundled pair's task: the meaning of one reasoning step, its many wordings, and back again.

A step is some filler sentences around one core sentence. Only the core carries numbers, so a step's meaning does not
depend on which of its wordings was drawn, and a parser recovers it exactly: that is what makes semantic acceptance
(same meaning) differ from token equality (same words) while ground truth stays computable.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "LAST_NUMBER",
    "MONTHS",
    "NAMES",
    "OBJECTS",
    "Kind",
    "Meaning",
    "Operation",
    "Verbosity",
    "all_fragments",
    "draw_verbosity",
    "n_tokens",
    "parse_step",
    "render_step",
    "telling_fragments",
]

Kind = Literal["start", "operation", "note", "check", "final"]
Operation = Literal["add", "subtract", "double"]
Verbosity = Literal["brief", "normal", "careful"]

LAST_NUMBER: Final = 99
"""Every number of the language lies in 0..LAST_NUMBER and is one token."""

NAMES: Final = ("Mia", "Tom", "Ada", "Ben", "Eva", "Leo", "Ida", "Max", "Zoe", "Sam", "Amy", "Jan")
MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
"""When the operations of a story happen, one a month from January on: a step says which of them it is about."""
OBJECTS: Final = (
    "apples",
    "books",
    "coins",
    "shells",
    "cards",
    "stamps",
    "pears",
    "beads",
    "stones",
    "pens",
    "plums",
    "balls",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What one step says; two wordings of the same content have compatible meanings (:meth:`agrees_with`)."""

    kind: Kind
    """start states the first number, operation applies one, note only announces it, check undoes it, final answers."""
    operation: Operation | None = None
    """Which operation is applied, announced or undone; None for start and final."""
    operand: int | None = None
    """The number added or subtracted; None for double, start and final."""
    before: int | None = None
    """The total before the operation where the wording states it (a check always does)."""
    result: int | None = None
    """The total after the operation, the first number, or the answer; None for a note."""
    month: int | None = None
    """Which operation of the story, from 0; None for start and final."""

    def agrees_with(self, other: Meaning) -> bool:
        """Whether both say the same; a total before the operation counts only where both state it."""
        both_before = self.before is None or other.before is None or self.before == other.before
        mine, others = ((one.kind, one.operation, one.operand, one.result, one.month) for one in (self, other))
        return both_before and mine == others


_WHEN: Final = "In {m}: "
"""Before the core of a step that is about an operation."""
# Fields: {n} operand, {b} total before, {r} total after, {o} a noun of the story. Short wordings first: a brief answer
# draws from the first _N_BRIEF, so terse steps are terse in the core too.
_N_BRIEF: Final = 3
_WORDINGS: Final[dict[tuple[Kind, Operation | None], tuple[str, ...]]] = {
    ("start", None): (
        "Start at {r}.",
        "The first number is {r}.",
        "We start with {r}.",
        "At first there are {r} {o}.",
        "The story begins with {r} {o}, so that is where we begin.",
        "The first thing that we read is that there are {r} {o}.",
    ),
    ("operation", "add"): (
        "Plus {n} is {r}.",
        "Add {n} to get {r}.",
        "Then {b} plus {n} is {r}.",
        "Adding {n} to {b} gives {r}.",
        "The {o} go up by {n}, from {b} to {r}.",
        "We had {b} {o}, and {n} more make {r}.",
        "With {n} more {o} than before, the total is now {r}.",
        "Since {n} {o} came in, there must now be {r} {o}.",
        "The total grows by {n} here, and so the {b} {o} that we had become {r} {o}.",
    ),
    ("operation", "subtract"): (
        "Minus {n} is {r}.",
        "Take away {n} to get {r}.",
        "Then {b} minus {n} is {r}.",
        "Taking {n} from {b} leaves {r}.",
        "The {o} go down by {n}, from {b} to {r}.",
        "We had {b} {o}, and {n} fewer leave {r}.",
        "With {n} fewer {o} than before, the total is now {r}.",
        "Since {n} {o} went away, there must now be {r} {o}.",
        "The total shrinks by {n} here, and so the {b} {o} that we had become {r} {o}.",
    ),
    ("operation", "double"): (
        "Twice that is {r}.",
        "Double it to get {r}.",
        "Then two times {b} is {r}.",
        "Doubling {b} gives {r}.",
        "The {o} double, from {b} to {r}.",
        "We had {b} {o}, and twice as many make {r}.",
        "With twice as many {o} as before, the total is now {r}.",
        "The total doubles here, and so the {b} {o} that we had become {r} {o}.",
    ),
    ("note", "add"): (
        "Next is plus {n}.",
        "Next come {n} more.",
        "Next we add {n}.",
        "The story goes on to say that {n} {o} come in.",
    ),
    ("note", "subtract"): (
        "Next is minus {n}.",
        "Next go {n} away.",
        "Next we take {n}.",
        "The story goes on to say that {n} {o} go away.",
    ),
    ("note", "double"): (
        "Next is twice that.",
        "Next they double.",
        "Next we double.",
        "The story goes on to say that the {o} double.",
    ),
    ("check", "add"): (
        "Check: {r} minus {n} is {b}.",
        "Back again, {r} minus {n} is {b}.",
        "Indeed {r} minus {n} is {b}.",
        "To check the sum, we go back: {r} minus {n} would be {b} again.",
    ),
    ("check", "subtract"): (
        "Check: {r} plus {n} is {b}.",
        "Back again, {r} plus {n} is {b}.",
        "Indeed {r} plus {n} is {b}.",
        "To check the sum, we go back: {r} plus {n} would be {b} again.",
    ),
    ("check", "double"): (
        "Check: half of {r} is {b}.",
        "Back again, half of {r} is {b}.",
        "Indeed half of {r} is {b}.",
        "To check the sum, we go back: half of {r} would be {b} again.",
    ),
    ("final", None): (
        "The answer is {r}.",
        "So the answer is {r}.",
        "The final total is {r}.",
        "That was all, so the answer is {r}.",
        "There is nothing left to do, and the answer is {r} {o}.",
        "We are at the end of the story, and so the answer is {r}.",
    ),
}
_CORES: Final = {key: tuple(_WHEN + text if key[1] else text for text in texts) for key, texts in _WORDINGS.items()}
# Every sentence before the core begins with one word, and every sentence after it with another: whether one more comes
# is then decided by one token, and hardly changed by the temperature. Many rare first words would be sharpened away.
_BEFORE: Final = (
    "Now we go on.",
    "Now comes the next part.",
    "Now we look at this part of the story.",
    "Now we keep the total in mind and read on.",
    "Now one thing at a time, so we do this part.",
    "Now let us think about what {p} does here and what it means for the {o}.",
)
_AFTER: Final = (
    "Note that this is clear.",
    "Note that this part is done.",
    "Note that we keep this in mind.",
    "Note that it is good to write this down.",
    "Note that {p} would agree with that.",
    "Note that this is the total that we carry on.",
    "Note that this looks right, and we can move on with the story.",
    "Note how easy it is to take the wrong number when one reads too fast.",
    "Note how the other things in the story do not matter for this part.",
    "Note how it helps to picture the {o} on a table and to count them.",
    "Note how we do not have to think about this part of the story any more.",
    "Note how {p} would count the {o} one by one and come to the same number.",
)
_MAX_TOKENS: Final = 84
"""Sentences are added up to this length of a step, in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manner:
    """How wordy the steps of an answer are; the question says it, which correlates lengths of draft and target."""

    share: float
    """Of the problems that ask for it."""
    before: float
    """Probability of a sentence before the core."""
    more: float
    """Probability of one more sentence after the core, again and again: lengths vary as much as their mean."""


_MANNERS: Final[dict[Verbosity, _Manner]] = {
    "brief": _Manner(share=0.45, before=0.03, more=0.21),
    "normal": _Manner(share=0.25, before=0.12, more=0.60),
    "careful": _Manner(share=0.30, before=0.25, more=0.80),
}


def draw_verbosity(rng: np.random.Generator) -> Verbosity:
    """How wordy an answer shall be."""
    return tuple(_MANNERS)[int(rng.choice(len(_MANNERS), p=[manner.share for manner in _MANNERS.values()]))]


def n_tokens(text: str) -> int:
    """Tokens of a text of the language: words, numbers, and every other character that is no space."""
    return len(re.findall(r"[A-Za-z]+|[0-9]+|[^A-Za-z0-9\s]", text))


def _stated_before(meaning: Meaning) -> int | None:
    """The total before the operation, said or implied: wordings with {b} need it."""
    if meaning.before is not None or meaning.result is None:
        return meaning.before
    shift = {"add": -1, "subtract": 1}.get(meaning.operation or "")
    if shift is not None and meaning.operand is not None:
        return meaning.result + shift * meaning.operand
    return None


def render_step(meaning: Meaning, rng: np.random.Generator, *, name: str, noun: str, verbosity: Verbosity) -> str:
    """Draw one wording of a step.

    Parameters
    ----------
    meaning : what to say; wordings that state the total before need ``before``, or a sum from which it follows.
    rng : source of the wording.
    name, noun : person and things of the story, used by some wordings.
    verbosity : how many sentences besides the core to expect.

    Returns
    -------
    The step's text, without the separator; ``parse_step`` returns a meaning that agrees with `meaning`.
    """
    cores = _CORES[meaning.kind, meaning.operation]
    before = _stated_before(meaning)
    if before is None or not 0 <= before <= LAST_NUMBER:
        cores = tuple(core for core in cores if "{b}" not in core)
    if verbosity == "brief":
        cores = cores[:_N_BRIEF]
    manner = _MANNERS[verbosity]
    sentences = [_BEFORE[int(rng.integers(len(_BEFORE)))]] if rng.random() < manner.before else []
    sentences.append(cores[int(rng.integers(len(cores)))])
    for i in rng.permutation(len(_AFTER)).tolist():
        if rng.random() >= manner.more or n_tokens(" ".join([*sentences, _AFTER[i]])) > _MAX_TOKENS:
            break
        sentences.append(_AFTER[i])
    text = " ".join(sentences)
    month = None if meaning.month is None else MONTHS[meaning.month]
    return text.format(n=meaning.operand, b=before, r=meaning.result, o=noun, p=name, m=month)


_NUMBER: Final = r"(0|[1-9]\d?)"


def _pattern(template: str) -> str:
    """A regular expression of a template, numbers as named groups."""
    pattern = re.escape(template).replace(r"\ ", " ")
    for field in ("n", "b", "r"):
        pattern = pattern.replace(rf"\{{{field}\}}", f"(?P<{field}>{_NUMBER[1:-1]})")
    pattern = pattern.replace(r"\{m\}", f"(?P<m>{'|'.join(MONTHS)})")
    return pattern.replace(r"\{o\}", f"(?:{'|'.join(OBJECTS)})").replace(r"\{p\}", f"(?:{'|'.join(NAMES)})")


@functools.cache
def _grammar() -> tuple[re.Pattern[str], tuple[tuple[re.Pattern[str], Kind, Operation | None], ...]]:
    """(any filler sentence, each core wording with its kind and operation), compiled once."""
    filler = re.compile("|".join(f"(?:{_pattern(text)})" for text in (*_BEFORE, *_AFTER)))
    cores = tuple((re.compile(_pattern(text)), *key) for key, texts in _CORES.items() for text in texts)
    return filler, cores


def parse_step(step: str) -> Meaning | None:
    """The meaning of a step's text, or None where it is not well formed.

    Well formed is: sentences of the language separated by one space, exactly one of them a core sentence. White space
    around the step is ignored.
    """
    filler, cores = _grammar()
    parsed: Meaning | None = None
    for sentence in re.split(r"(?<=\.) ", step.strip()):
        if filler.fullmatch(sentence):
            continue
        meaning = next((_meaning(m, k, op) for p, k, op in cores if (m := p.fullmatch(sentence))), None)
        if meaning is None or parsed is not None:
            return None
        parsed = meaning
    return parsed


def _meaning(match: re.Match[str], kind: Kind, operation: Operation | None) -> Meaning:
    said = {key: value for key, value in match.groupdict().items() if value is not None}
    month = said.pop("m", None)
    number = {key: int(value) for key, value in said.items()}
    return Meaning(
        kind=kind,
        operation=operation,
        operand=number.get("n"),
        before=number.get("b"),
        result=number.get("r"),
        month=None if month is None else MONTHS.index(month),
    )


def telling_fragments() -> frozenset[str]:
    """Words that tell what a step does: those of core sentences that not every operation's wordings share."""

    def words(texts: Iterable[str]) -> set[str]:
        return {word for text in texts for word in re.findall(r"[A-Za-z]+", re.sub(r"\{\w\}", "", text))}

    operations = [
        words(text for (_, op), texts in _CORES.items() if op == operation for text in texts)
        for operation in get_args(Operation)
    ]
    cores = words(text for texts in _CORES.values() for text in texts)
    shared = operations[0].intersection(*operations)
    return frozenset(cores - shared - words((*_BEFORE, *_AFTER)))


def all_fragments() -> tuple[str, ...]:
    """Every template of the language: the tokenizer's vocabulary is built from these, not from a sample."""
    return (*(text for texts in _CORES.values() for text in texts), *_BEFORE, *_AFTER, *NAMES, *OBJECTS, *MONTHS)
