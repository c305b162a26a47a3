"""A proof takes the numbers of what it proves from the statement: its code repeats none of them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from types import FunctionType
from typing import Any

import pytest

from ledger.ledger import Claim, claims
from ledger.proving.cases import Predicate
from ledger.proving.formulas import Formula
from ledger.proving.records import Given, Verifier

Statement = Formula | Predicate
COMMON = {Fraction(1, 2), *map(Fraction, range(-2, 17))}
"""Numbers that proofs are full of, and that say nothing about where they come from."""


def _given() -> Iterator[tuple[Claim, Callable[..., Any], Statement]]:
    """Proofs that read their statement."""
    for item in claims():
        for verify, statement in (
            (item.verify, item.formula),
            (item.correction_verify, item.correction_formula),
        ):
            reads = isinstance(verify, Verifier) and isinstance(verify.check, Given)
            if reads and isinstance(statement, (Formula, Predicate)):
                yield item, verify.check.derive, statement


GIVEN = list(_given())


def _numbers(statement: Statement) -> set[Fraction]:
    """The statement's own numbers: its constants and the ends of its ranges."""
    found = set(statement.numbers.values()) if isinstance(statement, Predicate) else set()
    for values in statement.domain.values():
        found |= {end for end in (values.low, values.high) if end is not None} if values.real else set()
    return found - COMMON


def _literals(function: FunctionType) -> set[Fraction]:
    """Numbers and fractions as text in the code of a function, points of a search left out."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    points = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Dict) for inner in ast.walk(node)}
    return {
        value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and id(node) not in points and (value := _number(node.value)) is not None
    }


def _number(value: object) -> Fraction | None:
    try:
        return Fraction(str(value)) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
    except (ValueError, ZeroDivisionError):
        return None


def _reached(derive: Callable[..., Any]) -> list[FunctionType]:
    """The function and those of its module that it names, and so on."""
    waiting, found = [derive.func if isinstance(derive, partial) else derive], []
    while waiting:
        function = waiting.pop()
        if not isinstance(function, FunctionType) or function in found:
            continue
        found.append(function)
        inner = [function.__code__, *(c for c in function.__code__.co_consts if inspect.iscode(c))]
        names = {name for code in inner for name in code.co_names}
        waiting += [function.__globals__[name] for name in names if name in function.__globals__]
    return [each for each in found if each.__module__ == found[0].__module__]


@pytest.mark.parametrize(("item", "derive", "statement"), GIVEN, ids=[each[0].id for each in GIVEN])
def test_no_literal_repeats_a_number_of_the_statement(item: Claim, derive: Any, statement: Statement) -> None:
    for function in _reached(derive):
        repeated = _literals(function) & _numbers(statement)
        assert not repeated, f"{item.id}: {function.__name__} repeats {sorted(map(str, repeated))}"


def test_the_lint_sees_a_literal_that_is_repeated() -> None:
    def proof(statement: Statement) -> bool:
        return Fraction("1.157") > 1

    assert _literals(_reached(proof)[0]) & {Fraction(1157, 1000)}


def test_every_constant_with_a_name_is_read_by_a_proof() -> None:
    """Statements with constants of their own, and the proofs that read them."""
    named = {
        item.id
        for item in claims()
        for statement in (item.formula, item.correction_formula)
        if isinstance(statement, Predicate) and statement.numbers
    }
    assert named == {item.id for item, _, statement in GIVEN if isinstance(statement, Predicate) and statement.numbers}
