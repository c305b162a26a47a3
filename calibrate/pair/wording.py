"""The language of the bundled pair's task: the meaning of a reasoning step, its wordings, and their parser.

A step has filler sentences around a core sentence. Only the core has numbers, so a step's meaning does not depend on
its random wording, and the parser recovers it exactly. So semantic acceptance (same meaning) differs from token
equality (same words), and ground truth is computable.
"""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass
from typing import Final, Literal

__all__ = [
    "AFTER",
    "BEFORE",
    "CORES",
    "LAST_NUMBER",
    "MONTHS",
    "NAMES",
    "OBJECTS",
    "VERBS",
    "Kind",
    "Meaning",
    "Operation",
    "Verbosity",
    "parse_step",
    "verbosity_at",
]

Kind = Literal["start", "operation", "final"]
Operation = Literal["add", "subtract", "double"]
Verbosity = Literal["brief", "normal", "careful"]

LAST_NUMBER: Final = 99
"""Every number of the language lies in 0..LAST_NUMBER and is one token."""

NAMES: Final = ("Mia", "Tom", "Ada", "Ben", "Eva", "Leo", "Ida", "Max", "Zoe", "Sam", "Amy", "Jan")
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
"""Months of a story: it begins in January and has an operation in each later month; a step names its month."""
OBJECTS: Final = (
    *("apples", "books", "coins", "shells", "cards", "stamps"),
    *("pears", "beads", "stones", "pens", "plums", "balls"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """Meaning of a step; two wordings of the same content have compatible meanings (:meth:`agrees_with`)."""

    kind: Kind
    """``start`` states the first number, ``operation`` applies an operation, ``final`` gives the answer."""
    operation: Operation | None = None
    """The applied operation; None for start and final."""
    operand: int | None = None
    """The number added or subtracted; None for double, start and final."""
    before: int | None = None
    """The total before the operation if the wording states it."""
    result: int | None = None
    """The running total when the step is done: after the operation, the first number, or the answer."""
    month: int | None = None
    """Month of the story, from 0 for January, the first; None for final."""

    def agrees_with(self, other: Meaning) -> bool:
        """Whether both mean the same; a total before the operation counts only if both state it."""
        both_before = self.before is None or other.before is None or self.before == other.before
        mine, others = ((one.kind, one.operation, one.operand, one.result, one.month) for one in (self, other))
        return both_before and mine == others


VERBS: Final[dict[Operation, tuple[str, ...]]] = {
    "add": ("brings", "adds", "yields", "gives"),
    "subtract": ("takes", "costs", "removes", "claims"),
    "double": ("doubles",),
}
"""Operation on the total -> verbs of the story for it."""
_EVENT: Final = "So {m} {v}: "
_BEGINNING: Final = "In {m}: "
"""Beginning of every core except the final step's: the month and the verb of the story. The verb follows the month in
story and step, and months follow a word, so that both are the same tokens: a small model learns to copy them."""
# Fields: {n} operand, {b} total before, {r} total after, {o} a noun of the story. Short wordings first, which brief
# answers draw from. A step's last number is always its total: a small model learns to copy the last number, but hardly
# any other.
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
    ("final", None): (
        "All in all it is {r}.",
        "All told, the answer is {r}.",
        "All together that makes {r}.",
        "All of the story is told, so the answer is {r}.",
        "All is done that there was to do, and the answer is {r} {o}.",
        "All that was left is done, and so the number of {o} is {r}.",
    ),
}
CORES: Final = {
    key: tuple({"start": _BEGINNING, "final": ""}.get(key[0], _EVENT) + text for text in texts)
    for key, texts in _WORDINGS.items()
}
# Every sentence before the core begins with the same word, and every sentence after it with another: so a single token
# decides whether another sentence follows, almost independent of temperature, which would suppress rare first words.
BEFORE: Final = (
    "Now we go on.",
    "Now comes the next part.",
    "Now we look at this part of the story.",
    "Now we keep the total in mind and read on.",
    "Now one thing at a time, so we do this part.",
    "Now let us think about what {p} does here and what it means for the {o}.",
)
# Each repeats month and total, so that both are near the end of a step of any length.
AFTER: Final = (
    "Note that {m} ends with {r}.",
    "Note that {m} is done and leaves {r}.",
    "Note that {m} is clear and we have {r}.",
    "Note that {p} would agree that {m} leaves {r}.",
    "Note that after {m} it is good to write down {r}.",
    "Note that the total that we carry on from {m} is {r}.",
    "Note that {m} looks right, and we can move on with {r} {o}.",
    "Note how easy it is to read {m} too fast and to take a number other than {r}.",
    "Note how the other things in the story do not matter for {m} and its {r} {o}.",
    "Note how it helps in {m} to picture the {o} on a table and to count {r}.",
    "Note how we do not have to think about {m} any more, but only about {r} {o}.",
    "Note how {p} would count the {o} of {m} one by one and come to {r} as well.",
)
_SHARES: Final[dict[Verbosity, float]] = {"brief": 0.45, "normal": 0.25, "careful": 0.30}
"""Share of the problems with each verbosity; the question states it, which correlates lengths of draft and target."""


def verbosity_at(u: float) -> Verbosity:
    """The quantile at ``u`` in [0, 1) of the verbosity of answers, from brief to careful."""
    ends = itertools.accumulate(_SHARES.values())
    return next((name for name, end in zip(_SHARES, ends, strict=True) if u < end), tuple(_SHARES)[-1])


_NUMBER: Final = r"(0|[1-9]\d?)"


def _pattern(template: str, operation: Operation | None = None) -> str:
    """A regular expression of a template, with numbers as named groups and the verbs of `operation`."""
    pattern = re.escape(template).replace(r"\ ", " ")
    for field in ("n", "b", "r"):
        pattern = pattern.replace(rf"\{{{field}\}}", f"(?P<{field}>{_NUMBER[1:-1]})")
    pattern = pattern.replace(r"\{m\}", f"(?P<m>{'|'.join(MONTHS)})")
    pattern = pattern.replace(r"\{v\}", f"(?:{'|'.join(VERBS[operation] if operation else ())})")
    return pattern.replace(r"\{o\}", f"(?:{'|'.join(OBJECTS)})").replace(r"\{p\}", f"(?:{'|'.join(NAMES)})")


@functools.cache
def _grammar() -> tuple[
    re.Pattern[str], tuple[re.Pattern[str], ...], tuple[tuple[re.Pattern[str], Kind, Operation | None], ...]
]:
    """Compiled patterns: sentences before a core, sentences after it, and each core with its kind and operation."""
    before = re.compile("|".join(f"(?:{_pattern(text)})" for text in BEFORE))
    after = tuple(re.compile(_pattern(text)) for text in AFTER)
    cores = tuple((re.compile(_pattern(text, key[1])), *key) for key, texts in CORES.items() for text in texts)
    return before, after, cores


def parse_step(step: str) -> Meaning | None:
    """The meaning of a step's text, or None where it is not well formed.

    A step is well formed if it has sentences of the language separated by one space, exactly one of them a core
    sentence, and every repeated month and total equals the core's. White space around the step is ignored.
    """
    before, after, cores = _grammar()
    parsed: Meaning | None = None
    for sentence in re.split(r"(?<=\.) ", step.strip()):
        if before.fullmatch(sentence):
            continue
        again = next((match for pattern in after if (match := pattern.fullmatch(sentence))), None)
        if again is not None:
            if (
                parsed is None
                or parsed.month is None
                or (again["m"], again["r"]) != (MONTHS[parsed.month], str(parsed.result))
            ):
                return None
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
