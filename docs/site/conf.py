"""How Sphinx builds the documentation: `make docs`.

Texts elsewhere in the project are pages too: a page of one line, ``docs/reference/validation.md`` say, stands for the
file that it links to. Links and pictures are written for readers of the repository, and are rewritten here.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

project = "specplan"
html_title = "specplan"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
html_theme = "furo"
html_show_sphinx = False
html_copy_source = False
exclude_patterns = ["site"]
default_role = "py:obj"  # `name` in a docstring is one, where it can be found
suppress_warnings = ["ref.python"]  # several fields of one name: the name alone leads to the first
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = False
myst_heading_anchors = 6
myst_enable_extensions = ["attrs_block"]

STANDS_FOR = {
    "reference/validation": ROOT / "VALIDATION.md",
    "reference/architecture": ROOT / "ARCHITECTURE.md",
    "reference/changelog": ROOT / "CHANGELOG.md",
    "reference/claims": ROOT / "ledger/README.md",
    "reference/pair": ROOT / "calibrate/pair/README.md",
    "reference/readme": ROOT / "README.md",
}
"""Page to the text that is shown there."""

ERRATA = {
    "reference/errata-lookahead-reasoning": "lookahead_reasoning",
    "reference/errata-lookahead-decoding": "lookahead_decoding",
    "reference/errata-specs": "specs",
    "reference/errata-confspec": "confspec",
}
"""Page to the paper whose letter is derived and shown there, as `specplan theorems --errata` writes it."""

PICTURES = {
    "lookahead_reasoning": "![Three places where formulas fail as printed: floor of 1/c1, Lemma 5's w, budget 13]"
    "(../../figures/out/counterexamples.png)\n\n"
}
"""Paper to a picture of its errata that stands before them, where one says more than words."""

FORMULAS = "---\nmyst:\n  enable_extensions: [attrs_block, dollarmath]\n---\n\n"
"""The head of a page with formulas: elsewhere a dollar is a dollar."""

CONTENTS = """
```{toctree}
:hidden:
:caption: Tutorials
:glob:

tutorials/*
```

```{toctree}
:hidden:
:caption: Topics
:glob:

*
```

```{toctree}
:hidden:
:caption: Reference
:glob:

reference/*
```
"""

_PAGES = {path: page for page, path in STANDS_FOR.items()}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def errata(key: str) -> str:
    """The letter about a paper as a page."""
    from ledger.errata.letter import letter_of
    from ledger.errata.markdown import markdown

    text = markdown(letter_of(key))
    head, rest = text.split("\n\n## ", 1)
    return f"{FORMULAS}{head}\n\n{PICTURES.get(key, '')}## {rest}\n"


def _text(app: Any, page: str, source: list[str]) -> None:
    """Put the text that a page stands for in its place, and make its links those of the site."""
    if page in ERRATA:
        source[0] = errata(ERRATA[page])
        return
    path = STANDS_FOR.get(page, DOCS / f"{page}.md")
    text = path.read_text(encoding="utf-8") if page in STANDS_FOR else source[0]
    here = (DOCS / page).parent

    def link(found: re.Match[str]) -> str:
        picture, words, name, anchor = found[1], found[2], found[3], found[4] or ""
        if not name or re.match(r"[a-z]+:", name):
            return found[0]
        goal = (path.parent / name).resolve()
        if not picture and goal in _PAGES:
            goal = DOCS / f"{_PAGES[goal]}.md"
        if not picture and (goal.suffix != ".md" or not goal.is_relative_to(DOCS)):
            return words  # a file of the repository, not of the site
        return f"{picture}[{words}]({os.path.relpath(goal, here)}{anchor})"

    source[0] = _LINK.sub(link, text) + (CONTENTS if page == root_doc else "")


def setup(app: Any) -> None:
    """Hook in."""
    app.connect("source-read", _text)
