"""Reads a formula that is written as text: the one source of its sympy form, its balls and its LaTeX."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ledger.proving.deferred import sp
from theory.errors import ParameterError

if TYPE_CHECKING:
    import sympy

__all__ = ["read"]

_RELATIONS: Final = {ast.Lt: "Lt", ast.LtE: "Le", ast.Gt: "Gt", ast.GtE: "Ge", ast.Eq: "Eq"}
_OPERATIONS: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
    ast.Div: lambda x, y: x / y,
    ast.Pow: lambda x, y: x**y,
}
_FUNCTIONS: Final = ("log", "exp", "sqrt", "gamma", "Min", "Max", "floor", "ceiling", "binomial", "harmonic", "diff")


def read(text: str, forms: str = "") -> sympy.Basic:
    """The formula as sympy, relations unevaluated, so that none is decided by the signs of its symbols.

    Parameters
    ----------
    text : in Python's notation: relations (``==`` for equality, chains too), ``and``, ``or``, functions of sympy,
        ``Sum(term, i, low, high)``, ``diff(f, x)``. Every name is a positive symbol, a running index a whole number.
    forms : folder of a paper, whose closed forms in its module ``forms`` the text may call by name.

    Raises
    ------
    ParameterError : text that is no such formula.

    >>> print(read("0 < x**2 < 1/2"))
    (0 < x**2) & (x**2 < 1/2)
    """
    try:
        return _Reader(forms, {}).visit(ast.parse(text, mode="eval").body)
    except (SyntaxError, KeyError, TypeError) as error:
        raise ParameterError("relation", text, f"must be a formula in Python's notation; it stops at {error}") from None


def _function(name: str, forms: str) -> Any:
    """The function that a text calls by this name."""
    named = {each: getattr(sp, each) for each in _FUNCTIONS}
    if name not in named and forms:
        named = vars(importlib.import_module(f"ledger.{forms}.forms"))
    return named[name]


class _Reader(ast.NodeVisitor):
    """Turns nodes of Python's syntax tree into sympy."""

    def __init__(self, forms: str, indices: Mapping[str, sympy.Symbol]) -> None:
        self._forms, self._indices = forms, indices

    def generic_visit(self, node: ast.AST) -> Any:
        raise SyntaxError(ast.unparse(node))

    def visit_Compare(self, node: ast.Compare) -> Any:
        sides = [self.visit(each) for each in (node.left, *node.comparators)]
        kinds = [getattr(sp, _RELATIONS[type(each)]) for each in node.ops]
        parts = [kind(*both, evaluate=False) for kind, *both in zip(kinds, sides, sides[1:], strict=False)]
        return parts[0] if len(parts) == 1 else sp.And(*parts, evaluate=False)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        joined = sp.And if isinstance(node.op, ast.And) else sp.Or
        return joined(*map(self.visit, node.values), evaluate=False)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return _OPERATIONS[type(node.op)](self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return -self.visit(node.operand) if isinstance(node.op, ast.USub) else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> Any:
        return sp.Rational(str(node.value))

    def visit_Name(self, node: ast.Name) -> Any:
        return self._indices.get(node.id) or sp.Symbol(node.id, positive=True)

    def visit_Call(self, node: ast.Call) -> Any:
        name = ast.unparse(node.func)
        if name == "Sum":
            return self._sum(*node.args)
        return _function(name, self._forms)(*map(self.visit, node.args))

    def _sum(self, term: ast.expr, index: ast.expr, low: ast.expr, high: ast.expr) -> Any:
        """A running index belongs to its term only."""
        symbol = sp.Symbol(ast.unparse(index), integer=True, nonnegative=True)
        inner = _Reader(self._forms, {**self._indices, symbol.name: symbol})
        return sp.Sum(inner.visit(term), (symbol, self.visit(low), self.visit(high)))
