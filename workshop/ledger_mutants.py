"""False statements next to those of the ledger, and how many of them its proofs and its search reject.

``python -m workshop.ledger_mutants 500 SEED`` changes statements that hold by 1 %: constants, exponents, ends of
ranges, floors, directions, and conditions that are dropped. Changes that only weaken a statement are not made. A
statement with more than 1 % of room is not asked to notice so small a change: the coefficient of a side is changed by
its room and 1 % more, and its constants and ranges stay. An end of a range is moved only where the statement is nearly
an equality at it. A mutant falls when the search refutes it, or when the proof, given the mutant, does not go through.
Others are true, as their own proof or the record of the claim shows, or they are printed with the room that is left.
"""

from __future__ import annotations

import ast
import copy
import itertools
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from ledger.ledger import Claim, Verdict, claims
from ledger.proving.cases import Predicate
from ledger.proving.domains import Range
from ledger.proving.formulas import Formula
from ledger.proving.margins import Margin
from ledger.proving.records import Given, Verifier
from ledger.proving.search import families
from ledger.proving.search.falsifier import Effort, Finding, falsified

__all__ = ["Changed", "Outcome", "changes", "sampled", "tried"]

_SHARE: Final = Fraction(1, 100)
"""By how much a constant is changed, and a range, of its width."""
_SEEN: Final = 1e-6
"""Room below which both sides are equal for some reason of their own, and an end of a range says nothing."""
_CLAIMS_MORE: Final = frozenset({"range", "condition", "direction"})
"""Kinds of changes of which none weakens."""
_WHATEVER_ROOM: Final = frozenset({"condition", "direction", "floor", "beyond"})
_NOTICED: Final = 1e-3
"""Share of the room by which it must shrink, for rounding shrinks it too."""
_NEAR: Final = 0.5
"""Distance from an edge within which distances compare: far off their scale changes too."""
_TRIED: Final = 60
"""Points at which it is asked whether a change makes a statement stronger."""
_LONGER: Final = Effort(exact=400, floats=200, starts=12, steps=100, seconds=3.0)
"""The second search of what stands."""
_FLIPPED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.Gt,
    ast.Gt: ast.Lt,
    ast.GtE: ast.Lt,
}
_ROUNDED: Final = {"floor": "ceiling", "ceiling": "floor"}

Statement = Formula | Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A mutant of a statement of a claim."""

    claim: Claim
    corrected: bool
    """The correction is changed, not the claim as printed."""
    kind: str
    """``constant``, ``exponent``, ``coefficient`` (``beyond`` the room), ``range``, ``floor``, ``direction``, ..."""
    what: str
    """The change in words."""
    statement: Statement

    def __str__(self) -> str:
        """Return the claim and the change."""
        return f"{self.claim.id}{' corrected' if self.corrected else ''}, {self.kind}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a mutant."""

    changed: Changed
    fate: str
    """``refuted``, ``unproved``, ``longer`` for refuted by a longer search, ``proved`` or ``stands``."""
    finding: Finding

    @property
    def falls(self) -> bool:
        """The search refutes it, or its own proof does not go through."""
        return self.fate in {"refuted", "unproved", "longer"}

    @property
    def why_true(self) -> str:
        """Why a mutant that does not fall is true, as far as that is known."""
        said = set(f"{self.changed.kind} {self.changed.what}".split())
        reasons = (why for words, why in self.changed.claim.stands.items() if set(words.split()) <= said)
        return "its own proof goes through" if self.fate == "proved" else next(reasons, "")


def holding() -> Iterator[tuple[Claim, bool, Statement]]:
    """Every statement that is to hold and that a machine can try."""
    for claim in claims():
        printed = None if claim.needs_correction else claim.formula
        for corrected, statement in ((False, printed), (True, claim.correction_formula)):
            if isinstance(statement, (Formula, Predicate)):
                yield claim, corrected, statement


def changes(claim: Claim, corrected: bool, statement: Statement, rng: random.Random) -> list[Changed]:
    """Mutants of a statement that claim more than it does, as far as that can be told."""
    finding = falsified(statement, claim.id)
    share = _SHARE + _room_of(finding)
    made = [*(_of_formula(statement, share) if isinstance(statement, Formula) else _of_predicate(statement))]
    kept = [each for each in made if share == _SHARE or each[0] in _WHATEVER_ROOM]
    return [
        Changed(claim=claim, corrected=corrected, kind=kind, what=what, statement=mutant)
        for kind, what, mutant in (*kept, *_of_ranges(statement, finding))
        if kind in _CLAIMS_MORE or _stronger(statement, mutant, rng)
    ]


def _room_of(finding: Finding) -> Fraction:
    """Room of a statement that has more of it than a change of 1 % takes, in whole permille; otherwise 0."""
    room = finding.room or 0.0
    return Fraction(0) if room < _SHARE else Fraction(math.ceil(1000 * room), 1000)


def tried(changed: Changed, seed: str) -> Outcome:
    """Search a mutant for a failure, then ask the proof of the claim whether it proves the mutant."""
    finding = falsified(changed.statement, seed)
    if finding.failing is not None:
        return Outcome(changed=changed, fate="refuted", finding=finding)
    verify = changed.claim.correction_verify if changed.corrected else changed.claim.verify
    if not (isinstance(verify, Verifier) and isinstance(verify.check, Given)):
        return Outcome(changed=changed, fate="stands", finding=finding)
    holds = verify.of(changed.statement).verdict in {Verdict.PROVED, Verdict.NUMERIC}
    return Outcome(changed=changed, fate="proved" if holds else "unproved", finding=finding)


def sampled(n: int, seed: str, most: int = 1000) -> Iterator[Outcome]:
    """Try up to ``n`` mutants of up to ``most`` statements: in turn, in a random order, a random one of each."""
    rng, statements = random.Random(seed), list(holding())
    rng.shuffle(statements)
    waiting = [changes(*each, rng) for each in statements[:most]]
    for each in waiting:
        rng.shuffle(each)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*waiting))
    for chosen in itertools.islice(filter(None, turns), n):
        yield tried(chosen, f"{seed} {chosen}")


def _of_formula(formula: Formula, share: Fraction) -> Iterator[tuple[str, str, Formula]]:
    """Changes of its texts; of one with room, of the sides of a single comparison."""
    relation = ast.parse(formula.relation.strip().replace("\n", " "), mode="eval").body
    single = isinstance(relation, ast.Compare) and len(relation.ops) == 1
    for kind, what, changed in _of_text(formula.relation, share):
        more = share > _SHARE and single and share < 1 and kind == "coefficient"
        yield "beyond" if more else kind, f"{what} in the relation", replace(formula, relation=changed)
    without = [replace(formula, premise=kept) for kept in _without_each(formula.premise)]
    for i, weaker in enumerate(without):
        yield "condition", f"without condition {i + 1}", weaker
    if without and all(falsified(each, each.premise).failing for each in without):
        for kind, what, changed in _of_text(formula.premise, _SHARE):
            yield kind, f"{what} in the premise", replace(formula, premise=changed)


def _without_each(text: str) -> Iterator[str]:
    """A premise with one condition less; where all are needed, they are changed too."""
    if not text:
        return
    premise = ast.parse(text, mode="eval").body
    parts = premise.values if isinstance(premise, ast.BoolOp) and isinstance(premise.op, ast.And) else [premise]
    for left_out in parts:
        yield " and ".join(f"({ast.unparse(part)})" for part in parts if part is not left_out)


def _of_text(text: str, share: Fraction) -> Iterator[tuple[str, str, str]]:
    """Changes of one node each; ``share`` is that of coefficients."""
    tree = ast.parse(text.strip().replace("\n", " "), mode="eval")
    exponents = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
                 for inner in ast.walk(node.right)}  # fmt: skip
    counted = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Sum"
               for inner in ast.walk(node)}  # fmt: skip
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    scaled = {id(each) for node in ast.walk(tree) if isinstance(node, ast.Compare) for each in _scaled(node)}
    scaled -= counted | called
    powers = {id(node.right) for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
              and not isinstance(node.right, ast.Constant)} - counted  # fmt: skip
    for at, node in enumerate(ast.walk(tree)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, int | float)
            and id(node) not in counted
            and node.value
        ):
            for sign in (1, -1):
                value = Fraction(str(node.value)) * (1 + sign * _SHARE)
                new = ast.parse(f"({value.numerator}/{value.denominator})", mode="eval").body
                kind = "exponent" if id(node) in exponents else "constant"
                yield kind, f"{float(value):g} for {node.value} (node {at})", _with(tree, at, new)
        elif (id(node) in scaled or id(node) in powers) and isinstance(node, ast.expr):
            kind, by = ("coefficient", share) if id(node) in scaled else ("exponent", _SHARE)
            for factor in (1 - by, 1 / (1 - by)) if by < 1 else ():
                new = ast.parse(f"({factor}) * ({ast.unparse(node)})", mode="eval").body
                yield kind, f"{float(factor):.3g} of {ast.unparse(node)[:20]} (node {at})", _with(tree, at, new)
        elif isinstance(node, ast.Call) and (other := _ROUNDED.get(ast.unparse(node.func))):
            new = ast.Call(func=ast.Name(id=other), args=node.args, keywords=[])
            yield "floor", f"{other} (node {at})", _with(tree, at, new)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and (flipped := _FLIPPED.get(type(node.ops[0]))):
            new = ast.Compare(left=node.left, ops=[flipped()], comparators=node.comparators)
            yield "direction", f"the other direction (node {at})", _with(tree, at, new)


def _scaled(relation: ast.Compare) -> Iterator[ast.AST]:
    """What a coefficient is put before: the sides of an inequality, and each variable of an equality."""
    sides = [relation.left, *relation.comparators]
    if not isinstance(relation.ops[0], ast.Eq):
        yield from (side for side in sides if not isinstance(side, ast.Constant))
        return
    yield from (node for side in sides for node in ast.walk(side) if isinstance(node, ast.Name))


def _with(tree: ast.Expression, at: int, new: ast.expr) -> str:
    """The text with another node in one place."""
    changed = copy.deepcopy(tree)
    old = list(ast.walk(changed))[at]
    for parent in ast.walk(changed):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(each is old for each in value):
                setattr(parent, name, [new if each is old else each for each in value])
    return ast.unparse(ast.fix_missing_locations(changed))


def _of_predicate(predicate: Predicate) -> Iterator[tuple[str, str, Predicate]]:
    """Changes of its numbers, of its premise and of its direction."""
    for name, value in predicate.numbers.items():
        for sign in (1, -1):
            moved = value * (1 + sign * _SHARE)
            yield (
                "constant",
                f"{name} = {float(moved):g}",
                replace(predicate, numbers={**predicate.numbers, name: moved}),
            )
    if predicate.given:
        yield "condition", f"without {predicate.given}", replace(predicate, premise=None)

    def against(**point: Any) -> Margin | bool:
        margin = predicate.test(**point)
        return ~margin if isinstance(margin, Margin) else not margin

    yield "direction", "the opposite", replace(predicate, test=against)


def _of_ranges(statement: Statement, finding: Finding) -> Iterator[tuple[str, str, Statement]]:
    """A range that is wider by 1 %, or by a step, at an end where the statement is nearly an equality."""
    if finding.at is None or finding.room is None or not _SEEN < finding.room < _SHARE:
        return
    for name, values in statement.domain.items():
        for what, wider in _wider(values, finding.at[name]):
            yield "range", f"{name} {what}", replace(statement, domain={**statement.domain, name: wider})


def _wider(values: Range, nearest: Fraction) -> Iterator[tuple[str, Range]]:
    """Wider at the end that is nearest to a failure."""
    by = values.step or values.width * _SHARE
    if values.listed or not values.low - (by if values.step else 0) > 0:
        return
    if nearest - values.low <= (0 if values.step else by):
        yield f"from {float(values.low - by):g}", replace(values, low=values.low - by)
    if values.high not in {None, 1} and values.high - nearest <= (0 if values.step else by):
        yield f"to {float(values.high + by):g}", replace(values, high=values.high + by)


def _stronger(statement: Statement, mutant: Statement, rng: random.Random) -> bool:
    """Somewhere the mutant has less room, or its premise admits more."""
    for point in (*families.scattered(statement.domain, _TRIED, rng), *families.inside(statement.domain, _TRIED, rng)):
        floats = {name: float(x) if statement.domain[name].real else x for name, x in point.items()}
        try:
            room, other = (one.near(floats) for one in (statement, mutant))
            admitted, also = (one.assumed(floats) for one in (statement, mutant))
        except (ArithmeticError, ValueError, TypeError):
            continue
        if (
            admitted.holds
            and room
            and other
            and abs(room.room) < _NEAR
            and other.room < room.room - _NOTICED * (abs(room.room) + _NOTICED)
        ):
            return True
        if abs(admitted.room) < _NEAR and also.room > admitted.room + _NOTICED * _NEAR:
            return True
    return False


def _again(outcome: Outcome) -> Outcome:
    """What stands is searched longer: what falls then is counted apart."""
    finding = falsified(outcome.changed.statement, "again", _LONGER)
    return replace(outcome, fate="stands" if finding.failing is None else "longer", finding=finding)


def main(arguments: list[str]) -> None:
    """Print what became of the mutants."""
    n, seed = int(arguments[0]) if arguments else 500, arguments[1] if len(arguments) > 1 else "1"
    outcomes = list(sampled(n, seed))
    outcomes = [one if one.falls or one.why_true else _again(one) for one in outcomes]
    true = [one for one in outcomes if not one.falls and one.why_true]
    falling, asked = sum(one.falls for one in outcomes), len(outcomes) - len(true)
    print(f"{len(outcomes)} mutants, {len(true)} of them true; {falling} of the other {asked} fall "
          f"({100 * falling / max(asked, 1):.1f} %)")  # fmt: skip
    by_kind = Counter((one.changed.kind, one.fate) for one in outcomes)
    for (kind, fate), count in sorted(by_kind.items()):
        print(f"  {kind:11} {fate:9} {count}")
    for one in outcomes:
        if not one.falls:
            print(f"{one.changed}: {f'true, {one.why_true}' if one.why_true else f'open; {one.finding}'}")


if __name__ == "__main__":
    main(sys.argv[1:])
