"""The index of the papers' sentences: every answer is a claim or a reason, and every claim has its sentence."""

import pytest
from click.testing import CliRunner

from ledger.coverage import DOCUMENTS, REASONS, runs, sentences
from ledger.errata.letter import OTHERS
from ledger.ledger import claim, claims
from ledger.texts import PAPERS
from specplan.commands.theorems import theorems
from theory.errors import ParameterError
from workshop.index_text import misplaced


@pytest.mark.parametrize("document", DOCUMENTS)
def test_answers_are_claims_of_the_paper_or_reasons(document: str) -> None:
    paper = PAPERS[DOCUMENTS[document].split("/")[0]]
    for run in runs(document):
        assert run.sentences >= 1
        assert run.reason in REASONS or run.claims
        assert {claim(name).paper for name in run.claims} <= {paper}


def test_every_claim_of_a_paper_has_its_sentence() -> None:
    named = {name for document in DOCUMENTS for run in runs(document) for name in run.claims}
    others = {item.id for item in claims() if any(word in item.source for word in OTHERS[:-1])}
    assert {item.id for item in claims()} - named <= others


def test_words_out_of_place_are_noticed() -> None:
    text = "\n".join(f"## *{run.words}* and so on" for run in runs("ConfSpec"))
    assert misplaced("ConfSpec", text) == []
    first, *_ = runs("ConfSpec")
    assert misplaced("ConfSpec", text.replace(first.words, "Other words")) == [first]


def test_command_prints_the_share() -> None:
    result = CliRunner().invoke(theorems, ["--coverage"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    counts = sentences("SPECS")
    row = next(line for line in lines if line.startswith("SPECS")).removeprefix("SPECS").split()
    assert [int(cell) for cell in row] == [counts.total(), counts["claims"], *(counts[reason] for reason in REASONS)]
    refused = CliRunner().invoke(theorems, ["--coverage", "--paper", "SPECS"])
    assert isinstance(refused.exception, ParameterError)
