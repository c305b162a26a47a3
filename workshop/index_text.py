"""Compare the index of a paper's sentences with the paper's text, which is not part of the project.

``python -m workshop.index_text SPECS specs.txt`` prints the runs of the index whose first words the text does not have
in their place, and exits with 1 if there is one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ledger.coverage import DOCUMENTS, Run, runs

__all__ = ["main", "misplaced"]


def main(document: str, path: str) -> int:
    """Print what is missing."""
    missing = misplaced(document, Path(path).read_text(encoding="utf-8"))
    for run in missing:
        print(f"{run.section}: {run.words}")
    print(f"{len(runs(document)) - len(missing)} of {len(runs(document))} runs of {document} are in their place")
    return bool(missing)


def misplaced(document: str, text: str) -> list[Run]:
    """The runs whose first words do not come after those of the run before in the paper's text."""
    plain, at, missing = _plain(text), 0, []
    for run in runs(document):
        begin = plain.find(_plain(run.words), at)
        if begin < 0:
            missing.append(run)
        else:
            at = begin + 1
    return missing


def _plain(text: str) -> str:
    """The text without white space, emphasis and mark-up of headings, which conversions put in at will."""
    return "".join(character for character in text if not character.isspace() and character not in "*#$•")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in DOCUMENTS:
        sys.exit(f"usage: python -m workshop.index_text DOCUMENT FILE; DOCUMENT is one of {', '.join(DOCUMENTS)}")
    sys.exit(main(*sys.argv[1:]))
