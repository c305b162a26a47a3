"""The front door: the names of `theory`, one symbol table, and an import that costs nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import theory
from theory import budget, errors, optimum, parallelism, speedup

SOURCE = Path(theory.__file__)


def test_all_public_names_come_from_their_homes_and_type_checkers_see_the_same() -> None:
    homes = {home.__name__: home for home in (errors, optimum, parallelism, speedup, budget)}
    assert {name: vars(homes[home])[name] for name, home in theory._HOME.items()} == {
        name: getattr(theory, name) for name in theory.__all__
    }
    left_out = {"MAX_BUDGET", "REGIMES", "TIE_RTOL", "check_integers", "shown"}
    assert {name for home in homes.values() for name in home.__all__} - left_out == set(theory.__all__)
    block = next(node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If))
    seen = {(node.module, alias.name) for node in block.body for alias in node.names}  # type: ignore[attr-defined]
    assert seen == {(home, name) for name, home in theory._HOME.items()}
    with pytest.raises(AttributeError, match="module 'theory' has no attribute 'f_asink'"):
        _ = theory.f_asink  # type: ignore[attr-defined]


def test_import_loads_nothing_heavy_and_the_optimiser_numpy_alone() -> None:
    code = """import sys, theory
heavy = {'scipy', 'sympy', 'flint', 'mpmath', 'torch'}
assert not sys.modules.keys() & (heavy | {'numpy'}), 'import'
theory.best_hybrid(.6, .2, .7, .1, 16, 'async')
assert not sys.modules.keys() & heavy, 'optimiser'"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=SOURCE.parents[1])
