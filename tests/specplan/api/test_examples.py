"""Every public name of `specplan` has an example, which the doctests of its module run, and stands in the reference."""

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

import specplan as sp
from specplan.show.result import Result

ROOT = Path(__file__).parents[3]
NAMES = [name for name in sp.__all__ if name != "__version__"]


def examples(name: str) -> doctest.DocTest:
    (found,) = doctest.DocTestFinder(recurse=False).find(getattr(sp, name), name)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example_with_a_result(name: str, pytestconfig: pytest.Config) -> None:
    told = examples(name).examples
    assert getattr(sp, name).__module__.split(".")[0] in pytestconfig.getini("testpaths"), "no doctest runs it"
    prefix = "" if getattr(sp, name).__module__.startswith("theory.") else "sp."  # closed forms have their own package
    assert any(f"{prefix}{name}(" in one.source for one in told)
    assert any(one.want for one in told)


def test_the_reference_has_every_name() -> None:
    text = (ROOT / "docs" / "reference" / "python-api.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`sp.{name}`" not in text] == []
    for result in set(re.findall(r"`(specplan\.api\.\w+\.\w+)`", text)):
        module, _, kind = result.rpartition(".")
        assert issubclass(getattr(import_module(module), kind), Result)
        assert f"autoclass:: {result}\n" in text
