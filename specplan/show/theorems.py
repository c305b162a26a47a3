"""Claims and verdicts: a first screen of 80 columns, a single claim in full, how much is covered, and the report."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from ledger.errata.letter import FINDINGS, paper_key, severity_of
from ledger.ledger import PAPERS, claims
from specplan.output import SCREEN, table
from specplan.show.page import Answer, Report, Section, Table, filled
from specplan.show.rendering import as_text
from specplan.show.result import Result

if TYPE_CHECKING:
    from ledger.ledger import Claim, Evidence, Testable
    from ledger.runner import Verification

__all__ = ["Theorems", "coverage_screen"]

_GRAVEST: Final = 3
"""Findings of a paper on the first screen."""
_WIDE: Final = 200
"""Characters of a line of a claim in full: formulas are not broken."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Theorems(Result):
    """Claims as printed in the papers, and what is known about them."""

    claims: tuple[Claim, ...]
    derived: Mapping[str, Verification]
    """What was derived now, by the id of the claim."""
    in_full: bool
    """The result is one claim, with its evidence."""

    @property
    def differing(self) -> tuple[str, ...]:
        """Ids whose derived verdict is not the recorded one."""
        return tuple(name for name, result in self.derived.items() if not result.agrees)

    def conclude(self) -> None:
        """Exit with 1 where derived verdicts differ from the record."""
        if self.differing:
            click.echo(f"specplan: derived verdicts differ from the record: {', '.join(self.differing)}", err=True)
            raise click.exceptions.Exit(1)

    def headline(self) -> str:
        """Return how many claims hold as printed, and whether the derived verdicts agree."""
        counts = Counter(item.verdict.value for item in self.claims)
        verdicts = ", ".join(f"{n} {name}" for name, n in counts.most_common())
        wrong = sum(item.needs_correction for item in self.claims)
        unknown = counts["open"]
        text = f"{len(self.claims) - wrong - unknown} of {len(self.claims)} claims hold as printed, {wrong} do not"
        text += f", {unknown} are open" if unknown else ""
        text += f": {verdicts}." if verdicts else "."
        if not self.derived:
            return text
        agreeing = sum(result.agrees for result in self.derived.values())
        work = sum(result.seconds for result in self.derived.values())
        return (
            f"{text} {agreeing} of {len(self.derived)} derived verdicts agree with the record ({work:.1f} s of work)."
        )

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each claim."""
        return [
            {
                **{"id": one.id, "paper": one.paper, "source": one.source, "verdict": one.verdict.value},
                **{"severity": _severity(one), "statement": one.statement, "correction": one.correction},
                **({"agrees": self.derived[one.id].agrees} if one.id in self.derived else {}),
            }
            for one in self.claims
        ]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan theorems --json`` prints."""
        claims = [_plain(one, self.derived.get(one.id), full=self.in_full) for one in self.claims]
        return {"schema": "specplan.theorems", "schema_version": 1, "claims": claims}

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan theorems`` prints, with ``verbose`` what it prints with ``-v``."""
        if self.in_full:
            return _one_claim(self.claims[0], self.derived[self.claims[0].id])
        return as_text(self.report()) if verbose else _first_screen(self)

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        chosen, results = self.claims, self.derived
        wrong = [item for item in chosen if item.needs_correction]
        counts = Counter(item.verdict.value for item in chosen)
        papers = dict.fromkeys(item.paper for item in chosen)
        agreeing = sum(result.agrees for result in results.values())
        derived = (
            f"{agreeing} of {len(results)} newly derived verdicts agree with the record"
            if results
            else "as recorded; --verify derives them again"
        )
        headings, rows = _by_paper(chosen)
        overview = Table([headings[0], *headings[2:]], [[name, *counts[1:]] for name, *counts in rows])
        sections = [Section("By paper", [overview])]
        if wrong:
            off = [[c.id, severity_of(c.id) or "–", c.source, c.statement, c.correction or "–"] for c in wrong]
            corrections = Table(["id", "severity", "source", "as printed", "what holds"], off)
            sections.append(Section("What does not hold as printed", [corrections]))
        sections += [Section(paper, [_table_of(chosen, paper, results)]) for paper in papers]
        return Report(
            title="Claims of the papers, checked by machine",
            about=", ".join(papers) or "no claims",
            lead=f"{len(chosen)} claims: " + ", ".join(f"{count} {name}" for name, count in counts.most_common()) + ".",
            answers=[
                Answer(
                    "What holds as printed?",
                    f"{len(chosen) - len(wrong) - counts['open']} of {len(chosen)} claims",
                    "proved, verified for the stated cases, or shown numerically",
                ),
                Answer("What does not?", f"{len(wrong)} claims", "false, or proved only with the stated correction"),
                Answer("How sure?", derived, "each check has mutants that it must reject"),
            ],
            sections=sections,
            made=[("verdicts", derived)],
            notes=["a claim is judged as printed; proofs are symbolic, or in ball arithmetic"],
        )


def _first_screen(shown: Theorems) -> str:
    """The verdicts in 80 columns: totals, and the gravest findings of whole papers or else each claim."""
    chosen, results = shown.claims, shown.derived
    blocks = [textwrap.fill(shown.headline(), SCREEN)]
    papers = _whole_papers(chosen)
    if len({item.paper for item in chosen}) > 1:
        headings, rows = _by_paper(chosen)
        blocks.append(table(headings, rows))
    listed = [item for item in chosen if not papers or (item.id in results and not results[item.id].agrees)]
    if listed:
        rows = []
        for item in listed:
            result = results.get(item.id)
            differs = "" if result is None or result.agrees else f"DIFFERS, derived: {result.evidence.verdict.value}. "
            rows.append([item.id, item.verdict.value, differs + item.statement])
        blocks.append(table(["id", "verdict", "statement"], rows, width=SCREEN))
    blocks += ["\n".join(map(_gravest, papers))] if papers else []
    blocks += ["Every claim: -v. One in full: specplan theorems ID."] if chosen else []
    return "\n\n".join(blocks)


def _whole_papers(chosen: Sequence[Claim]) -> tuple[str, ...]:
    """The papers of which all claims are chosen; none if some are chosen of another."""
    ids = {item.id for item in chosen}
    papers = {item.paper for item in chosen}
    whole = ids == {item.id for item in claims() if item.paper in papers}
    return tuple(paper for paper in PAPERS.values() if paper in papers) if whole else ()


def _gravest(paper: str) -> str:
    """The first findings of the letter to the paper's authors, each with the claim that shows it."""
    findings = FINDINGS[paper_key(paper)][:_GRAVEST]
    width = max(len(each.claims[0]) for each in findings) + 4
    lines = [f"{paper}, the gravest:"]
    for each in findings:
        first, rest = f"  {each.claims[0]}".ljust(width), " " * width
        lines.append(textwrap.fill(each.title, SCREEN, initial_indent=first, subsequent_indent=rest))
    return "\n".join(lines)


def _by_paper(chosen: Sequence[Claim]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a table: how many claims of each paper have each verdict."""
    verdicts = list(dict.fromkeys(item.verdict.value for item in chosen))
    rows = []
    for paper in dict.fromkeys(item.paper for item in chosen):
        counts = Counter(item.verdict.value for item in chosen if item.paper == paper)
        rows.append([paper, str(counts.total()), *(str(counts[name]) for name in verdicts)])
    return ["paper", "claims", *verdicts], rows


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


def _one_claim(item: Claim, result: Verification) -> str:
    rows: list[tuple[str, object]] = [
        ("source", item.source),
        ("statement", item.statement),
        ("expression", None if item.expression is None else item.expression()),
        ("assumptions", item.assumptions or "–"),
        *_formula_rows("", item.formula),
        ("no formula", item.no_formula),
        ("verdict", item.verdict_text),
        *_evidence_rows("derived", result.evidence),
        ("searched", result.finding),
        ("correction", item.correction),
        *_formula_rows("correction ", item.correction_formula),
        *([] if result.correction is None else _evidence_rows("correction derived", result.correction)),
        ("correction searched", result.correction_finding),
        *((f"mutant {mutant.name}", mutant.what_changed) for mutant in item.mutants),
        ("notes", item.notes),
        ("time", f"{result.seconds:.2f} s"),
    ]
    rows = [(name, value) for name, value in rows if value not in (None, "")]
    width = max(len(name) for name, _ in rows) + 2
    lines = [item.id]
    for name, value in rows:
        first, rest = name.ljust(width), " " * width
        lines.append(
            textwrap.fill(str(value), _WIDE, initial_indent=first, subsequent_indent=rest, break_long_words=False)
        )
    return "\n".join(lines)


def _formula_rows(name: str, formula: Testable | None) -> list[tuple[str, str]]:
    return [] if formula is None else [(f"{name}formula", formula.text), (f"{name}domain", formula.where or "–")]


def _evidence_rows(name: str, evidence: Evidence) -> list[tuple[str, str]]:
    rows = [(name, f"{evidence.verdict.value}, by {evidence.method}"), ("", evidence.detail or "–")]
    if evidence.counterexample:
        at = ", ".join(f"{key} = {value}" for key, value in evidence.counterexample.items())
        rows.append(("counterexample", at))
    if evidence.effort:
        rows.append(("effort", ", ".join(f"{key} {value}" for key, value in sorted(evidence.effort.items()))))
    return rows


def _table_of(chosen: Sequence[Claim], paper: str, results: Mapping[str, Verification]) -> Table:
    items = [item for item in chosen if item.paper == paper]
    derived = [results.get(item.id) for item in items]
    shown, slack = [], []
    for one in derived:
        finding = None if one is None else one.correction_finding or one.finding
        differs = "" if one is None or one.agrees else f"; DIFFERS: {one.evidence.verdict.value}"
        shown.append("–" if one is None else one.evidence.method + differs)
        slack.append("–" if finding is None or not finding.slack else finding.slack)
    return filled(
        ("id", [item.id for item in items]),
        ("source", [item.source for item in items]),
        ("verdict", [item.verdict_text for item in items]),
        ("shown by", shown),
        ("fails if it claims", slack),
        ("seconds", ["–" if one is None else f"{one.seconds:.2f}" for one in derived]),
        ("statement", [item.statement for item in items]),
        ("assumptions", [item.assumptions for item in items]),
        folded=f"all {len(items)} claims" if len(chosen) > 12 else "",
    )


def _severity(one: Claim) -> str | None:
    severity = severity_of(one.id)
    return None if severity is None else severity.value


def _formula(tried: Testable | None) -> dict[str, str | None] | None:
    """What a machine tries, and where; no LaTeX of a test in words."""
    if tried is None:
        return None
    return {"text": tried.text, "domain": tried.where, "latex": tried.latex or None}


def _plain(item: Claim, result: Verification | None, *, full: bool) -> dict[str, Any]:
    """A record, with its evidence when it was derived."""
    as_recorded = ("id", "source", "statement", "assumptions", "correction", "notes")
    data: dict[str, Any] = {
        **{name: getattr(item, name) for name in as_recorded},
        "verdict": item.verdict.value,
        "reach": item.reach or None,
        "severity": _severity(item),
        "mutants": [{"name": m.name, "what_changed": m.what_changed} for m in item.mutants],
    }
    if full:
        data["expression"] = None if item.expression is None else str(item.expression())
        data["formula"] = _formula(item.formula)
        data["no_formula"] = item.no_formula or None
        data["correction_formula"] = _formula(item.correction_formula)
    if result is not None:
        data["searched"] = None if result.finding is None else result.finding.as_json()
        data["correction_searched"] = None if result.correction_finding is None else result.correction_finding.as_json()
        data["derived"] = result.evidence.as_json()
        data["correction_derived"] = None if result.correction is None else result.correction.as_json()
        data["agrees"] = result.agrees
        data["seconds"] = round(result.seconds, 3)
    return data
