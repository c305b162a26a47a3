"""``specplan theorems``: the ledger of claims, one claim in full, and the re-derivation of all verdicts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from specplan.output import (
    check_folder,
    check_output,
    deliver,
    json_option,
    output_options,
    refuse_unused,
    to_json,
    verbose_option,
)
from specplan.ranges import WholeNumber
from specplan.show.saving import report_option, save
from theory.errors import ParameterError

__all__ = ["command", "theorems"]

_VERDICTS = ["proved", "proved with fix", "false", "verified", "numeric", "open"]
"""As `ledger.ledger.Verdict`, which is not imported for a list of options."""
_SEVERITIES = ["statement", "argument", "edge", "slip"]
"""As `ledger.errata.letter.Severity`, which is not imported for a list of options."""


@click.command()
@click.argument("claim_id", metavar="[ID]", required=False)
@click.option("--verify", is_flag=True, help="Derive the verdicts again; exit 1 if one differs from the record.")
@click.option("--thorough", is_flag=True, help="With --verify or an ID, search longer for counterexamples: minutes.")
@click.option("--paper", help="Only claims whose paper or id starts with this, e.g. 'SPECS' or 'LD'.")
@click.option("--verdict", type=click.Choice(_VERDICTS), help="Only claims of this verdict.")
@click.option("--severity", type=click.Choice(_SEVERITIES), help="Only claims not true as printed, this grave.")
@click.option(
    "--errata", metavar="PAPER", help="Write the letter to a paper's authors into the folder -o, Markdown and LaTeX."
)
@click.option("--coverage", is_flag=True, help="Print which sentences of the papers the claims cover, and stop.")
@click.option("--jobs", type=WholeNumber(1, 1024), default=2, help="Worker processes of --verify.")
@verbose_option
@report_option
@json_option
@output_options
def theorems(
    claim_id: str | None,
    errata: str | None,
    coverage: bool,
    verbose: bool,
    report: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
    **options: Any,
) -> None:
    """List the papers' claims with their verdicts, or show the claim ID in full.

    A claim is judged as printed: proved, proved with fix, false (with an exact counterexample), verified (for the
    cases that are named), numeric or open. With --verify every verdict is derived again, symbolically or in ball
    arithmetic, and compared with the record; statements that hold are searched for counterexamples, and -v prints how
    much stronger each would have to be to fail.

    The first screen has the totals and each paper's gravest findings; -v, --verdict and --severity list the claims.

    --errata PAPER -o FOLDER writes a letter to the paper's authors: what survives, what does not hold, the gravest
    first, and what holds more sharply. PAPER is lookahead-reasoning, lookahead-decoding, specs or confspec.
    """
    if errata is not None or coverage:
        whole = ("claim_id", "paper", "verdict", "severity", "report", *(["errata"] if coverage else []))
        refuse_unused(whole, "with --coverage" if coverage else "with --errata")
    if errata is not None:
        _write_errata(errata, output, force=force)
        return
    check_output(output, force=force)
    if coverage:
        from specplan.show.theorems import coverage_screen

        deliver(coverage_screen(), output)
        return
    if options["thorough"] and not (options["verify"] or claim_id):
        raise ParameterError("--thorough", "", "searches while verdicts are derived; add --verify, or give an ID")
    from specplan.api.theorems import theorems as shown

    result = shown(claim_id, **options)
    if report is not None:
        save(report, result.report())
    deliver(to_json(result.plain()) if as_json else result.text(verbose=verbose), output)
    if result.differing:
        click.echo(f"specplan: derived verdicts differ from the record: {', '.join(result.differing)}", err=True)
        sys.exit(1)


command = theorems


def _write_errata(paper: str, folder: Path | None, *, force: bool) -> None:
    from calibrate.record.files import write_atomically
    from ledger.errata.latex import latex
    from ledger.errata.letter import letter_of, paper_key
    from ledger.errata.markdown import markdown

    key = paper_key(paper)
    if folder is None:
        raise ParameterError("-o", "", "must name the folder for the errata")
    files = [folder / f"{key}.{ending}" for ending in ("md", "tex")]
    check_folder(folder, files, force=force)
    letter = letter_of(key)
    for path, text in zip(files, (markdown(letter), latex(letter)), strict=True):
        write_atomically(path, text + "\n")
        click.echo(str(path))
