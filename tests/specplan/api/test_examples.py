"""Every public name of `specplan` has an example that runs, and stands in the reference."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

import specplan as sp
from specplan.show.result import Result

ROOT = Path(__file__).parents[3]
NAMES = [name for name in sp.__all__ if name != "__version__"]
WITH_MODELS = ("calibrate", "validate")
"""Their examples start engines: the doctests of the package run them, with the slow ones."""


def examples(name: str) -> doctest.DocTest:
    (found,) = doctest.DocTestFinder(recurse=False).find(getattr(sp, name), name)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example_with_a_result(name: str) -> None:
    told = examples(name).examples
    prefix = "" if getattr(sp, name).__module__.startswith("theory.") else "sp."  # closed forms have their own package
    assert any(f"{prefix}{name}(" in one.source for one in told)
    assert any(one.want for one in told)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITH_MODELS])
def test_examples_run(name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failed, tried = runner.run(examples(name))
    assert tried
    assert not failed


def test_the_reference_has_every_name() -> None:
    text = (ROOT / "docs" / "reference" / "python-api.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`sp.{name}`" not in text] == []
    for result in set(re.findall(r"`(specplan\.api\.\w+\.\w+)`", text)):
        module, _, kind = result.rpartition(".")
        assert issubclass(getattr(import_module(module), kind), Result)
        assert f"autoclass:: {result}\n" in text
