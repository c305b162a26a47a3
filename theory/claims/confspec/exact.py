"""Algorithm 1 of ConfSpec run exactly on worlds with finitely many step meanings: every draw is a rational branch.

A step is its meaning, a small integer, and verification compares meanings, so these runs separate what the schedule
does to the law of the trace from what verification errors do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Literal

__all__ = ["Fallback", "Steps", "World", "distance", "iteration", "target_trace", "trace", "worlds"]

Steps = tuple[int, ...]
World = Callable[[Steps], tuple[Fraction, ...]]
"""Committed steps -> law of the meaning of the next step."""
Fallback = Literal["printed", "text", "reuse"]
"""After the first rejection: ``printed`` (lines 16 to 22) regenerates only if nothing was accepted, ``text`` (section
4.2) always regenerates, ``reuse`` commits the target step that the draft was compared with."""
Law = dict[Steps, Fraction]

_ZERO, _ONE = Fraction(0), Fraction(1)


def _add(law: Law, key: Steps, mass: Fraction) -> None:
    if mass:
        law[key] = law.get(key, _ZERO) + mass


def iteration(target: World, draft: World, context: Steps, depth: int, fallback: Fallback) -> Law:
    """Law of the steps committed by one iteration with `depth` drafted steps and error-free verification."""
    law: Law = {}
    _grow(target, draft, context, (), depth, fallback, _ONE, law)
    return law


def _grow(
    target: World,
    draft: World,
    context: Steps,
    accepted: Steps,
    depth: int,
    fallback: Fallback,
    mass: Fraction,
    law: Law,
) -> None:
    if len(accepted) == depth:
        _add(law, accepted, mass)
        return
    here = (*context, *accepted)
    p, q = target(here), draft(here)
    for guess, own in itertools.product(range(len(q)), range(len(p))):
        share = mass * q[guess] * p[own]
        if not share:
            continue
        if guess == own:
            _grow(target, draft, context, (*accepted, guess), depth, fallback, share, law)
        elif fallback == "reuse":
            _add(law, (*accepted, own), share)
        elif accepted and fallback == "printed":
            _add(law, accepted, share)
        else:
            for fresh, chance in enumerate(p):
                _add(law, (*accepted, fresh), share * chance)


def trace(target: World, draft: World, depth: int, length: int, fallback: Fallback, context: Steps = ()) -> Law:
    """Law of the first `length` steps of the trace."""
    if len(context) >= length:
        return {context[:length]: _ONE}
    law: Law = {}
    for steps, mass in iteration(target, draft, context, depth, fallback).items():
        for out, share in trace(target, draft, depth, length, fallback, (*context, *steps)).items():
            _add(law, out, mass * share)
    return law


def target_trace(target: World, length: int, context: Steps = ()) -> Law:
    """Law of the first `length` steps of the target alone."""
    if len(context) == length:
        return {context: _ONE}
    law: Law = {}
    for step, mass in enumerate(target(context)):
        if mass:
            for out, share in target_trace(target, length, (*context, step)).items():
                _add(law, out, mass * share)
    return law


def distance(left: Law, right: Law) -> Fraction:
    """Total variation."""
    return sum((abs(left.get(k, _ZERO) - right.get(k, _ZERO)) for k in left.keys() | right.keys()), _ZERO) / 2


def worlds(meanings: int, members: int) -> Iterator[World]:
    """Prefix-dependent rational laws: the uniform one, a sure one, then weights 0 to 4 with zeros among them."""
    yield lambda _steps: (Fraction(1, meanings),) * meanings
    yield lambda _steps: tuple(_ONE if meaning == 0 else _ZERO for meaning in range(meanings))
    for seed in range(2, members):
        yield _weighted(seed, meanings)


def _weighted(seed: int, meanings: int) -> World:
    def world(steps: Steps) -> tuple[Fraction, ...]:
        state = seed + sum((step + 2) * 3**place for place, step in enumerate(steps))
        weights = [(state * (meaning + 3) + meaning * meaning) % 5 for meaning in range(meanings)]
        weights[state % meanings] += 1
        return tuple(Fraction(w, sum(weights)) for w in weights)

    return world
