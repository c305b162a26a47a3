"""The front door: the names of `theory`, one symbol table, and an import that costs nothing."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import theory
from theory import budget, errors, optimum, parallelism, speedup

SOURCE = Path(theory.__file__)


def test_every_name_comes_from_its_home() -> None:
    for name in theory.__all__:
        home = import_module(getattr(theory, name).__module__)
        assert getattr(theory, name) is getattr(home, name)
        assert name in home.__all__


def test_what_type_checkers_see_is_what_is_exported() -> None:
    block = next(node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If))
    seen = {(node.module, alias.name) for node in block.body for alias in node.names}  # type: ignore[attr-defined]
    assert seen == {(home, name) for name, home in theory._HOME.items()}


def test_nothing_public_is_left_out() -> None:
    ours = set(errors.__all__) | set(optimum.__all__) | set(parallelism.__all__) | set(speedup.__all__)
    others = {"MAX_BUDGET", "REGIMES", "TIE_RTOL", "check_integers", "shown"}
    assert set(theory.__all__) == (ours | set(budget.__all__)) - others


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'theory' has no attribute 'f_asink'"):
        _ = theory.f_asink  # type: ignore[attr-defined]


def test_import_loads_nothing_heavy_and_the_optimiser_numpy_alone() -> None:
    code = """import sys, theory
heavy = {'scipy', 'sympy', 'flint', 'mpmath', 'torch'}
assert not sys.modules.keys() & (heavy | {'numpy'}), 'import'
theory.best_hybrid(.6, .2, .7, .1, 16, 'async')
assert not sys.modules.keys() & heavy, 'optimiser'"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=SOURCE.parents[1])
