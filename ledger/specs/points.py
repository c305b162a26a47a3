"""Statements of SPECS at random and extreme points: two letters, or two blocks of two letters, in exact fractions.

Each test takes an `Instance` or a `Tree` and the width, so that a verifier and the record of its claim share it.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Final

from flint import arb

from ledger.proving.balls import point, precision
from ledger.proving.cases import Predicate
from ledger.proving.combine import Part, all_of, exact_step
from ledger.proving.domains import Range, between, one_of, whole
from ledger.proving.margins import Margin
from ledger.proving.records import Given
from ledger.specs.block_tree import Tree
from ledger.specs.exact import HALF, Instance

__all__ = ["in_full", "own_drafts", "poisson_weights", "two_blocks", "two_letters"]

_UNIT: Final = between(0, 1)
_POSITIVE: Final = between(0, None)

OneBlock = Callable[..., Margin | bool]
"""Takes the instance, the width, and the numbers of the statement."""


def two_letters(
    text: str,
    test: OneBlock,
    *,
    widths: tuple[int, int] = (1, 4),
    means: Range | None = None,
    own: bool = False,
    **numbers: Fraction,
) -> Predicate:
    """A statement about one block: letters 1 and 2, of which the second one's exponentiated reward is ``tilt2``.

    Its n is a width, or a real number of ``means``. ``own``: the target generates.
    """

    def holds(
        target1: Fraction, tilt2: Fraction, n: Fraction, gen1: Fraction | None = None, **numbers: Fraction
    ) -> Margin | bool:
        target, first = (target1, 1 - target1), target1 if gen1 is None else gen1
        instance = Instance(gen=(first, 1 - first), target=target, tilt=(Fraction(1), tilt2))
        return test(instance, int(n) if means is None else n, **numbers)

    domain = {"gen1": _UNIT, "target1": _UNIT, "tilt2": _POSITIVE, "n": means or whole(*widths)}
    if own:
        del domain["gen1"]
    return Predicate(text=text, test=holds, domain=domain, numbers=numbers)


own_drafts = partial(two_letters, own=True)


def in_full(number: str, what: str, *parts: Part) -> Given:
    """A proof of a bound that gives all of it, and so no statement whose number of this name is less than one."""
    return Given(lambda statement: all_of(exact_step(statement.numbers[number] >= 1, what), *parts))


def two_blocks(text: str, test: Callable[..., Margin | bool], **numbers: Fraction) -> Predicate:
    """A statement about two blocks: laws that depend on the first letter, rewards of letter pairs, a threshold."""

    def holds(
        target1: Fraction,
        draft1: Fraction,
        tilt2: Fraction,
        tilt3: Fraction,
        n: Fraction,
        threshold: Fraction,
        **numbers: Fraction,
    ) -> Margin | bool:
        rewards = (Fraction(1), tilt2, tilt3, Fraction(1))
        tree = Tree(
            name=f"{target1} {draft1} {tilt2} {tilt3}",
            horizon=2,
            target={(): (target1, 1 - target1), (0,): (HALF, HALF), (1,): (1 - target1, target1)},
            draft={(): (HALF, HALF), (0,): (draft1, 1 - draft1), (1,): (1 - draft1, draft1)},
            tilt=dict(zip(((0, 0), (0, 1), (1, 0), (1, 1)), rewards, strict=True)),
        )
        return test(tree, int(n), threshold, **numbers)

    domain = {
        **{"target1": _UNIT, "draft1": _UNIT, "tilt2": _POSITIVE, "tilt3": _POSITIVE},
        **{"n": whole(1, 2), "threshold": one_of(0, 1, 100)},
    }
    return Predicate(text=text, test=holds, domain=domain, numbers=numbers)


def poisson_weights(mean: Fraction, most: int) -> list[arb]:
    """Chances of the widths 1 to ``most`` under a Poisson law of this mean, given that it is not zero."""
    with precision(64):
        chances, mass = [], point(1) / (point(mean).exp() - 1)
        for width in range(1, most + 1):
            mass = mass * point(mean) / width
            chances.append(mass)
        return chances
