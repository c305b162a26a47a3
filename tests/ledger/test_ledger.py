"""The ledger as a whole: complete records, combined evidence, the runner, the command and the page of errata."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import sympy as sp
from click.testing import CliRunner
from refusals import refused

from ledger import readme, texts
from ledger.ledger import PAPERS, Claim, Evidence, Mutant, Verdict, claim, claim_modules, claims
from ledger.lookahead_reasoning import exact
from ledger.lookahead_reasoning.hybrid import theorem_4
from ledger.proving.combine import all_of, screened, settled, with_fix
from ledger.proving.records import refuted
from ledger.runner import Verification, verify_all, verify_claim
from ledger.specs import statements as specs_statements
from specplan.commands.theorems import theorems

PREFIXES = {"Lookahead Reasoning": "LR-", "Lookahead Decoding": "LD-", "SPECS": "SPECS-", "ConfSpec": "CS-"}


def test_records_are_complete() -> None:
    ids = [item.id for item in claims()]
    assert len(ids) == len(set(ids))
    for item in claims():
        assert item.id.startswith(PREFIXES[item.paper]), item.id
        assert item.statement.strip(), item.id
        assert item.assumptions.strip(), item.id
        assert len({mutant.name for mutant in item.mutants}) == len(item.mutants), item.id
        assert bool(item.correction) == (item.correction_verify is not None), item.id
        assert item.correction or not item.needs_correction, item.id


def test_no_module_with_claims_is_left_out() -> None:
    listed = {str(module.__file__) for paper in PAPERS for module in claim_modules(paper)}
    files = readme.PATH.parent.rglob("*.py")
    assert listed == {str(path) for path in files if "\nCLAIMS: tuple" in path.read_text(encoding="utf-8")}


def test_every_text_has_its_record_and_its_mutants() -> None:
    assert set(texts.claim_ids()) == {item.id for item in claims()}


def test_import_of_the_records_leaves_sympy_alone() -> None:
    code = "import sys; from ledger.ledger import claims; claims(); sys.exit('sympy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@pytest.mark.slow
def test_readme_is_up_to_date(verified: Callable[[str], Verification]) -> None:
    page = readme.render(derive=lambda item: verified(item.id))
    assert readme.PATH.read_text(encoding="utf-8") == page, "run `python -m ledger.readme`"


def _evidence(verdict: Verdict) -> Evidence:
    return Evidence(verdict=verdict, method="test", detail="test", effort={"points": 1})


def test_all_of_stops_at_the_first_part_that_is_not_proved() -> None:
    calls: list[str] = []

    def never() -> Evidence:
        calls.append("called")
        return _evidence(Verdict.PROVED)

    for weak in (Verdict.FALSE, Verdict.OPEN, Verdict.NUMERIC):
        assert all_of(_evidence(Verdict.PROVED), _evidence(weak), never).verdict is weak
    assert calls == []
    assert all_of(_evidence(Verdict.PROVED), never).verdict is Verdict.PROVED


def test_a_step_that_fails_after_the_search_leaves_the_claim_open() -> None:
    """A sufficient condition that fails is no counterexample of the claim."""
    evidence = screened(_evidence(Verdict.OPEN), _evidence(Verdict.PROVED), _evidence(Verdict.FALSE))
    assert evidence.verdict is Verdict.OPEN
    assert evidence.counterexample is None
    assert "a step of the proof fails" in evidence.detail


@pytest.fixture
def afresh() -> Iterator[None]:
    """Nothing derived by another test is kept, nor what this one derives."""
    settled.cache_clear()
    yield
    settled.cache_clear()


@pytest.mark.usefixtures("afresh")
def test_a_shifted_closed_form_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """LR-T2b ties the exact S2 that other claims use to the timeline."""
    true = exact.f_saturated
    monkeypatch.setattr(exact, "f_saturated", lambda alpha, c, k: true(alpha, c, k - 1))
    assert claim("LR-T2b").verify().verdict is Verdict.FALSE


@pytest.mark.usefixtures("afresh")
def test_a_bound_without_the_reward_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """SPECS-T1 measures the divergence against the statement itself: kappa = C for C exp(beta R) is too small."""
    true = specs_statements.kl_bound
    monkeypatch.setattr(specs_statements, "kl_bound", lambda: true().subs(specs_statements.beta, 0))
    assert claim("SPECS-T1").verify().verdict is Verdict.FALSE


def test_a_second_draft_that_costs_nothing_is_noticed() -> None:
    """LR-T4a ties the cost term of f(2) to the statement S2."""
    assert theorem_4._token_side(theorem_4._HYBRIDS).verdict is Verdict.PROVED
    assert theorem_4._token_side(theorem_4._HYBRIDS, time=lambda alpha, c: 1).verdict is Verdict.FALSE


def test_with_fix_needs_a_refuted_print_and_a_proved_repair() -> None:
    false, proved, unknown = map(_evidence, (Verdict.FALSE, Verdict.PROVED, Verdict.OPEN))
    assert with_fix(false, proved).verdict is Verdict.PROVED_WITH_FIX
    assert with_fix(false, unknown).verdict is Verdict.FALSE
    assert with_fix(proved, proved).verdict is Verdict.PROVED
    assert with_fix(unknown, proved).verdict is Verdict.OPEN


def _claim(verdict: Verdict, derived: Verdict, **extra: object) -> Claim:
    mutant = Mutant(name="m", what_changed="x", verify=lambda: _evidence(Verdict.OPEN))
    if verdict in {Verdict.FALSE, Verdict.PROVED_WITH_FIX}:
        extra = {"reading": "At 1 it is 2.", **extra}
    return Claim(
        id="X-1",
        source="SPECS, nowhere",
        statement="s",
        assumptions="a",
        verdict=verdict,
        verify=lambda: _evidence(derived),
        mutants=(mutant,),
        **extra,  # type: ignore[arg-type]
    )


def test_a_wrong_record_and_a_correction_that_does_not_hold_and_a_crash_disagree() -> None:
    assert verify_claim(_claim(Verdict.PROVED, Verdict.PROVED)).agrees
    assert not verify_claim(_claim(Verdict.PROVED, Verdict.OPEN)).agrees
    wrong = _claim(Verdict.FALSE, Verdict.FALSE, correction="c", correction_verify=lambda: _evidence(Verdict.OPEN))
    assert not verify_claim(wrong).agrees

    def crash() -> Evidence:
        raise ZeroDivisionError("division by zero")

    result = verify_claim(replace(_claim(Verdict.OPEN, Verdict.OPEN), verify=crash))
    assert not result.agrees
    assert "division by zero" in result.evidence.detail


test_incomplete_records_are_refused = refused(
    lambda make: make(),
    (lambda: _claim(Verdict.VERIFIED, Verdict.VERIFIED), "reach"),
    (lambda: _claim(Verdict.PROVED, Verdict.PROVED, reach="n <= 3"), "reach"),
    (lambda: replace(_claim(Verdict.OPEN, Verdict.OPEN), mutants=()), "mutants"),
    (lambda: _claim(Verdict.FALSE, Verdict.FALSE), "correction"),
    (lambda: _claim(Verdict.PROVED, Verdict.PROVED, reading="At 1 it is 2."), "reading"),
    (lambda: refuted("LR-X9", mutants={}), "must be a table"),
    (lambda: refuted("LR-P1", mutants={"invented": lambda: _evidence(Verdict.OPEN)}), "must be those of its table"),
    (lambda: claim("LR-T3x"), "LR-T3"),
)


def test_names_of_claims_are_found_in_any_case_and_verdicts_tell_their_reach() -> None:
    assert claim("lr-t3b").id == "LR-T3b"
    assert _claim(Verdict.VERIFIED, Verdict.VERIFIED, reach="n <= 3").verdict_text == "verified for n <= 3"


def test_runner_keeps_the_order_and_reports_each() -> None:
    seen: list[str] = []
    results = verify_all(["LR-P2", "LR-B1"], jobs=1, progress=lambda result: seen.append(result.id))
    assert [result.id for result in results] == ["LR-P2", "LR-B1"]
    assert all(result.agrees for result in results)
    assert sorted(seen) == ["LR-B1", "LR-P2"]


def test_command_fails_when_a_verdict_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code comes from the derivation, not from the record."""
    wrong = _claim(Verdict.PROVED, Verdict.OPEN)
    for module in ("ledger.ledger", "ledger.runner", "specplan.api.theorems"):
        monkeypatch.setattr(f"{module}.claims", lambda: (wrong,))
    result = CliRunner().invoke(theorems, ["--verify", "--jobs", "1"])
    assert result.exit_code == 1
    assert "X-1" in result.stderr
    assert "DIFFERS" in result.stdout


def test_expressions_build() -> None:
    """Sympy objects with symbols, not numbers that evaluated away."""
    built = {item.id: item.expression() for item in claims() if item.expression is not None}
    for prefix, fewest in (("", 20), ("LD-", 6), ("SPECS-", 15)):
        assert sum(name.startswith(prefix) for name in built) >= fewest
    for name, expression in built.items():
        assert isinstance(expression, sp.Basic), name
        assert expression.free_symbols, name
