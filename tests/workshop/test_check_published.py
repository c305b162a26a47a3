"""Facts against the papers' text: the comparison by hand, and the texts themselves where they are at hand."""

import os
from pathlib import Path

import pytest

from workshop.check_published import PRINTED, main, missing

_PAPERS = os.environ.get("SPECPLAN_PAPERS", "")


def test_rows_are_read_across_markup_and_in_order() -> None:
    text = r"GSM8K & $\begin{array}{c} 92.8 \pm 1.8 \\ 0.63 \end{array}$ & 1.48x" + "\nMATH500\t10,000\n"
    found = [("here", ["92.8", "1.8", "0.63", "1.48"]), ("later", ["10,000"])]
    wrong = [("order", ["1.8", "92.8"]), ("rounded", ["92"]), ("of a name", ["500"]), ("digit", ["1.8", "0.64"])]
    assert missing(text, iter([*found, *wrong])) == wrong


def test_every_paper_has_rows_and_a_folder_without_texts_fails(tmp_path: Path) -> None:
    assert all(sum(1 for _ in rows()) > 10 for rows in PRINTED.values())
    assert main(tmp_path) == 1


@pytest.mark.skipif(not _PAPERS, reason="the papers' texts are not in the repository: SPECPLAN_PAPERS names a folder")
def test_every_number_stands_in_its_paper() -> None:
    assert main(Path(_PAPERS)) == 0
