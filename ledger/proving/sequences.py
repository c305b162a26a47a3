"""Laws over short sequences of tokens or steps, exactly: every draw is a branch with a rational probability."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

__all__ = ["Items", "Law", "Model", "add", "completed", "target_law", "weighted_model"]

Items = tuple[int, ...]
"""Tokens or meanings of steps, as small integers."""
Model = Callable[[Items], tuple[Fraction, ...]]
"""What was emitted so far -> probabilities of what comes next."""
Law = dict[Items, Fraction]
"""Sequence -> probability."""

ZERO, ONE = Fraction(0), Fraction(1)


def add(law: Law, key: Items, mass: Fraction) -> None:
    """Give the sequence more mass; none where there is none to give."""
    if mass:
        law[key] = law.get(key, ZERO) + mass


def completed(law: Law, model: Model, length: int) -> Law:
    """Law of the first `length` tokens when the target continues without drafts after the emitted ones."""
    done: Law = {}
    for out, mass in law.items():
        if len(out) >= length:
            add(done, out[:length], mass)
            continue
        for token, q in enumerate(model(out)):
            if q:
                for longer, share in completed({(*out, token): mass * q}, model, length).items():
                    add(done, longer, share)
    return done


def target_law(model: Model, length: int) -> Law:
    """Law of the first `length` tokens of plain decoding."""
    return completed({(): ONE}, model, length)


def weighted_model(seed: int, size: int) -> Model:
    """Weights 0 to 4 that depend on seed, sequence and what comes next, zeros among them."""

    def model(so_far: Items) -> tuple[Fraction, ...]:
        state = seed + sum((item + 2) * 3**place for place, item in enumerate(so_far))
        weights = [(state * (item + 3) + item * item) % 5 for item in range(size)]
        weights[state % size] += 1
        return tuple(Fraction(w, sum(weights)) for w in weights)

    return model
