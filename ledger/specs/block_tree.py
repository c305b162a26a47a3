"""SPECS over several blocks, exactly: a tree of next-block laws, its idealized process reward, the law of the output.

Everything is a `Fraction`. ``exp(beta V)`` of a prefix is the mean exponentiated reward of its completions under the
target, and the exponentiated process reward of a block is the ratio of two of them (Definitions 1 and 2).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod

from ledger.ledger import Evidence, Verdict
from ledger.proving.combine import counterexample
from ledger.proving.margins import Margin
from ledger.specs.exact import Law, chi_square, coverage, ratio, selection_law, tilted

__all__ = ["TREES", "Prefix", "Tree", "on_trees"]

Prefix = tuple[int, ...]
States = Mapping[tuple[Prefix, bool], Fraction]
"""Chance of each (prefix, whether the draft generates the next block)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Two letters per block; laws by prefix; exponentiated outcome rewards by full response."""

    name: str
    horizon: int
    target: Mapping[Prefix, Law]
    draft: Mapping[Prefix, Law]
    tilt: Mapping[Prefix, Fraction]
    letters: int = 2

    def __hash__(self) -> int:
        return hash(self.name)

    def responses(self) -> Iterator[Prefix]:
        """All full responses."""
        return itertools.product(range(self.letters), repeat=self.horizon)

    def prefixes(self) -> Iterator[Prefix]:
        """All proper prefixes, the empty one included."""
        for length in range(self.horizon):
            yield from itertools.product(range(self.letters), repeat=length)

    def value(self, prefix: Prefix, combine: Callable[[Law, Law], Fraction] | None = None) -> Fraction:
        """``exp(beta V)`` of a prefix; ``combine`` replaces the mean over the next block, for mutants."""
        if len(prefix) == self.horizon:
            return self.tilt[prefix]
        below = tuple(self.value((*prefix, y), combine) for y in range(self.letters))
        law = self.target[prefix]
        if combine is not None:
            return combine(law, below)
        return sum((p * v for p, v in zip(law, below, strict=True)), Fraction(0))

    def block_tilt(self, prefix: Prefix) -> Law:
        """``exp(beta r_PRM)`` of each next block."""
        here = self.value(prefix)
        return tuple(self.value((*prefix, y)) / here for y in range(self.letters))

    def block_optimum(self, prefix: Prefix) -> Law:
        """The optimal next-block law of Lemma 2."""
        return tilted(self.target[prefix], self.block_tilt(prefix))

    def optimum(self) -> Law:
        """The tilted target over full responses (Equation 3)."""
        responses = list(self.responses())
        return tilted([self.chance(self.target, y) for y in responses], [self.tilt[y] for y in responses])

    def chance(self, model: Mapping[Prefix, Law], y: Prefix) -> Fraction:
        """Probability of a response or prefix under a block-wise model."""
        return prod((model[y[:t]][letter] for t, letter in enumerate(y)), start=Fraction(1))

    def block_coverage(self) -> Fraction:
        """Theorem 1's coefficient: the largest product of the two density ratios over prefixes."""
        return max(coverage(self.target[u], self.draft[u]) for u in self.prefixes())

    def sequence_coverage(self) -> Fraction:
        """The coefficient of Equation 9 over full responses."""
        laws = [tuple(self.chance(m, y) for y in self.responses()) for m in (self.target, self.draft)]
        return coverage(laws[0], laws[1])

    def theta(self) -> Fraction:
        """``exp(beta R)`` for the width R of the outcome rewards."""
        return ratio(tuple(self.tilt.values()))

    def weights(self, prefix: Prefix, drafting: bool) -> Law:
        """Exponentiated scores of the next block for either generator."""
        gen = self.draft[prefix] if drafting else self.target[prefix]
        return tuple(t / g * e for t, g, e in zip(self.target[prefix], gen, self.block_tilt(prefix), strict=True))

    @lru_cache(maxsize=256)  # noqa: B019 - a handful of module-level trees, and those of a search
    def states(self, n: int, threshold: Fraction, *, drafting: bool = False) -> States:
        """Joint law of the response and of the last generator, by walking every draw of Algorithm 1.

        The generator of the next block is the draft once some candidate's exponentiated reward exceeds the threshold.
        """
        return self._walk(lambda prefix, flag: self._step(prefix, flag, n, threshold), drafting)

    def _walk(self, step: Callable[[Prefix, bool], Iterable[tuple[int, bool, Fraction]]], drafting: bool) -> States:
        """Joint law of the response and of the last generator, from (letter, next generator, chance) of each block."""
        now: States = {((), drafting): Fraction(1)}
        for _ in range(self.horizon):
            after: dict[tuple[Prefix, bool], Fraction] = {}
            for (prefix, flag), mass in now.items():
                for letter, switched, chance in step(prefix, flag):
                    key = ((*prefix, letter), switched)
                    after[key] = after.get(key, Fraction(0)) + mass * chance
            now = after
        return now

    def _responses_of(self, states: States) -> Law:
        """The law of the response, whoever wrote its blocks."""
        return tuple(
            sum((states.get((y, f), Fraction(0)) for f in (False, True)), Fraction(0)) for y in self.responses()
        )

    def _step(self, prefix: Prefix, flag: bool, n: int, threshold: Fraction) -> Iterator[tuple[int, bool, Fraction]]:
        gen, weights = (self.draft if flag else self.target)[prefix], self.weights(prefix, flag)
        tilt = self.block_tilt(prefix)
        for draw in itertools.product(range(self.letters), repeat=n):
            chance = prod((gen[y] for y in draw), start=Fraction(1))
            total = sum((weights[y] for y in draw), Fraction(0))
            switched = flag or max(tilt[y] for y in draw) > threshold
            for y in draw:
                yield y, switched, chance * weights[y] / total

    def output(self, n: int, threshold: Fraction, *, drafting: bool = False) -> Law:
        """Law of the full response."""
        return self._responses_of(self.states(n, threshold, drafting=drafting))

    def output_by_mixture(self, n: int, threshold: Fraction) -> Law:
        """The same law, next block by next block, as a mixture of the two selection laws given the prefix."""
        return self._responses_of(self._walk(lambda prefix, flag: self._split(prefix, flag, n, threshold), False))

    def _split(self, prefix: Prefix, flag: bool, n: int, threshold: Fraction) -> Iterator[tuple[int, bool, Fraction]]:
        """Selection law split by switching: no switch means that all candidates are letters up to the threshold."""
        gen, weights = (self.draft if flag else self.target)[prefix], self.weights(prefix, flag)
        law = selection_law(gen, weights, n)
        if flag:
            yield from ((y, True, p) for y, p in enumerate(law))
            return
        low = [y for y, e in enumerate(self.block_tilt(prefix)) if e <= threshold]
        mass = sum((gen[y] for y in low), Fraction(0))
        stay = [Fraction(0)] * len(law)
        if low:
            inner = selection_law([gen[y] / mass for y in low], [weights[y] for y in low], n)
            for y, p in zip(low, inner, strict=True):
                stay[y] = mass**n * p
        for y, p in enumerate(law):
            yield y, False, stay[y]
            yield y, True, p - stay[y]

    def divergence(self, n: int, threshold: Fraction) -> Fraction:
        """Chi-square divergence of the output from the optimum."""
        return chi_square(self.output(n, threshold), self.optimum())


def _pair(text: str) -> Law:
    first = Fraction(text)
    return (first, 1 - first)


def _tree(name: str, target: str, draft: str, tilt: str) -> Tree:
    """First-letter probabilities in breadth-first order of the prefixes, tilts in order of the responses."""
    firsts, seconds, tilts = target.split(), draft.split(), tilt.split()
    horizon = len(tilts).bit_length() - 1
    prefixes = [u for length in range(horizon) for u in itertools.product(range(2), repeat=length)]
    return Tree(
        name=name,
        horizon=horizon,
        target={u: _pair(x) for u, x in zip(prefixes, firsts, strict=True)},
        draft={u: _pair(x) for u, x in zip(prefixes, seconds, strict=True)},
        tilt=dict(zip(itertools.product(range(2), repeat=horizon), map(Fraction, tilts), strict=True)),
    )


TREES: tuple[Tree, ...] = (
    _tree("independent blocks", "1/2 1/2 1/2", "1/4 1/4 1/4", "1 2 2 4"),
    _tree("reward of agreement", "1/2 1/3 3/4", "1/3 1/2 1/2", "3 1 1 2"),
    _tree("rare prefix", "9/10 1/2 1/10", "1/2 1/2 3/4", "1 1 2 5"),
    _tree("draft like the target", "1/2 1/3 3/4", "1/2 1/3 3/4", "1 2 2 4"),
    _tree("flat rewards", "1/2 1/2 1/2", "1/10 1/10 9/10", "1 1 1 11/10"),
    _tree("three blocks", "1/2 1/2 1/3 1/4 1/2 2/3 1/2", "1/3 2/3 1/2 1/2 1/2 1/2 1/4", "1 2 1 3 2 1 1 2"),
)


def on_trees(
    holds: Callable[[Tree, int, Fraction], Margin | bool], *, what: str, sizes: tuple[int, ...] = (1, 2, 3)
) -> Evidence:
    """An exact predicate for every tree, width and a threshold below, between and above the block rewards.

    Its ``proved`` covers these points only; claims use it with the symbolic steps.
    """
    tried = 0
    for tree, n, threshold in itertools.product(TREES, sizes, (Fraction(0), Fraction(1), Fraction(100))):
        if tree.horizon > 2 and n > 2:
            continue
        tried += 1
        if not holds(tree, n, threshold):
            shown = {"tree": tree.name, "n": str(n), "exp(beta tau)": str(threshold)}
            return counterexample(f"{what}: fails on {shown}", shown, {"points": tried})
    return Evidence(
        verdict=Verdict.PROVED,
        method="exact enumeration",
        detail=f"{what}: exact at {tried} trees, widths and thresholds, as a check against the definitions",
        effort={"points": tried},
    )
