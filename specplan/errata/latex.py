"""The errata of a paper as a LaTeX article that needs no package but those of the AMS."""

from __future__ import annotations

import re
from collections.abc import Iterable

from specplan.errata.cause import Cause
from specplan.errata.errata import Errata, Found
from specplan.errata.prose import SEVERITIES, formula, introduction, place, trial
from theory.claims.readme import decimals, sentence

__all__ = ["latex"]

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_PATTERN = re.compile("|".join(map(re.escape, _SPECIAL)))
_HEAD = "\\documentclass[11pt]{article}\n\\usepackage{amsmath,amssymb}\n\\sloppy\n"


def latex(errata: Errata) -> str:
    """The whole document."""
    parts = [f"{_HEAD}\\title{{Errata: {_text(errata.paper)}}}\n\\date{{}}\n\\begin{{document}}\n\\maketitle"]
    parts.append(_text(introduction(errata)))
    parts.append(f"\\textbf{{Main results.}} {_text(errata.main_results)}")
    parts.append(_list(f"\\emph{{{name}}}: {_text(meaning)}" for name, meaning in SEVERITIES.items()))
    parts += [_cause(cause, found) for cause, found in errata.causes]
    if errata.sharper:
        parts.append("\\section{What holds, sharper than printed or beyond the paper}")
        parts += [_proof(found) for found in errata.sharper]
    parts.append("\\section{What holds as printed}")
    parts.append(_list(_line(found) for found in errata.holding))
    return "\n\n".join([*parts, "\\end{document}"])


def _cause(cause: Cause, found: tuple[Found, ...]) -> str:
    head = f"\\section{{{_text(cause.title)}}}\n\\emph{{Severity}}: {cause.severity.value}. "
    return "\n\n".join([f"{head}\\emph{{What survives}}: {_text(cause.stands)}", *map(_entry, found)])


def _entry(found: Found) -> str:
    claim, result = found.claim, found.result
    lines = [_heading(found), *_words(found.words)]
    lines += [f"\\textbf{{Claim.}} {_text(sentence(claim.statement))}", *_formula(found)]
    lines.append(f"\\emph{{Range}}: {_text(sentence(claim.assumptions))}")
    tested, fails = trial(found)
    lines += [f"\\emph{{Tested}}: {_text(tested)}"] if tested else []
    lines.append(f"\\textbf{{Where it fails.}} {_text(fails)}")
    lines.append(f"\\textbf{{What holds.}} {_text(sentence(claim.correction or ''))}")
    if result.correction is not None:
        lines.append(f"\\emph{{Shown by}}: {_text(result.correction.method)} ({result.correction.verdict.value}).")
    return "\n\n".join([*lines, *([f"\\emph{{Note}}: {_text(claim.notes)}"] if claim.notes else [])])


def _proof(found: Found) -> str:
    claim, evidence = found.claim, found.result.evidence
    lines = [_heading(found), _text(sentence(claim.statement)), *_formula(found)]
    lines.append(f"\\emph{{Range}}: {_text(sentence(claim.assumptions))}")
    lines.append(f"\\emph{{{_text(claim.verdict_text)}}}, by {_text(evidence.method)}.")
    lines.append(f"\\textbf{{Proof.}} {_text(decimals(sentence(evidence.detail)))}")
    return "\n\n".join([*lines, *([_text(claim.notes)] if claim.notes else [])])


def _words(quotation: str) -> list[str]:
    """A quotation, if there is one: its formulas, between dollars, stay as they are."""
    parts = quotation.split("$")
    text = "$".join(part if i % 2 else _text(part) for i, part in enumerate(parts))
    return [f"\\begin{{quote}}\n{text}\n\\end{{quote}}"] if quotation else []


def _heading(found: Found) -> str:
    return f"\\subsection*{{{_text(place(found))} ({found.claim.id})}}"


def _formula(found: Found) -> list[str]:
    return [f"\\[ {shown} \\]"] if (shown := formula(found)) else []


def _line(found: Found) -> str:
    claim = found.claim
    how = _text(f"({claim.verdict_text}, by {found.result.evidence.method})")
    return f"{claim.id}, {_text(place(found))}: {_text(sentence(claim.statement))} \\emph{{{how}}}"


def _list(items: Iterable[str]) -> str:
    lines = "\n".join(f"\\item {item}" for item in items)
    return f"\\begin{{itemize}}\n{lines}\n\\end{{itemize}}"


def _text(text: str) -> str:
    """Plain words and formulas, each special character as LaTeX prints it."""
    return _PATTERN.sub(lambda found: _SPECIAL[found.group()], text.replace("**", "^"))
