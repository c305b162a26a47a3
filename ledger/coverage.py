"""Which sentences of the papers the claims cover: each has the claims that it makes, or why nothing can check it.

The index, ``papers/PAPER/index.toml``, has a row for each run of sentences, displays or rows of tables with one answer:
the first words, which stand where the run begins in the section, the number of sentences, and the answer. The papers'
text is not part of the project. Headings, prompts and acknowledgements are left out.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ledger.texts import index_of

__all__ = ["DOCUMENTS", "REASONS", "Run", "runs", "sentences"]

DOCUMENTS: Final[Mapping[str, str]] = {
    "Lookahead Reasoning": "lookahead_reasoning/index",
    "its summary in Chinese": "lookahead_reasoning/index_of_summary",
    "Lookahead Decoding": "lookahead_decoding/index",
    "SPECS": "specs/index",
    "ConfSpec": "confspec/index",
}
"""Document -> its index in ``papers``."""

REASONS: Final[Mapping[str, str]] = {
    "defined": "introduces a name, an assumption, an algorithm or a design",
    "set-up": "says how something was measured or where it is shown",
    "cited": "says what others have shown or what is generally held",
    "plotted": "rests on a figure or a run whose numbers are not printed",
    "judged": "is an aim, an explanation or an opinion without a measure",
}
"""Answer of a run that makes no claim -> why nothing in the paper can check it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Sentences in a row with one answer."""

    section: str
    words: str
    """The first words, as in the paper."""
    sentences: int
    """At least 1; a display or a row of a table counts as one."""
    claims: tuple[str, ...]
    """Ids; empty where nothing can check it."""
    reason: str
    """A key of `REASONS`; empty where claims are named."""


@functools.cache
def runs(document: str) -> tuple[Run, ...]:
    """The index of a document, a key of `DOCUMENTS`, in its order."""
    return tuple(
        _run(section, words, count, answer)
        for section, rows in index_of(DOCUMENTS[document]).items()
        for words, count, answer in rows
    )


def _run(section: str, words: str, count: int, answer: str) -> Run:
    named = () if answer in REASONS else tuple(answer.split(", "))
    return Run(section=section, words=words, sentences=count, claims=named, reason="" if named else answer)


def sentences(document: str) -> Counter[str]:
    """Sentences by answer: ``'claims'`` or a key of `REASONS`."""
    counts: Counter[str] = Counter()
    for run in runs(document):
        counts[run.reason or "claims"] += run.sentences
    return counts
