"""Algorithms 2, 3 and 4 of Lookahead Decoding run exactly: every draw is a branch with a rational probability.

The runs follow the printed lines (D holds one distribution per drafted token, read afresh at line 13), so that what the
ledger says about the algorithms is said about their text. `Rules` switches single lines off for the mutants.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ledger.proving.sequences import ONE, ZERO, Items, Law, Model, add, completed, target_law, weighted_model

__all__ = [
    "AS_PRINTED",
    "Gram",
    "Law",
    "Model",
    "Rules",
    "completed",
    "gram_lists",
    "greedy_models",
    "greedy_run",
    "greedy_verification",
    "jacobi_iterations",
    "model_family",
    "sample_verification",
    "target_law",
]

Gram = Items
"""An n-gram without its first token, which is the current input (line 6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Lines of Algorithm 4 that a mutant leaves out."""

    zero: bool = True
    """Line 32: a rejected token loses its mass."""
    renormalise: bool = True
    """Line 33: the remaining mass is scaled back to one."""
    filter_prefix: bool = True
    """Lines 21 to 27: after an acceptance only the n-grams with that token stay."""
    extra: bool = True
    """Lines 46 to 48: a fully accepted n-gram earns one more token."""
    current: bool = False
    """Not in the paper: D also holds the distribution after the current token when there is no n-gram."""


AS_PRINTED = Rules()


def sample_verification(model: Model, grams: Sequence[Gram], size: int, rules: Rules = AS_PRINTED) -> Law:
    """Law of the tokens that Algorithm 4 emits for n-grams of size `size`.

    Raises
    ------
    LookupError : there is no n-gram, so D is empty and line 13 has nothing to read.
    """
    if not grams and not rules.current:
        raise LookupError("D is empty: line 13 reads D[1]")
    law: Law = {}
    _position(model, tuple(grams), size, (), ONE, rules, law)
    return law


def _position(model: Model, v: tuple[Gram, ...], size: int, out: Gram, mass: Fraction, rules: Rules, law: Law) -> None:
    """Lines 10 to 48 at position i = len(out) + 1; `mass` is the probability of having come here."""
    i = len(out)
    # D[1]_i is the distribution after the first i - 1 tokens of V[1]; without filtering that need not be the output
    after = v[0][:i] if v else out
    p = list(model(after))
    if i == size - 1:
        for token, q in enumerate(p if rules.extra else ()):
            add(law, (*out, token), mass * q)
        if not rules.extra:
            add(law, out, mass)
        return
    for j, gram in enumerate(v):
        s = gram[i]
        accept = p[s]
        if accept:
            kept = tuple(g for g in v[j:] if g[i] == s) if rules.filter_prefix else v[j:]
            _position(model, kept, size, (*out, s), mass * accept, rules, law)
        mass *= 1 - accept
        if not mass:
            return
        p = _after_rejection(p, s, rules)
    for token, q in enumerate(p):
        add(law, (*out, token), mass * q)


def _after_rejection(p: list[Fraction], s: int, rules: Rules) -> list[Fraction]:
    """Lines 32 and 33."""
    rest = [ZERO if rules.zero and token == s else q for token, q in enumerate(p)]
    total = sum(rest, ZERO)
    return [q / total for q in rest] if rules.renormalise else rest


def greedy_run(choose: Callable[[Gram], int], length: int) -> Gram:
    """Autoregressive greedy decoding."""
    out: Gram = ()
    while len(out) < length:
        out = (*out, choose(out))
    return out


def greedy_verification(
    choose: Callable[[Gram], int], grams: Sequence[Gram], size: int, rules: Rules = AS_PRINTED
) -> Gram:
    """Tokens that Algorithm 3 emits (at least one n-gram)."""
    v, out = list(grams), list[int]()
    for i in range(size - 1):
        best = choose(v[0][:i])
        j = next((j for j, gram in enumerate(v) if gram[i] == best), None)
        out.append(best)
        if j is None:
            return tuple(out)
        v = [g for g in v[j:] if g[i] == best or not rules.filter_prefix]
    return (*out, choose(v[0])) if rules.extra else tuple(out)


def greedy_models(depth: int) -> Iterator[Callable[[Gram], int]]:
    """All greedy targets on two tokens, `depth` positions deep: 128 of them at depth 3."""
    contexts = [c for n in range(depth) for c in itertools.product((0, 1), repeat=n)]
    for answers in itertools.product((0, 1), repeat=len(contexts)):
        yield dict(zip(contexts, answers, strict=True)).__getitem__


def jacobi_iterations(choose: Callable[[Gram], int], guess: Gram) -> tuple[int, Gram]:
    """Updates that Algorithm 2 makes before all tokens are accepted, and the accepted tokens.

    A token counts as accepted when every input token before it agreed with the output.
    """
    y, accepted, updates = guess, 0, 0
    while accepted < len(guess):
        new = tuple(choose(y[:t]) for t in range(len(guess)))
        updates += 1
        accepted = min(
            len(guess), 1 + next((t for t, (a, b) in enumerate(zip(y, new, strict=True)) if a != b), len(guess))
        )
        y = new
    return updates, y[:accepted]


def model_family(vocabulary: int, members: int) -> Iterator[Model]:
    """Different rational models: one-hot, uniform, then prefix-dependent weights with zeros among them."""
    yield lambda out: tuple(ONE if t == len(out) % vocabulary else ZERO for t in range(vocabulary))
    yield lambda _out: (Fraction(1, vocabulary),) * vocabulary
    for seed in range(2, members):
        yield weighted_model(seed, vocabulary)


def gram_lists(vocabulary: int, length: int, most: int) -> Iterator[tuple[Gram, ...]]:
    """All ordered lists of 1 to `most` sequences of `length` tokens, duplicates included."""
    grams = list(itertools.product(range(vocabulary), repeat=length))
    for n in range(1, most + 1):
        yield from itertools.product(grams, repeat=n)
