"""The lint of words: what it sees, and what it looks at."""

import pytest

from workshop.words import EXCEPTIONS, ROOT, complaints, watched


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


def test_everything_is_watched_but_the_exceptions_each_of_which_needs_to_be_one() -> None:
    assert ROOT / "specplan" / "cli.py" in watched()
    for name in EXCEPTIONS:
        path = ROOT / name
        files = [path] if path.is_file() else list(path.rglob("*.py"))
        assert not set(files) & set(watched())
        assert any(list(complaints(file.read_text(encoding="utf-8"))) for file in files), f"{name} is clean: watch it"


def test_a_kept_name_passes_as_a_name_only() -> None:
    kept = '"""Work.\n\n    beside : seconds, of ``beside`` iterations.\n"""\nbeside = {"beside": 1}\n'
    assert not list(complaints(kept))
    assert len(list(complaints('"""Seconds of work beside others."""\n'))) == 1
