"""The errata of a paper as Markdown."""

from __future__ import annotations

from ledger.errata.cause import Cause
from ledger.errata.errata import Errata, Found
from ledger.errata.prose import METHODS, SEVERITIES, formula, introduction, place, proof, where_it_fails
from ledger.readme import sentence

__all__ = ["markdown"]


def markdown(errata: Errata) -> str:
    """The whole document."""
    parts = [f"# Errata: {errata.paper}", _text(introduction(errata))]
    parts.append(f"**Main results.** {_text(errata.main_results)}")
    parts.append("\n".join(f"- *{name}*: {meaning}" for name, meaning in SEVERITIES.items()))
    parts.append(METHODS)
    parts += [_cause(number, cause, found) for number, (cause, found) in enumerate(errata.causes, 1)]
    if errata.sharper:
        parts.append("## What holds, sharper than printed or beyond the paper")
        parts += [_proof(found) for found in errata.sharper]
    parts.append("## What holds as printed")
    parts.append("\n".join(_line(found) for found in errata.holding))
    return "\n\n".join(parts)


def _cause(number: int, cause: Cause, found: tuple[Found, ...]) -> str:
    head = f"## {number}. {_text(cause.title)}\n\n*Severity*: {cause.severity.value}. "
    return "\n\n".join([f"{head}*What survives*: {_text(cause.stands)}", *map(_entry, found)])


def _entry(found: Found) -> str:
    claim, result = found.claim, found.result
    lines = [
        f"### {_text(place(found))} ({claim.id})",
        *([f"> {_words(found.claim.quotation)}"] if found.claim.quotation else []),
    ]
    lines.append(f"**Claim.** {_text(sentence(claim.statement))}")
    if shown := formula(found):
        lines.append(f"$${shown}$$")
    lines.append(f"*Range*: {_text(sentence(claim.assumptions))}")
    lines.append(f"**Where it fails.** {_text(where_it_fails(found))}")
    lines.append(f"**What holds.** {_text(sentence(claim.correction or ''))}")
    if result.correction is not None:
        lines.append(f"*Shown by*: {result.correction.method} ({result.correction.verdict.value}).")
    if claim.notes:
        lines.append(f"*Note*: {_text(claim.notes)}")
    return "\n\n".join(lines)


def _proof(found: Found) -> str:
    claim, evidence = found.claim, found.result.evidence
    lines = [f"### {_text(place(found))} ({claim.id})", _text(sentence(claim.statement))]
    if shown := formula(found):
        lines.append(f"$${shown}$$")
    lines.append(f"*Range*: {_text(sentence(claim.assumptions))}")
    lines.append(f"*Checked by machine*: {evidence.method} ({claim.verdict_text}).")
    first, *others = map(_text, proof(found))
    lines += [f"**Proof.** {first}", *others]
    return "\n\n".join([*lines, *([f"*Note*: {_text(claim.notes)}"] if claim.notes else [])])


def _line(found: Found) -> str:
    claim = found.claim
    statement = _text(sentence(claim.statement))
    return (
        f"- {claim.id}, {_text(place(found))}: {statement} *({claim.verdict_text}, by {found.result.evidence.method})*"
    )


def _text(text: str) -> str:
    """Plain words and formulas, as Markdown shows them unchanged."""
    return text.replace("**", "^").replace("*", r"\*").replace("_", r"\_").replace("|", r"\|").replace("<", r"\<")


def _words(quotation: str) -> str:
    """A quotation: its formulas, between dollars, stay as they are."""
    parts = quotation.split("$")
    return "$".join(part if i % 2 else _text(part) for i, part in enumerate(parts))
