"""``specplan theorems``: the ledger of claims, one claim in full, and the re-derivation of all verdicts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specplan.output import check_folder, check_output, deliver, json_option, output_options, progress, to_json
from specplan.ranges import WholeNumber
from specplan.reports.saving import report_option, save

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from theory.claims.ledger import Claim, Evidence
    from theory.claims.runner import Verification

__all__ = ["command", "theorems"]

_STYLES = {
    "proved": "green",
    "proved with fix": "yellow",
    "false": "red",
    "verified": "blue",
    "numeric": "cyan",
    "open": "magenta",
}
_SEVERITIES = ["statement", "argument", "edge", "slip"]
"""As `specplan.errata.cause.Severity`, which is not imported for a list of options."""


@click.command()
@click.argument("claim_id", metavar="[ID]", required=False)
@click.option("--verify", is_flag=True, help="Derive the verdicts again; exit 1 if one differs from the record.")
@click.option("--paper", help="Only claims whose paper or id starts with this, e.g. 'SPECS' or 'LD'.")
@click.option("--verdict", type=click.Choice(list(_STYLES)), help="Only claims of this verdict.")
@click.option("--severity", type=click.Choice(_SEVERITIES), help="Only claims not true as printed, this grave.")
@click.option("--errata", metavar="PAPER", help="Write the errata of a paper into the folder -o, Markdown and LaTeX.")
@click.option("--jobs", type=WholeNumber(1, 1024), default=2, show_default=True, help="Worker processes of --verify.")
@report_option
@json_option
@output_options
def theorems(
    claim_id: str | None,
    verify: bool,
    paper: str | None,
    verdict: str | None,
    severity: str | None,
    errata: str | None,
    jobs: int,
    report: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> None:
    """List the papers' claims with their verdicts, or show the claim ID in full.

    A claim is judged as printed: proved, proved with fix, false (with an exact counterexample), verified (for the
    cases that are named), numeric or open. With --verify every verdict is derived again, symbolically or in ball
    arithmetic, and compared with the record.

    --errata PAPER -o FOLDER writes what does not hold as printed, by root cause and in the paper's order, for its
    authors: lookahead-reasoning, lookahead-decoding, specs or confspec.
    """
    if errata is not None:
        _refuse_beside_errata({"ID": claim_id, "--paper": paper, "--verdict": verdict, "--severity": severity})
        _refuse_beside_errata({"--report": None if report is None else str(report)})
        _write_errata(errata, output, jobs, force=force)
        return
    check_output(output, force=force)
    from theory.claims.ledger import claim

    chosen = (claim(claim_id),) if claim_id else _filtered(_chosen(paper), verdict, severity)
    # a single claim is cheap to derive and means little without its evidence
    results = _verified(chosen, jobs) if (verify or claim_id) and chosen else {}
    if report is not None:
        from specplan.reports.theorems import theorems_report

        save(report, theorems_report(chosen, results))
    if as_json:
        claims = [_as_json(item, results.get(item.id), full=bool(claim_id)) for item in chosen]
        text = to_json({"schema": "specplan.theorems", "schema_version": 1, "claims": claims})
    elif claim_id:
        text = _rendered(_sheet(chosen[0], results[chosen[0].id]), plain=output is not None)
    else:
        text = _rendered(_table(chosen, results), plain=output is not None)
    deliver(text, output, coloured=output is None and not as_json)
    differing = [name for name, result in results.items() if not result.agrees]
    if differing:
        click.echo(f"specplan: derived verdicts differ from the record: {', '.join(differing)}", err=True)
        sys.exit(1)


command = theorems


def _refuse_beside_errata(others: Mapping[str, str | None]) -> None:
    """Errata are of one paper, whole."""
    from theory.errors import ParameterError

    for name, value in others.items():
        if value is not None:
            raise ParameterError(name, value, "has no use beside --errata; leave it out")


def _write_errata(paper: str, folder: Path | None, jobs: int, *, force: bool) -> None:
    """Derive all verdicts of the paper, and write its errata in both forms."""
    from calibrate.record.files import write_atomically
    from specplan.errata.errata import errata_of, paper_key
    from specplan.errata.latex import latex
    from specplan.errata.markdown import markdown
    from theory.claims.ledger import PAPERS
    from theory.errors import ParameterError

    key = paper_key(paper)
    if folder is None:
        raise ParameterError("-o", "", "must name the folder for the errata")
    files = [folder / f"{key}.{ending}" for ending in ("md", "tex")]
    check_folder("-o", folder, files, force=force)
    found = errata_of(key, _verified(_chosen(PAPERS[key]), jobs))
    for path, text in zip(files, (markdown(found), latex(found)), strict=True):
        write_atomically(path, text + "\n")
        click.echo(str(path))


def _filtered(chosen: Sequence[Claim], verdict: str | None, severity: str | None) -> tuple[Claim, ...]:
    """Those of a verdict and of a severity; an empty list is an answer too."""
    if severity is not None:
        from specplan.errata.errata import severity_of

        chosen = [item for item in chosen if severity_of(item.id) == severity]
    return tuple(item for item in chosen if verdict is None or item.verdict == verdict)


def _chosen(paper: str | None) -> tuple[Claim, ...]:
    """The claims of the ledger, or of one paper."""
    from theory.claims.ledger import claims
    from theory.errors import ParameterError

    if paper is None:
        return claims()
    wanted = paper.casefold()
    found = tuple(c for c in claims() if c.paper.casefold().startswith(wanted) or c.id.casefold().startswith(wanted))
    if not found:
        papers = ", ".join(dict.fromkeys(c.paper for c in claims()))
        raise ParameterError("paper", paper, f"must begin the name of one of {papers}, or an id")
    return found


def _verified(chosen: Sequence[Claim], jobs: int) -> dict[str, Verification]:
    """Derive the verdicts, with a bar on stderr."""
    from theory.claims.runner import verify_all

    with progress("deriving verdicts", len(chosen)) as step_done:
        results = verify_all(
            [item.id for item in chosen], jobs=min(jobs, len(chosen)), progress=lambda _result: step_done()
        )
    return {result.id: result for result in results}


def _as_json(item: Claim, result: Verification | None, *, full: bool) -> dict[str, Any]:
    """A record, with its evidence when it was derived."""
    from specplan.errata.errata import severity_of

    data: dict[str, Any] = {
        "id": item.id,
        "source": item.source,
        "statement": item.statement,
        "assumptions": item.assumptions,
        "verdict": item.verdict.value,
        "reach": item.reach or None,
        "severity": severity_of(item.id),
        "correction": item.correction,
        "notes": item.notes,
        "mutants": [{"name": m.name, "what_changed": m.what_changed} for m in item.mutants],
    }
    if full:
        data["expression"] = None if item.expression is None else str(item.expression())
    if result is not None:
        data["derived"] = result.evidence.as_json()
        data["correction_derived"] = None if result.correction is None else result.correction.as_json()
        data["agrees"] = result.agrees
        data["seconds"] = round(result.seconds, 3)
    return data


def _table(chosen: Sequence[Claim], results: Mapping[str, Verification]) -> RenderableType:
    """One line per claim; method, time and agreement after --verify."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False)
    for heading in ("id", "source", "verdict", *(("method", "seconds") if results else ()), "statement"):
        grid.add_column(heading, no_wrap=heading not in {"source", "statement"}, overflow="fold")
    for item in chosen:
        cells = [Text(item.id), Text(item.source), _verdict(item.verdict.value)]
        if item.id in results:
            result = results[item.id]
            mark = "" if result.agrees else f" DIFFERS: {result.evidence.verdict.value}"
            cells += [Text(result.evidence.method + mark), Text(f"{result.seconds:.2f}", justify="right")]
        grid.add_row(*cells, Text(item.statement))
    return Group(grid, Text(_totals(chosen, results)))


def _totals(chosen: Sequence[Claim], results: Mapping[str, Verification]) -> str:
    """Counts of verdicts, and what the derivation found."""
    counts: dict[str, int] = {}
    for item in chosen:
        counts[item.verdict.value] = counts.get(item.verdict.value, 0) + 1
    text = f"\n{len(chosen)} claims: " + ", ".join(f"{count} {name}" for name, count in counts.items())
    if results:
        agreeing = sum(result.agrees for result in results.values())
        work = sum(result.seconds for result in results.values())
        text += f"\n{agreeing} of {len(results)} derived verdicts agree with the record ({work:.1f} s of work)"
    return text


def _sheet(item: Claim, result: Verification) -> RenderableType:
    """Everything about one claim."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows: list[tuple[str, str]] = [("source", item.source), ("statement", item.statement)]
    if item.expression is not None:
        rows.append(("expression", str(item.expression())))
    rows += [("assumptions", item.assumptions), ("verdict", item.verdict_text)]
    rows += _evidence_rows("derived", result.evidence)
    if item.correction:
        rows.append(("correction", item.correction))
    if result.correction is not None:
        rows += _evidence_rows("correction derived", result.correction)
    rows += [(f"mutant {mutant.name}", mutant.what_changed) for mutant in item.mutants]
    if item.notes:
        rows.append(("notes", item.notes))
    rows.append(("time", f"{result.seconds:.2f} s"))
    grid = Table(box=None, pad_edge=False, show_header=False)
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column()
    for name, value in rows:
        grid.add_row(Text(name), _verdict(value) if name == "verdict" else Text(value))
    return Group(Text(item.id, style="bold"), grid)


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


def _verdict(value: str) -> Any:
    from rich.text import Text

    return Text(value, style=_STYLES[value.split(" for ", 1)[0]])


def _rendered(content: RenderableType, *, plain: bool) -> str:
    """Text of a rich renderable: colours on a terminal, a wide plain page in a file or pipe."""
    from rich.console import Console

    terminal = sys.stdout.isatty() and not plain
    console = Console(
        force_terminal=terminal, width=None if terminal else 200, color_system="auto" if terminal else None
    )
    with console.capture() as captured:
        console.print(content)
    return "\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n"))
