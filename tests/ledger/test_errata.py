"""Errata: every claim not true as printed under one root cause, whole sentences, LaTeX that is balanced."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from ledger.errata.cause import Severity
from ledger.errata.errata import CAUSES, MAIN_RESULTS, Errata, Found, errata_of, paper_key, severity_of
from ledger.errata.inline_math import typeset
from ledger.errata.latex import latex
from ledger.errata.markdown import markdown
from ledger.ledger import PAPERS, Verdict, claim, claims
from ledger.readme import sentence
from ledger.runner import Verification
from specplan.commands.theorems import _SEVERITIES, _VERDICTS, theorems
from theory.errors import ParameterError

WORDS = {item.id: item.quotation for item in claims() if item.quotation}
READINGS = {item.id: item.reading for item in claims() if item.reading}
PROOFS = {item.id: item.proof for item in claims() if item.proof}
DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("key", PAPERS)
def test_every_claim_not_true_as_printed_has_one_cause(key: str) -> None:
    listed = [name for cause in CAUSES[key] for name in cause.claims]
    assert len(listed) == len(set(listed))
    wanted = {item.id for item in claims() if item.paper == PAPERS[key] and item.needs_correction}
    assert set(listed) == wanted


def test_severities_are_the_options() -> None:
    assert [each.value for each in Severity] == _SEVERITIES
    assert [each.value for each in Verdict] == _VERDICTS
    assert severity_of("LR-S4") is Severity.EDGE
    assert severity_of("LR-T1") is None


def test_papers_go_by_name_folder_and_prefix() -> None:
    assert {paper_key(name) for name in ("Lookahead Reasoning", "lookahead-reasoning", "LR")} == {"lookahead_reasoning"}
    with pytest.raises(ParameterError, match="confspec"):
        paper_key("EAGLE")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, verified: Callable[[str], Verification]) -> dict[str, str]:
    """The documents of a paper, by ending, from what this run has derived."""
    folder = tmp_path_factory.mktemp("errata") / "confspec"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ledger.runner.verify_all", lambda ids, **_: tuple(map(verified, ids)))
        result = CliRunner().invoke(theorems, ["--errata", "confspec", "-o", str(folder)])
    assert result.exit_code == 0, result.output
    return {path.suffix: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_both_forms_hold_every_claim_of_the_paper(written: dict[str, str]) -> None:
    assert set(written) == {".md", ".tex"}
    for text in written.values():
        for item in claims():
            if item.paper == "ConfSpec" and item.verdict.value in {"false", "proved with fix", "proved", "verified"}:
                assert item.id in text
        assert "…" not in text


def test_sentences_are_whole(written: dict[str, str]) -> None:
    plain = written[".md"].replace("\\", "").replace("^", "**")
    for name in CAUSES["confspec"][0].claims:
        item = claim(name)
        assert item.statement in plain
        assert (item.correction or "?") in plain


def test_latex_is_balanced(written: dict[str, str]) -> None:
    text = written[".tex"]
    bare = text.replace("\\{", "").replace("\\}", "")
    assert bare.count("{") == bare.count("}")
    assert re.findall(r"\\begin\{(\w+)\}", text).count("itemize") == re.findall(r"\\end\{(\w+)\}", text).count(
        "itemize"
    )
    assert not re.search(r"(?<!\\)[&%#]", text)


@pytest.mark.parametrize(
    "key",
    [pytest.param(key, marks=pytest.mark.slow if key in {"lookahead_reasoning", "specs"} else ()) for key in PAPERS],
)
def test_each_paper_has_its_documents(key: str, verified: Callable[[str], Verification]) -> None:
    """Every item: place, claim, where it fails at which values, what holds; every cause: severity and what survives."""
    mine = [item for item in claims() if item.paper == PAPERS[key]]
    found = errata_of(key, {item.id: verified(item.id) for item in mine})
    text = markdown(found)
    items = {
        name: part for part in text.split("\n### ")[1:] for name in re.findall(r"^.*\(([\w-]+)\)$", part, re.M)[:1]
    }
    for cause in CAUSES[key]:
        assert cause.title in text.replace("\\", "")
        for name in cause.claims:
            fails = re.search(r"\*\*Where it fails\.\*\* (.*)", items[name])
            assert fails, name
            assert re.search(r"\d", fails[1]), f"{name}: no values in {fails[1]}"
            assert not re.match(r"(at|the|a|on|with) ", fails[1]), f"{name} begins small: {fails[1]}"
            assert "**Claim.**" in items[name]
            assert re.search(r"\*\*What holds\.\*\* \S", items[name]), name
    assert f"**Main results.** {found.main_results}" in text
    both = text + latex(found)
    both.encode("ascii")  # plain LaTeX prints nothing else
    assert not re.search(r"…|\b1 boxes|token\(s\)|\{'|between 1 and 1", both)
    if key.startswith("lookahead"):
        _for_strangers(both)
    _math_is_closed(latex(found))


def _for_strangers(text: str) -> None:
    """No word that only this repository explains, and ids only of entries that the document has."""
    inside = r"\b(ledger|boxes|bits|lambert_optimum|mutant|arb|planner|coefficients of one sign)\b"
    assert not re.findall(inside, text)
    prefix = "LR" if "LR-" in text else "LD"
    headed = set(re.findall(rf"\(({prefix}-[\w-]+)\)\}}?$", text, re.M)) | set(
        re.findall(rf"^(?:-|\\item) ({prefix}-[\w-]+),", text, re.M)
    )
    assert set(re.findall(rf"\b{prefix}-[A-Z][\w-]*", text)) <= headed


def _math_is_closed(text: str) -> None:
    """In each paragraph dollars come in pairs, and braces are balanced in each formula."""
    for part in text.split("\n\n"):
        pieces = re.split(r"(?<!\\)\$", part)
        assert len(pieces) % 2 == 1, part
        for formula in pieces[1::2]:
            assert formula.strip(), part
            bare = formula.replace("\\{", "").replace("\\}", "")
            assert bare.count("{") == bare.count("}"), formula


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("the rate falls", "The rate falls."), ("beta is random", "beta is random."), ("f(1) = 1", "f(1) = 1.")],
)
def test_sentences_begin_large_and_formulas_as_they_are(text: str, wanted: str) -> None:
    assert sentence(text) == wanted


def test_main_results_are_those_of_the_ledger() -> None:
    """Each sentence names claims of its paper; what it says to hold does, and what it says not to does not."""
    held = {
        "LR-T1",
        "LR-T2a",
        "LR-T2b",
        "LR-T4c",
        "LD-TA",
        "LD-E4",
        "LD-E5",
        "LD-E7",
        "SPECS-T1",
        "SPECS-T2",
        "SPECS-T4",
    }
    expected = dict.fromkeys(held | {"CS-V1", "CS-V2", "CS-P2"}, Verdict.PROVED)
    expected |= dict.fromkeys(("LR-T3b", "SPECS-T3", "SPECS-T5"), Verdict.PROVED_WITH_FIX)
    expected |= dict.fromkeys(("LR-T4b", "LD-S1", "CS-P1"), Verdict.FALSE)
    named = {key: re.findall(r"(?:LR|LD|SPECS|CS)-\w+", text) for key, text in MAIN_RESULTS.items()}
    assert {name: claim(name).verdict for names in named.values() for name in names} == expected
    assert all(claim(name).paper == PAPERS[key] for key, names in named.items() for name in names)


def test_claims_against_words_are_quoted() -> None:
    """Short, with formulas between dollars; the others are cells of tables that contradict each other."""
    assert set(WORDS) <= {name for causes in CAUSES.values() for cause in causes for name in cause.claims}
    unquoted = {
        name
        for causes in CAUSES.values()
        for cause in causes
        if not cause.aside
        for name in cause.claims
        if name not in WORDS
    }
    assert unquoted == {"SPECS-TAB1a", "SPECS-TAB2", "CS-N1"}
    for name, quotation in WORDS.items():
        words = " ".join(re.sub(r"\$[^$]*\$", "", quotation).split())
        assert len(quotation) >= 3, name
        assert len(words) <= 180, name
        assert quotation.count("$") % 2 == 0, name


@pytest.mark.slow  # derives the claims of two papers
def test_readings_name_every_value(verified: Callable[[str], Verification]) -> None:
    """A counterexample told by hand is the one that its verifier derives."""
    causes = {
        name for key in ("lookahead_reasoning", "lookahead_decoding") for each in CAUSES[key] for name in each.claims
    }
    assert set(READINGS) <= causes
    for name, told in READINGS.items():
        numbers = {Fraction(number) for number in re.findall(r"(?<![\w)])-?\d+(?:[./]\d+)?", told)}
        for value in (verified(name).evidence.counterexample or {}).values():
            assert Fraction(str(value)) in numbers, (name, value)


def test_written_proofs_are_of_claims_that_machines_prove() -> None:
    assert {claim(name).verdict for name in PROOFS} == {Verdict.PROVED}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("alpha1^(k1+1) <= ceil(1/c1)", r"$\alpha_{1}^{k_{1}+1}$ $\le$ $\lceil 1/c_{1} \rceil$"),
        ("w_1^(i+1-N), gamma2* - 1", r"$w_1^{i+1-N}$, $\gamma_{2}^*$ $-$ 1"),
        ("sum_{i=1..j} f_sync(i)", r"$\sum_{i=1}^{j}$ $f_{\text{sync}}$($i$)"),
        ("a draft's 7B model (LR-T1, Appendix C, i.e. 5 %)", r"a draft's 7B model (LR-T1, Appendix C, i.e. 5 \%)"),
        ("V(y_<=t) <=t, ln x, pi_own/pi*", r"$V$($y_{\le t}$) $\le t$, $\ln$ $x$, $\pi_{\text{own}}$/$\pi^*$"),
        ("(1-alpha)^b, F''(y), a(alpha, x)", r"(1$-\alpha$)${}^{b}$, $F''$($y$), $a$($\alpha$, $x$)"),
    ],
)
def test_symbols_stand_in_math_and_words_do_not(text: str, wanted: str) -> None:
    assert typeset(text) == wanted


def test_quotations_keep_their_formulas(verified: Callable[[str], Verification]) -> None:
    item = Found(claim=claim("SPECS-E1"), result=verified("SPECS-E1"))
    paper = Errata(paper="SPECS", main_results="", causes=((CAUSES["specs"][0], (item,)),), sharper=(), holding=())
    wanted = r"When $\pi_{\text{gen}} = \pi_{\text{target}}$, this collapses to $r$."
    assert f"\n> {wanted}\n" in markdown(paper)
    assert f"\\begin{{quote}}\n{wanted}\n\\end{{quote}}" in latex(paper)
    assert "**Where it fails.** At beta = 2, r = 1: the score is beta r = 2, not 1.\n" in markdown(paper)


def test_the_site_shows_the_documents() -> None:
    """A page for each paper, and formulas on these pages only."""
    spec = importlib.util.spec_from_file_location("site_conf", DOCS / "site/conf.py")
    assert spec is not None
    assert spec.loader is not None
    conf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conf)
    assert set(conf.ERRATA.values()) == set(PAPERS)
    for page in conf.ERRATA:
        assert (DOCS / f"{page}.md").is_file(), page
    assert "dollarmath" not in conf.myst_enable_extensions
    source = ["a line that is replaced"]
    conf._text(None, "reference/errata-confspec", source)
    assert "# Errata: ConfSpec" in source[0]


def test_errata_need_a_folder_and_overwrite_nothing(tmp_path: Path) -> None:
    missing = CliRunner().invoke(theorems, ["--errata", "confspec"])
    assert isinstance(missing.exception, ParameterError)
    (tmp_path / "confspec.md").write_text("mine", encoding="utf-8")
    taken = CliRunner().invoke(theorems, ["--errata", "confspec", "-o", str(tmp_path)])
    assert isinstance(taken.exception, ParameterError)
    assert (tmp_path / "confspec.md").read_text(encoding="utf-8") == "mine"


def test_filters() -> None:
    result = CliRunner().invoke(theorems, ["--paper", "LR", "--severity", "slip"])
    assert "LR-S6" in result.stdout
    assert "LR-S4" not in result.stdout
    none = CliRunner().invoke(theorems, ["--paper", "LR", "--verdict", "numeric", "--verify", "--severity", "slip"])
    assert none.exit_code == 0
    assert none.stdout.strip().startswith("0 claims") or "0 claims" in none.stdout


def test_lists_cut_no_sentence() -> None:
    result = CliRunner().invoke(theorems, ["--paper", "CS"])
    assert "…" not in result.stdout
