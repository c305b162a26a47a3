"""``specplan theorems``: the ledger of claims, one claim in full, and the re-derivation of all verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from specplan.output import check_folder, refuse_unused
from specplan.ranges import WholeNumber
from specplan.show.saving import result_options
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.api.theorems import Theorems

__all__ = ["command", "theorems"]

_VERDICTS = ["proved", "proved with fix", "false", "verified", "numeric", "open"]
"""As `ledger.ledger.Verdict`, which is not imported for a list of options."""
_SEVERITIES = ["statement", "argument", "edge", "slip"]
"""As `ledger.errata.letter.Severity`, which is not imported for a list of options."""
_FILTERS = ("claim_id", "paper", "verdict", "severity", "report")
"""Parameters that have no use with --coverage and --errata."""


def _errata(options: Mapping[str, Any]) -> bool:
    """Write the letter that --errata names, where it is given."""
    from calibrate.record.files import write_atomically
    from ledger.errata.latex import latex
    from ledger.errata.letter import letter_of, paper_key
    from ledger.errata.markdown import markdown

    if options["errata"] is None:
        return False
    refuse_unused([*_FILTERS, "coverage"], "with --errata")
    key, folder = paper_key(options["errata"]), options["output"]
    if folder is None:
        raise ParameterError("-o", "", "must name the folder for the errata")
    files = [folder / f"{key}.{ending}" for ending in ("md", "tex")]
    check_folder(folder, files, force=options["force"])
    letter = letter_of(key)
    for path, text in zip(files, (markdown(letter), latex(letter)), strict=True):
        write_atomically(path, text + "\n")
        click.echo(str(path))
    return True


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
@result_options(report=True, instead=_errata)
def theorems(claim_id: str | None, errata: None, coverage: bool, **options: Any) -> Theorems | str:
    """List the papers' claims with their verdicts, or show the claim ID in full.

    A claim is judged as printed: proved, proved with fix, false (with an exact counterexample), verified (for the
    cases that are named), numeric or open. With --verify every verdict is derived again, symbolically or in ball
    arithmetic, and compared with the record; statements that hold are searched for counterexamples, and -v prints how
    much stronger each would have to be to fail.

    The first screen has the totals and each paper's gravest findings; -v, --verdict and --severity list the claims.

    --errata PAPER -o FOLDER writes a letter to the paper's authors: what survives, what does not hold, the gravest
    first, and what holds more sharply. PAPER is lookahead-reasoning, lookahead-decoding, specs or confspec.
    """
    if coverage:
        refuse_unused(_FILTERS, "with --coverage")
        from specplan.show.theorems import coverage_screen

        return coverage_screen()
    if options["thorough"] and not (options["verify"] or claim_id):
        raise ParameterError("--thorough", "", "searches while verdicts are derived; add --verify, or give an ID")
    from specplan.api.theorems import theorems as shown

    return shown(claim_id, **options)


command = theorems
