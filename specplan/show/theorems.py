"""Reports of the ledger of claims: which hold as printed, which do not, and their corrections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from specplan.show.page import Answer, Report, Section, Table, filled

if TYPE_CHECKING:
    from ledger.ledger import Claim
    from ledger.runner import Verification

__all__ = ["theorems_report"]


def theorems_report(chosen: Sequence[Claim], results: Mapping[str, Verification]) -> Report:
    """Return the report of claims, with the verdicts that were derived in this run, if any."""
    wrong = [item for item in chosen if item.needs_correction]
    counts = Counter(item.verdict.value for item in chosen)
    papers = dict.fromkeys(item.paper for item in chosen)
    agreeing = sum(result.agrees for result in results.values())
    derived = (
        f"{agreeing} of {len(results)} newly derived verdicts agree with the record"
        if results
        else "as recorded; --verify derives them again"
    )
    sections = [_overview(chosen, list(papers))]
    if wrong:
        sections.append(Section(title="What does not hold as printed", parts=[_corrections(wrong)]))
    sections += [Section(title=paper, parts=[_claims(chosen, paper, results)]) for paper in papers]
    return Report(
        title="Claims of the papers, checked by machine",
        about=", ".join(papers) or "no claims",
        lead=f"{len(chosen)} claims: " + ", ".join(f"{count} {name}" for name, count in counts.most_common()) + ".",
        answers=[
            Answer(
                question="What holds as printed?",
                answer=f"{len(chosen) - len(wrong) - counts['open']} of {len(chosen)} claims",
                detail="proved, verified for the stated cases, or shown numerically",
            ),
            Answer(
                question="What does not?",
                answer=f"{len(wrong)} claims",
                detail="false, or proved only with the stated correction",
            ),
            Answer(question="How sure?", answer=derived, detail="each check has mutants that it must reject"),
        ],
        sections=sections,
        made=[("verdicts", derived)],
        notes=["a claim is judged as printed; proofs are symbolic, or in ball arithmetic"],
    )


def _overview(chosen: Sequence[Claim], papers: Sequence[str]) -> Section:
    verdicts = list(dict.fromkeys(item.verdict.value for item in chosen))
    rows = [
        [paper, *(str(sum(c.paper == paper and c.verdict.value == name for c in chosen)) for name in verdicts)]
        for paper in papers
    ]
    return Section(title="By paper", parts=[Table(headings=["paper", *verdicts], rows=rows)])


def _corrections(wrong: Sequence[Claim]) -> Table:
    from ledger.errata.letter import severity_of

    rows = [[c.id, severity_of(c.id) or "–", c.source, c.statement, c.correction or "–"] for c in wrong]
    return Table(headings=["id", "severity", "source", "as printed", "what holds"], rows=rows)


def _claims(chosen: Sequence[Claim], paper: str, results: Mapping[str, Verification]) -> Table:
    items = [item for item in chosen if item.paper == paper]
    derived = [results.get(item.id) for item in items]
    return filled(
        ("id", [item.id for item in items]),
        ("source", [item.source for item in items]),
        ("verdict", [item.verdict_text for item in items]),
        ("shown by", ["–" if one is None else _method(one) for one in derived]),
        ("fails at", ["–" if one is None else _slack(one) for one in derived]),
        ("seconds", ["–" if one is None else f"{one.seconds:.2f}" for one in derived]),
        ("statement", [item.statement for item in items]),
        ("assumptions", [item.assumptions for item in items]),
        folded=f"all {len(items)} claims" if len(chosen) > 12 else "",
    )


def _slack(result: Verification) -> str:
    """How much more than the statement that holds fails, and so how far the search came."""
    finding = result.correction_finding or result.finding
    return "–" if finding is None or not finding.slack else finding.slack


def _method(result: Verification) -> str:
    return result.evidence.method + ("" if result.agrees else f"; DIFFERS: {result.evidence.verdict.value}")
