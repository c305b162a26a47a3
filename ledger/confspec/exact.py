"""Algorithm 1 of ConfSpec run exactly with finitely many step meanings: every draw is a rational branch.

A step is its meaning, a small integer, and verification compares meanings, so these runs separate what the schedule
does to the law of the trace from what verification errors do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Literal

from ledger.proving.sequences import ONE, ZERO, Items, Law, Model, add, weighted_model

__all__ = ["Fallback", "distance", "iteration", "models", "trace"]

Fallback = Literal["printed", "text", "reuse"]
"""After the first rejection: ``printed`` (lines 16 to 22) regenerates only if nothing was accepted, ``text`` (section
4.2) always regenerates, ``reuse`` commits the target step that the draft was compared with."""


def iteration(target: Model, draft: Model, context: Items, depth: int, fallback: Fallback) -> Law:
    """Law of the steps committed by one iteration with `depth` drafted steps and error-free verification."""
    law: Law = {}

    def grow(accepted: Items, mass: Fraction) -> None:
        if len(accepted) == depth:
            add(law, accepted, mass)
            return
        here = (*context, *accepted)
        p, q = target(here), draft(here)
        for guess, own in itertools.product(range(len(q)), range(len(p))):
            share = mass * q[guess] * p[own]
            if not share:
                continue
            if guess == own:
                grow((*accepted, guess), share)
            elif fallback == "reuse":
                add(law, (*accepted, own), share)
            elif accepted and fallback == "printed":
                add(law, accepted, share)
            else:
                for fresh, chance in enumerate(p):
                    add(law, (*accepted, fresh), share * chance)

    grow((), ONE)
    return law


def trace(target: Model, draft: Model, depth: int, length: int, fallback: Fallback, context: Items = ()) -> Law:
    """Law of the first `length` steps of the trace."""
    if len(context) >= length:
        return {context[:length]: ONE}
    law: Law = {}
    for steps, mass in iteration(target, draft, context, depth, fallback).items():
        for out, share in trace(target, draft, depth, length, fallback, (*context, *steps)).items():
            add(law, out, mass * share)
    return law


def distance(left: Law, right: Law) -> Fraction:
    """Total variation."""
    return sum((abs(left.get(k, ZERO) - right.get(k, ZERO)) for k in left.keys() | right.keys()), ZERO) / 2


def models(meanings: int, members: int) -> Iterator[Model]:
    """Prefix-dependent rational laws: the uniform one, a sure one, then weights 0 to 4 with zeros among them."""
    yield lambda _steps: (Fraction(1, meanings),) * meanings
    yield lambda _steps: tuple(ONE if meaning == 0 else ZERO for meaning in range(meanings))
    for seed in range(2, members):
        yield weighted_model(seed, meanings)
