"""What holds of every command: it prints what the function returns, fits a terminal, and refuses in one line."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from specplan.output import SCREEN, to_json
from specplan.show.result import Result

Main = Callable[..., tuple[int, str, str]]
"""The fixture `run_main`: words to exit code, stdout and stderr."""


def check_printed(run_main: Main, words: tuple[str, ...], found: Result, *, code: int = 0) -> None:
    """Check that a command ends with ``code`` and prints what a function returned, which has a full text and JSON too.

    That -v and --json print these holds of all commands alike, see `test_reproducing`.
    """
    assert run_main(*words) == (code, f"{found.text()}\n", "")
    assert found.text(verbose=True)
    assert json.loads(to_json(found.plain()))


def check_screen(found: Result, most: int = 40) -> list[str]:
    """Check that the first screen fits, fewer than ``most`` lines, and begins with the headline; return its lines."""
    lines = found.text().splitlines()
    assert max(map(len, lines)) <= SCREEN
    assert len(lines) < most
    assert " ".join(found.text().split("\n\n")[0].split()) == found.headline()
    return lines


def refusal(run_main: Main, *words: str, code: int = 2) -> str:
    """Return the line on stderr with which a command refuses its arguments; it prints nothing else."""
    found, out, err = run_main(*words)
    assert (found, out, err.count("\n")) == (code, "", 1), err
    assert err.startswith("specplan: error: ")
    return err


def refused_words(before: str, *cases: tuple[str | Sequence[str], str]) -> Callable[..., None]:
    """Return a test with a case for each row of words after ``before``: refused as the row says, no file is made."""
    rows = [(words.split() if isinstance(words, str) else words, said) for words, said in cases]

    @pytest.mark.parametrize(("words", "said"), rows, ids=[" ".join(words) for words, _ in rows])
    def test(words: Sequence[str], said: str, run_main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert said in refusal(run_main, *before.split(), *words)
        assert list(tmp_path.iterdir()) == []

    return test
