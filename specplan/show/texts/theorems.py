"""Claims and verdicts as text: a first screen of 80 columns, and a single claim in full."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from specplan.output import SCREEN, table

if TYPE_CHECKING:
    from ledger.ledger import Claim, Evidence, Testable
    from ledger.runner import Verification

__all__ = ["coverage_screen", "first_screen", "one_claim", "summary"]

_GRAVEST: Final = 3
"""Findings of a paper on the first screen."""
_WIDE: Final = 200
"""Characters of a line of a claim in full: formulas are not broken."""


def summary(chosen: Sequence[Claim], results: Mapping[str, Verification]) -> str:
    """Return how many claims hold as printed, and whether the derived verdicts agree."""
    counts = Counter(item.verdict.value for item in chosen)
    verdicts = ", ".join(f"{n} {name}" for name, n in counts.most_common())
    wrong = sum(item.needs_correction for item in chosen)
    unknown = counts["open"]
    text = f"{len(chosen) - wrong - unknown} of {len(chosen)} claims hold as printed, {wrong} do not"
    text += f", {unknown} are open" if unknown else ""
    text += f": {verdicts}." if verdicts else "."
    return f"{text} {_agreement(results)}." if results else text


def _agreement(results: Mapping[str, Verification]) -> str:
    agreeing = sum(result.agrees for result in results.values())
    work = sum(result.seconds for result in results.values())
    return f"{agreeing} of {len(results)} derived verdicts agree with the record ({work:.1f} s of work)"


def first_screen(chosen: Sequence[Claim], results: Mapping[str, Verification]) -> str:
    """Return the verdicts in 80 columns: totals, and the gravest findings of whole papers or else each claim."""
    blocks = [textwrap.fill(summary(chosen, results), SCREEN)]
    papers = _whole_papers(chosen)
    if len({item.paper for item in chosen}) > 1:
        blocks.append(_by_paper(chosen))
    listed = [item for item in chosen if not papers or (item.id in results and not results[item.id].agrees)]
    if listed:
        blocks.append(_list(listed, results))
    blocks += ["\n".join(map(_gravest, papers))] if papers else []
    blocks += ["Every claim: -v. One in full: specplan theorems ID."] if chosen else []
    return "\n\n".join(blocks)


def _whole_papers(chosen: Sequence[Claim]) -> tuple[str, ...]:
    """The papers of which all claims are chosen; none if some are chosen of another."""
    from ledger.ledger import PAPERS, claims

    ids = {item.id for item in chosen}
    papers = {item.paper for item in chosen}
    whole = ids == {item.id for item in claims() if item.paper in papers}
    return tuple(paper for paper in PAPERS.values() if paper in papers) if whole else ()


def _gravest(paper: str) -> str:
    """The first findings of the letter to the paper's authors, each with the claim that shows it."""
    from ledger.errata.letter import FINDINGS, paper_key

    findings = FINDINGS[paper_key(paper)][:_GRAVEST]
    width = max(len(each.claims[0]) for each in findings) + 4
    wrapped = (
        textwrap.fill(
            each.title, SCREEN, initial_indent=f"  {each.claims[0]}".ljust(width), subsequent_indent=" " * width
        )
        for each in findings
    )
    return "\n".join([f"{paper}, the gravest:", *wrapped])


def _by_paper(chosen: Sequence[Claim]) -> str:
    verdicts = list(dict.fromkeys(item.verdict.value for item in chosen))
    rows = []
    for paper in dict.fromkeys(item.paper for item in chosen):
        counts = Counter(item.verdict.value for item in chosen if item.paper == paper)
        rows.append([paper, str(counts.total()), *(str(counts[name]) for name in verdicts)])
    return table(["paper", "claims", *verdicts], rows)


def _list(chosen: Sequence[Claim], results: Mapping[str, Verification]) -> str:
    rows = []
    for item in chosen:
        result = results.get(item.id)
        differs = "" if result is None or result.agrees else f"DIFFERS, derived: {result.evidence.verdict.value}. "
        rows.append([item.id, item.verdict.value, differs + item.statement])
    return table(["id", "verdict", "statement"], rows, width=SCREEN)


def coverage_screen() -> str:
    """Return how many sentences of each paper make a claim that is tested, and why the others make none."""
    from ledger.coverage import DOCUMENTS, REASONS, runs, sentences

    answers = ["claims", *REASONS]
    counts = {document: sentences(document) for document in DOCUMENTS}
    rows = [[name, str(n.total()), *(str(n[answer]) for answer in answers)] for name, n in counts.items()]
    total = sum(counts.values(), Counter[str]())
    rows.append(["all", str(total.total()), *(str(total[answer]) for answer in answers)])
    named = {name for document in DOCUMENTS for run in runs(document) for name in run.claims}
    share = total["claims"] / total.total()
    lead = (
        f"Each of {total.total()} sentences, displays and rows of tables has an answer: "
        f"{total['claims']} ({share:.0%}) make {len(named)} claims that are tested, and nothing in the paper can check "
        "the others:"
    )
    why = [f"  {answer:<8} it {meaning}" for answer, meaning in REASONS.items()]
    return "\n\n".join([textwrap.fill(lead, SCREEN), "\n".join(why), table(["document", "all", *answers], rows)])


def one_claim(item: Claim, result: Verification) -> str:
    """Return everything about one claim."""
    rows: list[tuple[str, str]] = [("source", item.source), ("statement", item.statement)]
    if item.expression is not None:
        rows.append(("expression", str(item.expression())))
    rows.append(("assumptions", item.assumptions))
    rows += _formula_rows("", item.formula)
    if item.no_formula:
        rows.append(("no formula", item.no_formula))
    rows.append(("verdict", item.verdict_text))
    rows += _evidence_rows("derived", result.evidence)
    rows += [] if result.finding is None else [("searched", str(result.finding))]
    if item.correction:
        rows.append(("correction", item.correction))
    rows += _formula_rows("correction ", item.correction_formula)
    if result.correction is not None:
        rows += _evidence_rows("correction derived", result.correction)
    rows += [] if result.correction_finding is None else [("correction searched", str(result.correction_finding))]
    rows += [(f"mutant {mutant.name}", mutant.what_changed) for mutant in item.mutants]
    if item.notes:
        rows.append(("notes", item.notes))
    rows.append(("time", f"{result.seconds:.2f} s"))
    width = max(len(name) for name, _ in rows) + 2
    rest = " " * width
    lines = (
        textwrap.fill(
            value or "–", _WIDE, initial_indent=name.ljust(width), subsequent_indent=rest, break_long_words=False
        )
        for name, value in rows
    )
    return "\n".join([item.id, *lines])


def _formula_rows(name: str, formula: Testable | None) -> list[tuple[str, str]]:
    """The checked formula and its domain."""
    return [] if formula is None else [(f"{name}formula", formula.text), (f"{name}domain", formula.where)]


def _evidence_rows(name: str, evidence: Evidence) -> list[tuple[str, str]]:
    """Verdict, method, detail and counterexample of one derivation."""
    rows = [(name, f"{evidence.verdict.value}, by {evidence.method}")]
    rows.append(("", evidence.detail))
    if evidence.counterexample:
        at = ", ".join(f"{key} = {value}" for key, value in evidence.counterexample.items())
        rows.append(("counterexample", at))
    if evidence.effort:
        rows.append(("effort", ", ".join(f"{key} {value}" for key, value in sorted(evidence.effort.items()))))
    return rows
