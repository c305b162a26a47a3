"""Claims of Lookahead Decoding about Algorithms 3 and 4, Theorem A, and how acceptance is drawn."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

from ledger.ledger import Claim, Evidence
from ledger.lookahead_decoding import exact
from ledger.proving.cases import Case, Cases, Predicate, grid, searched, walked
from ledger.proving.combine import exact_step
from ledger.proving.deferred import sp
from ledger.proving.formulas import between, one_of, whole
from ledger.proving.margins import Margin, at_most
from ledger.proving.records import Given, proved, proved_with_fix, refuted, repaired, restated, verified
from ledger.proving.tools import all_of, identity, screened, with_fix

__all__ = ["CLAIMS", "PRESERVED", "verify_theorem_a"]

_SIZE = 3
"""n-gram size of the exact runs: two positions to verify and one token more, so acceptance crosses a position."""
_CASES = ((2, 3, 12), (3, 2, 5))
"""(vocabulary, most n-grams, models) of the exact runs."""


def _runs() -> Iterator[dict[str, Any]]:
    for vocabulary, most, members in _CASES:
        for model in exact.model_family(vocabulary, members):
            for grams in exact.gram_lists(vocabulary, _SIZE - 1, most):
                yield {"model": model, "grams": grams}


def _shown(case: Case) -> dict[str, object]:
    masses = case["model"](())
    return {"vocabulary": len(masses), "n-grams": case["grams"], "P": ", ".join(map(str, masses))}


def _over_runs(test: Callable[[exact.Model, tuple[exact.Gram, ...]], bool], what: str) -> Cases:
    return Cases(
        text=what,
        test=test,
        cases=_runs,
        where="N = 3, up to 3 n-grams of two or three tokens, with duplicates and zero masses",
        partial=True,
        shown=_shown,
    )


def _preserved(rules: exact.Rules = exact.AS_PRINTED) -> Cases:
    """All draws of Algorithm 4, completed to N tokens, against the target."""

    def same_law(model: exact.Model, grams: tuple[exact.Gram, ...]) -> bool:
        drawn = exact.sample_verification(model, grams, _SIZE, rules)
        return exact.completed(drawn, model, _SIZE) == exact.target_law(model, _SIZE)

    return _over_runs(same_law, "law of the next N tokens")


PRESERVED = _preserved()


def verify_theorem_a(runs: Cases = PRESERVED) -> Evidence:
    """The runs, then one position for every P and G."""
    return screened(
        lambda: walked(runs),
        _one_position,
        detail="One position at a time, the next under the prefix that was accepted (chain rule)",
    )


def _one_position() -> Evidence:
    """Induction over the guesses of one position, for symbolic masses.

    Invariant after rejecting a set of tokens of mass m: this point is reached with probability 1 - m, and a remaining
    token of mass p has P_j = p / (1 - m). A guess of mass q keeps it; an already rejected guess changes nothing.
    """
    return all_of(
        identity("(1 - m) * (q / (1 - m)) == q", "a guess of mass q is accepted with total probability q"),
        identity("(1 - m) * (1 - q / (1 - m)) == 1 - m - q", "the next guess is reached with 1 - m - q"),
        identity("p / (1 - m) / (1 - q / (1 - m)) == p / (1 - m - q)", "norm() keeps P_j = p / (1 - m - q)"),
        identity("(1 - m) * (p / (1 - m)) == p", "line 41 emits a remaining token with total probability p"),
    )


_WHOLE_MASS = _over_runs(
    lambda model, grams: sum(exact.sample_verification(model, grams, _SIZE).values()) == 1,
    "total mass 1 without the empty branch",
)
"""At P(s) = 1 the branch is never entered, and nothing is missing."""


def _prefix_mass(model: exact.Model, grams: tuple[exact.Gram, ...]) -> Fraction:
    """Sum over the distinct non-empty prefixes of the n-grams of their probability under the target."""
    prefixes = {gram[:i] for gram in grams for i in range(1, len(gram) + 1)}
    total = Fraction(0)
    for prefix in prefixes:
        mass = Fraction(1)
        for i, token in enumerate(prefix):
            mass *= model(prefix[:i])[token]
        total += mass
    return total


def _mean_tokens(law: exact.Law) -> Fraction:
    return sum((mass * len(out) for out, mass in law.items()), Fraction(0))


def _mean_of_algorithm(b: int) -> Fraction:
    """Algorithm 4 on a uniform target with b different guesses, each of which passes with alpha = P(guess)."""
    size = max(b, 2)
    share = (Fraction(1, size),) * size
    return _mean_tokens(exact.sample_verification(lambda _out: share, [(t,) for t in range(b)], 2))


def _mean_of_equation(b: int) -> Fraction:
    """Equation 5 at gamma = 1."""
    return 2 - (1 - Fraction(1, max(b, 2))) ** b


def _mean(*guesses: int) -> Cases:
    return Cases(
        text="Equation 5 gives the mean of Algorithm 4 when each guess by itself passes with alpha = 1/b",
        test=lambda b: _mean_of_algorithm(b) == _mean_of_equation(b),
        cases=grid(b=guesses),
        where=f"b in {', '.join(map(str, guesses))}, gamma = 1",
        explain=lambda b: f"{_mean_of_algorithm(b)} tokens against {_mean_of_equation(b)}",
    )


_PREFIX_MEAN = _over_runs(
    lambda model, grams: _mean_tokens(exact.sample_verification(model, grams, _SIZE)) == 1 + _prefix_mass(model, grams),
    "mean tokens of Algorithm 4 = 1 + sum of P(u) over the distinct prefixes u of the n-grams",
)


def _greedy(rules: exact.Rules = exact.AS_PRINTED) -> Cases:
    targets = list(exact.greedy_models(_SIZE))

    def best_plus_one(target: int, grams: tuple[exact.Gram, ...]) -> bool:
        choose = targets[target]
        right = exact.greedy_run(choose, _SIZE)
        longest = max(next((i for i in range(_SIZE - 1) if g[i] != right[i]), _SIZE - 1) for g in grams)
        return exact.greedy_verification(choose, grams, _SIZE, rules) == right[: longest + 1]

    return Cases(
        text="Algorithm 3 = greedy decoding up to the longest correct prefix plus one",
        test=best_plus_one,
        cases=grid(target=range(len(targets)), grams=exact.gram_lists(2, _SIZE - 1, 3)),
        where="N = 3, two tokens, up to 3 n-grams",
        partial=True,
    )


def _lengths(most: int = _SIZE) -> Cases:
    """Every emitted block of both algorithms has 1 to `most` tokens."""
    return _over_runs(
        lambda model, grams: all(1 <= len(out) <= most for out in exact.sample_verification(model, grams, _SIZE)),
        f"a step with n-grams of size 3 emits 1 to {most} tokens",
    )


def _has_distribution(grams: int, rules: exact.Rules) -> bool:
    try:
        return sum(exact.sample_verification(lambda _out: (Fraction(1),), [(0,)] * grams, 2, rules).values()) == 1
    except LookupError:
        return False


def _nonempty(rules: exact.Rules = exact.AS_PRINTED) -> Cases:
    return Cases(
        text="D is never empty, so line 13 always finds a distribution",
        test=lambda G: _has_distribution(G, rules),  # noqa: N803
        cases=grid(G=(3, 2, 1, 0)),
        where="G <= 3",
        partial=True,
        explain=lambda G: "the pool starts empty (Algorithm 1, line 2), so the first step has no n-gram",  # noqa: N803
    )


_NONEMPTY_FIXED = _nonempty(exact.Rules(current=True))


def _adversary(independent: bool) -> exact.Law:
    """P = (1/2, 1/2), one guess. The adversary sees r: it guesses token 1 when r <= 1/2 and token 0 otherwise."""
    half = Fraction(1, 2)
    law: exact.Law = {}
    for low_r, guess in itertools.product((True, False), (0, 1)):
        weight = half * half if independent else half * (guess == (1 if low_r else 0))
        emitted = guess if low_r else 1 - guess
        law[(emitted,)] = law.get((emitted,), Fraction(0)) + weight
    return law


def _indifferent(*, independent: bool = False) -> Cases:
    """Refuted by a guess that depends on the acceptance draw; a mixture of fixed guesses inherits Theorem A."""
    return Cases(
        text="P = (1/2, 1/2) is kept although the guess looks at the acceptance draw r",
        test=lambda token: _adversary(independent)[(token,)] == Fraction(1, 2),
        cases=grid(token=(0, 1)),
        where="two tokens, one guess",
        explain=lambda token: f"emitted with probability {_adversary(independent)[(token,)]}",
    )


def _chance(p: Fraction, n: int, *, strict: bool) -> Fraction:
    """Acceptance on a generator with values k/n in [0, 1): ``r <= p`` against ``r < p``."""
    return Fraction(sum(1 for k in range(n) if (Fraction(k, n) < p if strict else Fraction(k, n) <= p)), n)


def _excluded(*, strict: bool = False) -> Predicate:
    return Predicate(
        text=f"a token of probability 0 is never accepted by r {'<' if strict else '<='} P(s), r = k/n",
        test=lambda n, p: _chance(p, int(n), strict=strict) == 0,
        domain={"n": whole(1, 64), "p": one_of(0)},
        at=[{"n": 4, "p": 0}],
        explain=lambda n, p: f"accepted with probability {_chance(p, int(n), strict=False)}",
    )


_EXCLUDED = _excluded()
_STRICT_TEST = Cases(
    text="r < p: chance in [p, p + 1/n), 0 at p = 0",
    test=lambda n, k: (
        0 <= _chance(Fraction(k, 12), n, strict=True) - Fraction(k, 12) < Fraction(1, n)
        and (k > 0 or _chance(Fraction(0), n, strict=True) == 0)
    ),
    cases=grid(n=range(1, 17), k=range(13)),
    where="n <= 16, p = k/12",
)


def _measure(share: str = "1") -> Predicate:
    """The part of [0, 1] with r <= p, measured at the middles of n equal pieces: off by half a piece at most."""

    def near(p: Fraction, n: Fraction, off: Fraction) -> Margin:
        hits = sum(1 for k in range(int(n)) if (k + Fraction(1, 2)) / n <= p)
        return at_most(abs(hits / n - Fraction(share) * p), off / n)

    return Predicate(
        text=f"r <= p holds for {'' if share == '1' else f'{share} '}p of n numbers spread evenly, up to half a number",
        test=near,
        domain={"p": between(0, 1, "[]"), "n": whole(1, 100)},
        numbers={"off": Fraction(1, 2)},
    )


def _verify_measure(spread: Predicate) -> Evidence:
    """P(r <= p) on U(0, 1) is the length of [0, p], and r <= p against r < p differ by a point of length 0."""
    p, r = sp.symbols("p r", positive=True)
    return screened(
        searched(spread, {"p": "1/2", "n": 2}, {"p": 1, "n": 100}),
        exact_step(spread.numbers["off"] >= Fraction(1, 2), "half a number, which is as far as a middle is off"),
        identity(sp.integrate(1, (r, 0, p)) - p, "length of the part of [0, 1] with r <= p"),
        identity(sp.integrate(1, (r, p, p)), "length of the part with r = p"),
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LD-TA",
        PRESERVED,
        verify=verify_theorem_a,
        mutants={
            "no zero": partial(verify_theorem_a, _preserved(exact.Rules(zero=False))),
            "no norm": partial(verify_theorem_a, _preserved(exact.Rules(renormalise=False))),
            "no filter": partial(verify_theorem_a, _preserved(exact.Rules(filter_prefix=False))),
        },
    ),
    repaired(
        "LD-TA-proof",
        instead=_WHOLE_MASS,
        fix=lambda: screened(lambda: walked(_WHOLE_MASS), _one_position),
        mutants={"P(s) < 1": restated("LD-TA-proof", domain="p_guess in [0, 2/3]", p_guess="2/3")},
    ),
    refuted("LD-A4-mean", _mean(2, 3, 4), instead=_PREFIX_MEAN, mutants={"one guess": _mean(1)}),
    verified(
        "LD-A3",
        _greedy(),
        mutants={
            "no filter": _greedy(exact.Rules(filter_prefix=False)),
            "no extra token": _greedy(exact.Rules(extra=False)),
        },
    ),
    verified("LD-A34-length", _lengths(), mutants={"N - 1": _lengths(_SIZE - 1)}),
    refuted("LD-A34-nonempty", _nonempty(), instead=_NONEMPTY_FIXED),
    repaired(
        "LD-A4-indifferent",
        _indifferent(),
        instead=PRESERVED,
        fix=verify_theorem_a,
        mutants={"independent guess": _indifferent(independent=True)},
    ),
    proved("LD-A4-uniform", _measure(), verify=Given(_verify_measure), mutants={"99 %": _measure("0.99")}),
    proved_with_fix(
        "LD-A4-generator",
        _EXCLUDED,
        verify=lambda: with_fix(searched(_EXCLUDED), walked(_STRICT_TEST)),
        instead=_STRICT_TEST,
        mutants={"strict": _excluded(strict=True)},
    ),
)
