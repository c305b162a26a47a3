"""Letters to the authors: every claim not true as printed, in defined words, in at most four pages."""

import importlib.util
import math
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from ledger.errata.blocks import Heading, Paragraph, blocks
from ledger.errata.inline_math import typeset
from ledger.errata.latex import latex
from ledger.errata.letter import FINDINGS, Letter, Severity, letter_of, paper_key, severity_of
from ledger.errata.markdown import markdown
from ledger.ledger import PAPERS, Claim, Verdict, claim, claims
from ledger.lookahead_reasoning import exact
from ledger.readme import sentence
from ledger.runner import Verification
from ledger.texts import errata
from specplan.commands.theorems import _SEVERITIES, _VERDICTS, theorems
from theory.errors import ParameterError

WRONG: Final = tuple(item for item in claims() if item.needs_correction)
DOCS = Path(__file__).resolve().parents[2] / "docs"
SLOW = ("lookahead_reasoning", "lookahead_decoding", "specs")
EACH = [pytest.param(key, marks=pytest.mark.slow if key in SLOW else ()) for key in PAPERS]
"""Papers; deriving the claims of three of them takes long."""


@pytest.mark.parametrize("key", PAPERS)
def test_every_claim_not_true_as_printed_has_one_finding(key: str) -> None:
    listed = [name for finding in FINDINGS[key] for name in finding.claims]
    assert len(listed) == len(set(listed))
    assert set(listed) == {item.id for item in WRONG if item.paper == PAPERS[key]}


def test_severities_are_the_options() -> None:
    assert [each.value for each in Severity] == _SEVERITIES
    assert [each.value for each in Verdict] == _VERDICTS
    assert severity_of("LR-S4") is Severity.EDGE
    assert severity_of("LR-T1") is None


def test_papers_go_by_name_folder_and_prefix() -> None:
    assert {paper_key(name) for name in ("Lookahead Reasoning", "lookahead-reasoning", "LR")} == {"lookahead_reasoning"}
    with pytest.raises(ParameterError, match="confspec"):
        paper_key("EAGLE")


def test_the_command_writes_both_forms_into_a_folder_and_over_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "confspec"
    result = CliRunner().invoke(theorems, ["--errata", "confspec", "-o", str(folder)])
    assert result.exit_code == 0, result.output
    letter = letter_of("confspec")
    written = {path.suffix: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert written == {".md": markdown(letter) + "\n", ".tex": latex(letter) + "\n"}
    (folder / "confspec.md").write_text("mine", encoding="utf-8")
    for arguments in ([], ["-o", str(folder)]):
        refused = CliRunner().invoke(theorems, ["--errata", "confspec", *arguments])
        assert isinstance(refused.exception, ParameterError)
    assert (folder / "confspec.md").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("key", PAPERS)
def test_a_letter_says_first_what_survives_and_names_every_claim_that_it_sends(key: str) -> None:
    letter = letter_of(key)
    sections = [block.text for block in blocks(letter) if isinstance(block, Heading) and block.level == 2]
    assert sections == [
        "What survives",
        "What does not hold as printed",
        "What holds more sharply than printed",
        "Slips, edges and steps of proofs",
    ]
    for text in (markdown(letter), latex(letter)):
        for finding in FINDINGS[key]:
            for name in finding.claims:
                assert (name in text) is not bool(finding.unsent), name
        text.encode("ascii")  # plain LaTeX prints nothing else
    assert 0 < letter.holding < letter.checked <= sum(item.paper == letter.paper for item in claims())


def test_findings_begin_with_the_gravest() -> None:
    """Those written out fall in severity, and no statement without a text of its own comes before one with it."""
    order = list(Severity)
    for findings in FINDINGS.values():
        written_out = [order.index(each.severity) for each in findings if each.text]
        assert written_out[0] == 0
        assert len(written_out) >= 3
        assert all(each.text for each in findings[: len(written_out)])


LINES, WIDE, NARROW = 58, 108, (22, 41, 62)
"""Lines of a page, characters of a line, and of one in each column of the table (1.25 of its lines are one of text)."""


def _lines(letter: Letter) -> float:
    """Lines of the letter in print, headings and gaps between paragraphs with them."""
    total = 0.0
    for block in blocks(letter):
        if isinstance(block, Heading):
            total += 1 if block.level == 3 else 2.5
        elif isinstance(block, Paragraph):
            total += len(textwrap.wrap(block.text, WIDE)) + 0.3
        else:
            for row in block.rows:
                cells = (len(textwrap.wrap(cell, width)) for cell, width in zip(row, NARROW, strict=True))
                total += max(cells) / 1.25
    return total


@pytest.mark.parametrize("key", PAPERS)
def test_a_letter_has_at_most_four_pages(key: str, tmp_path: Path) -> None:
    """By lines, and where TeX is installed by its own count."""
    letter = letter_of(key)
    assert _lines(letter) <= 4 * LINES
    if shutil.which("pdflatex") is None:
        pytest.skip("no TeX here: the estimate by lines holds")
    (tmp_path / "letter.tex").write_text(latex(letter), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "letter.tex"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    pages = re.search(r"\((\d+) pages?", printed.replace("\n", ""))
    assert pages is not None
    assert int(pages[1]) <= 4
    assert abs(int(pages[1]) - _lines(letter) / LINES) <= 1


@pytest.mark.parametrize("key", PAPERS)
def test_math_is_closed(key: str) -> None:
    """In each paragraph dollars come in pairs, and braces are balanced in each formula and in the whole."""
    text = latex(letter_of(key))
    for part in text.split("\n\n"):
        pieces = re.split(r"(?<!\\)\$", part)
        assert len(pieces) % 2 == 1, part
        for formula in pieces[1::2]:
            assert formula.strip(), part
            bare = formula.replace("\\{", "").replace("\\}", "")
            assert bare.count("{") == bare.count("}"), formula
    bare = text.replace("\\{", "").replace("\\}", "")
    assert bare.count("{") == bare.count("}")
    assert not re.search(r"(?<!\\)[%#]", text)


NUMBER: Final = re.compile(r"(?<![\w.])(-?\d++(?:/\d+|\.\d+)?+)( %)?(?!\w)")
PLACES: Final = re.compile(
    r"(?:Sections?|Tables?|Theorems?|Lemmas?|Equations?|Figures?|Algorithms?|Appendix|Corollary|Case|lines?|"
    r"Observation|Definitions?|level)(?:(?:,| and| to)? [A-Z]?\d++(?:\.\d+)*+[a-z]?+(?! %| s\b))+|\(\d\)|\[\d+\]"
)
"""Where something stands, which is no figure of it."""


def _numbers(text: str) -> Iterator[tuple[Fraction, int]]:
    """Numbers of a text, per cent as such and as a share, with their decimals."""
    for number, per_cent in NUMBER.findall(PLACES.sub(" ", text)):
        value = Fraction(number)
        decimals = len(number.partition(".")[2])
        yield value, decimals
        if per_cent:
            yield value / 100, decimals + 2


def _saturated(alpha: float, c: float, depth: float) -> float:
    """S2 of Lookahead Reasoning at a real depth."""
    passed: float = alpha**depth
    return (1 - passed) / (1 - alpha + c * (alpha * (1 - passed) - depth * (1 - alpha) * passed))


def _split(depth: int) -> float:
    """The speedup w of Lemma 5 at rates 1/2 and costs 1/5 with budget 12."""
    half, cost = Fraction(1, 2), Fraction(1, 5)
    return float(exact.f_sync(half, cost, depth) * exact.g(half, cost, 12 // depth))


COMPUTED: Final[dict[str, tuple[float, ...]]] = {
    "LR-S4": (9 / 5,),
    "LR-S6": (3 / 2, float(exact.f_saturated(Fraction(1, 2), Fraction(1, 4), 2))),
    "LR-L2c": (1 - 0.9 * 1.5, _saturated(1 / 16, 0.9, 1.5), _saturated(1 / 16, 0.9, 1.75)),
    "LR-T3i": (4 * math.log(2) / 15, 4 / 29),
    "LR-T4g": (
        float(exact.g(Fraction("0.79"), Fraction("0.005"), 2)),
        float(exact.f_async(Fraction("0.53"), Fraction("0.33"), 2)),
        exact.argmax_g(Fraction("0.79"), Fraction("0.005"), 32),
    ),
    "CS-P1": (1 - 0.81,),
    "LR-L3c": (0.5 * (math.log(2) + 0.25) - 0.25 / 2, 0.5 * math.log(2) - 0.25 / 2),
    "LR-L6c": ((0.75 + 2 * math.log(0.5)) * 8, (1.25 + 2 * math.log(0.5)) * 8),
    "LR-L5b": ((_split(6) - _split(4)) / 2, (_split(12) - _split(6)) / 6),
    "LR-P2": (1.36 * 1.53,),
    "LD-S1": (16**2,),
    "SPECS-COV": (0.5**2,),
    "SPECS-L5b": ((0.5 - 0.25) / (1 - 0.25),),
    "SPECS-L1": ((math.log(4) - math.log(3)) / 4,),
}
"""Claim -> numbers of its sentence that its verifier does not print, from their definitions."""


def _known(item: Claim, result: Verification) -> list[float]:
    """Every number of a claim's record and of what was derived about it."""
    texts = [item.statement, item.assumptions, item.correction or "", item.notes, item.quotation]
    texts += [result.evidence.detail, result.correction.detail if result.correction else ""]
    values = [float(value) for text in texts for value, _ in _numbers(text.replace("**", " ").replace("{", " "))]
    shown = [float(Fraction(str(value))) for value in (result.evidence.counterexample or {}).values()]
    return [*values, *shown, *COMPUTED.get(item.id, ())]


def _derived(known: list[float], value: Fraction, decimals: int) -> bool:
    """Whether a known number rounds to this one, be it per cent for a share or the other way."""
    for scale, places in ((1.0, decimals), (100.0, max(decimals, 1)), (0.01, decimals)):
        room = 0.5000001 * 10.0**-places if places else 1e-12
        if any(abs(scale * each - float(value)) <= room for each in known):
            return True
    return False


@pytest.mark.parametrize("key", EACH)
def test_no_number_comes_from_nowhere(key: str, verified: Callable[[str], Verification]) -> None:
    """A sentence about a counterexample names all its values, and no figure that was not derived."""
    for item in (each for each in WRONG if each.paper == PAPERS[key]):
        result = verified(item.id)
        told = {value for value, _ in _numbers(item.reading)}
        for value in (result.evidence.counterexample or {}).values():
            assert Fraction(str(value)) in told, (item.id, value)
        known = _known(item, result)
        for value, decimals in _numbers(item.reading):
            small = value.denominator <= 2 and abs(value) <= 10
            assert small or _derived(known, value, decimals), (item.id, value)


@pytest.mark.parametrize("key", EACH)
def test_a_letter_has_no_number_that_its_claims_lack(key: str, verified: Callable[[str], Verification]) -> None:
    letter = letter_of(key)
    for finding in letter.findings:
        known = [each for name in finding.claims for each in _known(claim(name), verified(name))]
        known += [float(value) for name in finding.claims for value, _ in _numbers(claim(name).reading)]
        for value, decimals in _numbers(finding.text):
            small = value.denominator == 1 and abs(value) <= 100
            assert small or _derived(known, value, decimals), (finding.title, value)


def test_numbers_of_the_proof_of_theorem_4() -> None:
    """LR-T4d and LR-T4e, as the letter proves them."""
    rate = 1.2 * (1 + 0.8**8) - 1
    assert 1 + 0.8**8 < 1.168
    assert abs(rate - 0.401326592) < 1e-12
    assert (1 + rate) / (1 + rate * (1 - rate) / 3) > 1.297
    assert 1 / (1 - 0.8**7) < 1.26537
    assert round(1.52 / 1.2, 5) == 1.26667
    sums = [sum(0.8**i for i in range(k)) for k in range(17)]
    tokens = [sum(rate**i for i in range(k)) / (1 + 0.2 * (k - 1)) for k in range(1, 17)]
    hybrids = {(i, j): sums[i] * tokens[j - 1] for i in range(2, 9) for j in range(2, 16 // i + 1)}
    assert abs(hybrids.pop((8, 2)) - sums[16]) < 1e-12
    assert round(sums[16], 2) == 4.86
    assert max(hybrids.values()) < 4.62


def test_survivors_are_those_of_the_ledger() -> None:
    """Each sentence names claims of its paper; what it says to hold does, and what it says not to does not."""
    fixed = {"LR-T3b", "SPECS-T3", "SPECS-T5"}
    false = {"LD-S1"}
    for key, table in ((key, errata(key)) for key in PAPERS):
        named = re.findall(r"(?:LR|LD|SPECS|CS)-\w+", table["survives"])
        assert len(named) >= 3
        assert {claim(name).paper for name in named} == {PAPERS[key]}
        for name in named:
            wanted = {Verdict.FALSE} if name in false else {Verdict.PROVED, Verdict.VERIFIED}
            assert claim(name).verdict in ({Verdict.PROVED_WITH_FIX} if name in fixed else wanted), name


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("the rate falls", "The rate falls."), ("beta is random", "beta is random."), ("f(1) = 1", "f(1) = 1.")],
)
def test_sentences_begin_large_and_formulas_as_they_are(text: str, wanted: str) -> None:
    assert sentence(text) == wanted


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
    assert "# To the authors of ConfSpec: errata" in source[0]
