"""The lint of words: what it sees, and that the folders which are clean stay so."""

from __future__ import annotations

import pytest

from workshop.words import CLEAN, ROOT, complaints


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""Of a thing."""\n', 1),
        ("x = 1  # as it was told\n", 1),
        ('def f(found: int) -> str:\n    return "done"\n', 1),
        ('y = 1\nprint(f"measured {y} beside it")\n', 2),
    ],
)
def test_it_sees_docstrings_comments_names_and_texts(source: str, line: int) -> None:
    assert [where for where, _ in complaints(source)] == [line]


def test_it_lets_other_words_pass() -> None:
    assert not list(complaints('"""Often: foundry."""\nspace = "founded"\n'))


def test_clean_folders_are_in_the_tree() -> None:
    assert all((ROOT / name).exists() for name in CLEAN)


def test_a_kept_name_passes_as_a_name_only() -> None:
    kept = '"""Work.\n\n    beside : seconds, of ``beside`` iterations.\n"""\nbeside = {"beside": 1}\n'
    assert not list(complaints(kept))
    assert len(list(complaints('"""Seconds of work beside others."""\n'))) == 1
