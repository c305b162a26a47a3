"""The texts of the ledger: what each claim says and where, the letters to the authors, the index of sentences.

They are data, ``papers/PAPER/*.toml``: a table for each claim, in a file of the name of the module that proves it,
``errata.toml`` with what the letter to the authors says, and ``index.toml`` with the sentences of the paper. A text may
be wrapped, with an empty line between paragraphs.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from theory.errors import ParameterError

__all__ = ["PAPERS", "claim_ids", "errata", "index_of", "text_of"]

PAPERS: Final[Mapping[str, str]] = {
    "lookahead_reasoning": "Lookahead Reasoning",
    "lookahead_decoding": "Lookahead Decoding",
    "specs": "SPECS",
    "confspec": "ConfSpec",
}
"""Folder -> paper, in the order of the ledger."""
_FOLDER: Final = Path(__file__).with_name("papers")
_ERRATA: Final = "errata.toml"
_OTHER: Final = (_ERRATA, "index.toml", "index_of_summary.toml")
"""Files that hold no claims."""


def text_of(claim_id: str) -> dict[str, Any]:
    """Fields of a `ledger.ledger.Claim` that are text, and its formulas as tables.

    Raises
    ------
    ParameterError : no file holds a claim with this id.
    """
    if claim_id not in _texts():
        raise ParameterError("id", claim_id, "must be a table of a file in ledger/papers: add its statement there")
    return dict(_texts()[claim_id])


def claim_ids() -> tuple[str, ...]:
    """Ids of all claims that have a text."""
    return tuple(_texts())


def errata(paper: str) -> dict[str, Any]:
    """``survives``, ``findings`` and ``sharper`` of a paper, a key of `PAPERS`."""
    return _read(_FOLDER / paper / _ERRATA)


def index_of(name: str) -> dict[str, list[tuple[str, int, str]]]:
    """Section -> first words, sentences and answer of each run; ``name`` as in `ledger.coverage.DOCUMENTS`."""
    return _read(_FOLDER / f"{name}.toml")


@functools.cache
def _texts() -> Mapping[str, Mapping[str, Any]]:
    texts: dict[str, Mapping[str, Any]] = {}
    for folder in PAPERS:
        for path in sorted((_FOLDER / folder).rglob("*.toml")):
            for claim_id, table in {} if path.name in _OTHER else _read(path).items():
                if claim_id in texts:
                    raise ParameterError("id", claim_id, "must be unique in the ledger")
                texts[claim_id] = {"folder": folder, **table}
    return texts


def _read(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = _unwrapped(tomllib.loads(path.read_text(encoding="utf-8")))
    return table


def _unwrapped(value: Any) -> Any:
    """The same with the lines of each paragraph joined."""
    if isinstance(value, dict):
        return {key: _unwrapped(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_unwrapped(each) for each in value]
    return "\n\n".join(" ".join(part.split()) for part in value.split("\n\n")) if isinstance(value, str) else value
