"""The errata of a paper as a LaTeX article that needs no package but those of the AMS."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.errata.cause import Cause
from ledger.errata.errata import Errata, Found
from ledger.errata.inline_math import typeset
from ledger.errata.prose import METHODS, SEVERITIES, formula, introduction, place, proof, where_it_fails
from ledger.readme import sentence

__all__ = ["latex"]

_HEAD = "\\documentclass[11pt]{article}\n\\usepackage{amsmath,amssymb}\n\\sloppy\n"


def latex(errata: Errata) -> str:
    """The whole document."""
    parts = [f"{_HEAD}\\title{{Errata: {typeset(errata.paper)}}}\n\\date{{}}\n\\begin{{document}}\n\\maketitle"]
    parts.append(typeset(introduction(errata)))
    parts.append(f"\\textbf{{Main results.}} {typeset(errata.main_results)}")
    parts.append(_list(f"\\emph{{{name}}}: {typeset(meaning)}" for name, meaning in SEVERITIES.items()))
    parts.append(typeset(METHODS))
    parts += [_cause(cause, found) for cause, found in errata.causes]
    if errata.sharper:
        parts.append("\\section{What holds, sharper than printed or beyond the paper}")
        parts += [_proof(found) for found in errata.sharper]
    parts.append("\\section{What holds as printed}")
    parts.append(_list(_line(found) for found in errata.holding))
    return "\n\n".join([*parts, "\\end{document}"])


def _cause(cause: Cause, found: tuple[Found, ...]) -> str:
    head = f"\\section{{{typeset(cause.title)}}}\n\\emph{{Severity}}: {cause.severity.value}. "
    return "\n\n".join([f"{head}\\emph{{What survives}}: {typeset(cause.stands)}", *map(_entry, found)])


def _entry(found: Found) -> str:
    claim, result = found.claim, found.result
    lines = [_heading(found), *_words(found.claim.quotation)]
    lines += [f"\\textbf{{Claim.}} {typeset(sentence(claim.statement))}", *_formula(found)]
    lines.append(f"\\emph{{Range}}: {typeset(sentence(claim.assumptions))}")
    lines.append(f"\\textbf{{Where it fails.}} {typeset(where_it_fails(found))}")
    lines.append(f"\\textbf{{What holds.}} {typeset(sentence(claim.correction or ''))}")
    if result.correction is not None:
        lines.append(f"\\emph{{Shown by}}: {typeset(result.correction.method)} ({result.correction.verdict.value}).")
    return "\n\n".join([*lines, *([f"\\emph{{Note}}: {typeset(claim.notes)}"] if claim.notes else [])])


def _proof(found: Found) -> str:
    claim, evidence = found.claim, found.result.evidence
    lines = [_heading(found), typeset(sentence(claim.statement)), *_formula(found)]
    lines.append(f"\\emph{{Range}}: {typeset(sentence(claim.assumptions))}")
    lines.append(f"\\emph{{Checked by machine}}: {typeset(evidence.method)} ({typeset(claim.verdict_text)}).")
    first, *others = map(typeset, proof(found))
    lines += [f"\\textbf{{Proof.}} {first}", *others]
    return "\n\n".join([*lines, *([f"\\emph{{Note}}: {typeset(claim.notes)}"] if claim.notes else [])])


def _words(quotation: str) -> list[str]:
    """A quotation, if there is one: its formulas, between dollars, stay as they are."""
    parts = quotation.split("$")
    text = "$".join(part if i % 2 else typeset(part) for i, part in enumerate(parts))
    return [f"\\begin{{quote}}\n{text}\n\\end{{quote}}"] if quotation else []


def _heading(found: Found) -> str:
    return f"\\subsection*{{{typeset(place(found))} ({found.claim.id})}}"


def _formula(found: Found) -> list[str]:
    return [f"\\[ {shown} \\]"] if (shown := formula(found)) else []


def _line(found: Found) -> str:
    claim = found.claim
    how = typeset(f"({claim.verdict_text}, by {found.result.evidence.method})")
    return f"{claim.id}, {typeset(place(found))}: {typeset(sentence(claim.statement))} \\emph{{{how}}}"


def _list(items: Iterable[str]) -> str:
    lines = "\n".join(f"\\item {item}" for item in items)
    return f"\\begin{{itemize}}\n{lines}\n\\end{{itemize}}"
