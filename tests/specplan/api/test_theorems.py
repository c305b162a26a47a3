"""`specplan.theorems`: what the command prints is what it returns, and its first screen fits a terminal."""

from collections import Counter

from refusals import refuses
from screens import Main, check_printed, check_screen

import specplan as sp
from ledger.errata.letter import FINDINGS
from ledger.ledger import PAPERS, claims


def test_claims_are_what_the_command_prints(run_main: Main) -> None:
    found = sp.theorems(paper="ConfSpec", verdict="false")
    words = ("theorems", "--paper", "ConfSpec", "--verdict", "false")
    check_printed(run_main, words, found)
    assert {row["verdict"] for row in found.records()} == {"false"}


def test_slips_are_listed_and_graver_claims_are_not() -> None:
    ids = [row["id"] for row in sp.theorems(paper="LR", severity="slip").records()]
    assert "LR-S6" in ids
    assert "LR-S4" not in ids
    assert (
        sp.theorems(paper="LR", verdict="numeric", severity="slip", verify=True).headline().startswith("0 of 0 claims")
    )


def test_a_first_screen_says_how_many_hold_and_fits_80_columns() -> None:
    found = sp.theorems()
    check_screen(found)
    wrong = sum(item.needs_correction for item in claims())
    assert found.headline().startswith(f"{len(claims()) - wrong} of {len(claims())} claims hold as printed, {wrong}")
    by_paper = Counter(row["paper"] for row in found.records())
    for paper, n in by_paper.items():
        (line,) = (line for line in found.text().split("\n\n")[1].splitlines() if line.startswith(paper))
        counts = [int(word) for word in line.removeprefix(paper).split()]
        assert counts[0] == n == sum(counts[1:])
    told = " ".join(found.text().split())
    for key, name in PAPERS.items():
        assert f"{name}, the gravest:" in told
        assert all(f"{finding.claims[0]} {finding.title}" in told for finding in FINDINGS[key][:3])
    assert "the gravest" not in sp.theorems(verdict="numeric").text()


def test_verdicts_are_derived_again() -> None:
    found = sp.theorems(paper="LR-B", verify=True, jobs=1)
    assert found.differing == ()
    assert all(row["agrees"] for row in found.records())
    assert f"{len(found.claims)} of {len(found.claims)} derived verdicts agree" in found.headline()


def test_one_claim_is_shown_with_its_evidence() -> None:
    found = sp.theorems("LR-S4")
    for part in ("2/5", "ceil(1/c1)", "counterexample", "correction", "1/(c1 + (1 - alpha1)*(1 - c1))", "mutant"):
        assert part in found.text()
    assert found.plain()["claims"][0]["agrees"] is True
    assert found.records()[0]["severity"] == "edge"
    (record,) = sp.theorems("LR-T2d").plain()["claims"]
    assert record["derived"]["counterexample"] == {"c1": "2/5", "gamma": "3"}


test_bad_arguments_are_refused = refuses(
    sp.theorems,
    ({"paper": "EAGLE"}, "paper='EAGLE' must begin the name of one of"),
    ({"verdict": "true"}, "verdict='true' must be one of proved"),
    ({"severity": "sli"}, "did you mean 'slip'"),
    ({"claim": "LR-X"}, "LR-X"),
    ({"jobs": 0}, "jobs=0 must be at least 1"),
)
