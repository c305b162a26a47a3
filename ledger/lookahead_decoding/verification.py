"""Claims of Lookahead Decoding about verification: Theorem A and the printed lines of Algorithms 3 and 4."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

from ledger.ledger import Claim, Evidence
from ledger.lookahead_decoding import exact
from ledger.proving.cases import Case, Cases, Predicate, grid, searched, walked
from ledger.proving.deferred import sp
from ledger.proving.formulas import between
from ledger.proving.records import proved, proved_with_fix, refuted, verified
from ledger.proving.tools import all_of, identity, screened, with_fix

__all__ = ["CLAIMS", "PRESERVED", "verify_theorem_a"]

_SIZE = 3
"""n-gram size of the exact runs: two positions to verify and one token more, so acceptance crosses a position."""
_CASES = ((2, 3, 12), (3, 2, 5))
"""(vocabulary, most n-grams, models) of the exact runs."""


def _runs() -> Iterator[dict[str, Any]]:
    """Every model with every list of n-grams."""
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
    m, q, p = sp.symbols("m q p", positive=True)
    accept = q / (1 - m)
    return all_of(
        identity((1 - m) * accept - q, "a guess of mass q is accepted with total probability q"),
        identity((1 - m) * (1 - accept) - (1 - m - q), "the next guess is reached with 1 - m - q"),
        identity(p / (1 - m) / (1 - accept) - p / (1 - m - q), "norm() keeps P_j = p / (1 - m - q)"),
        identity((1 - m) * (p / (1 - m)) - p, "line 41 emits a remaining token with total probability p"),
    )


def _divisible(largest: str = "1") -> Predicate:
    """``r P(v) / r = P(v)`` with r = 1 - P(s) needs P(s) < 1."""
    return Predicate(
        text="the proof divides by r = 1 - P(s), which is not 0",
        test=lambda p_guess: 1 - p_guess != 0,
        domain={"p_guess": between(0, largest, "[]")},
    )


_DIVISIBLE = _divisible()
_WHOLE_MASS = _over_runs(
    lambda model, grams: sum(exact.sample_verification(model, grams, _SIZE).values()) == 1,
    "total mass 1 without the empty branch",
)


def _search_divisible(printed: Predicate = _DIVISIBLE, largest: str = "1") -> Evidence:
    return searched(printed, {"p_guess": "1/3"}, {"p_guess": "1/2"}, {"p_guess": largest})


def _whole_mass() -> Evidence:
    """At P(s) = 1 the branch is never entered, and nothing is missing."""
    return screened(lambda: walked(_WHOLE_MASS), _one_position)


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
        text="Equation 5 gives the mean of Algorithm 4 when each guess alone passes with alpha = 1/b",
        test=lambda b: _mean_of_algorithm(b) == _mean_of_equation(b),
        cases=grid(b=guesses),
        where=f"b in {', '.join(map(str, guesses))}, gamma = 1",
    )


_MEAN = _mean(2, 3, 4)
_PREFIX_MEAN = _over_runs(
    lambda model, grams: _mean_tokens(exact.sample_verification(model, grams, _SIZE)) == 1 + _prefix_mass(model, grams),
    "mean tokens of Algorithm 4 = 1 + sum of P(u) over the distinct prefixes u of the n-grams",
)


def _greedy(rules: exact.Rules = exact.AS_PRINTED) -> Cases:
    """Output = greedy decoding up to the longest correct prefix plus one, for all targets and lists of n-grams."""
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
    )


_GREEDY, _LENGTHS, _NONEMPTY = _greedy(), _lengths(), _nonempty()
_NONEMPTY_FIXED = _nonempty(exact.Rules(current=True))

CLAIMS: tuple[Claim, ...] = (
    proved(
        "LD-TA",
        formula=PRESERVED,
        verify=verify_theorem_a,
        mutants={
            "no zero": partial(verify_theorem_a, _preserved(exact.Rules(zero=False))),
            "no norm": partial(verify_theorem_a, _preserved(exact.Rules(renormalise=False))),
            "no filter": partial(verify_theorem_a, _preserved(exact.Rules(filter_prefix=False))),
        },
    ),
    proved_with_fix(
        "LD-TA-proof",
        formula=_DIVISIBLE,
        verify=partial(with_fix, _search_divisible, _whole_mass),
        correction_formula=_WHOLE_MASS,
        correction_verify=_whole_mass,
        mutants={"P(s) < 1": partial(_search_divisible, _divisible("2/3"), "2/3")},
    ),
    refuted(
        "LD-A4-mean",
        formula=_MEAN,
        verify=partial(
            searched, _MEAN, explain=lambda b: f"{_mean_of_algorithm(b)} tokens against {_mean_of_equation(b)}"
        ),
        correction_formula=_PREFIX_MEAN,
        mutants={"one guess": _mean(1)},
    ),
    verified(
        "LD-A3",
        formula=_GREEDY,
        mutants={
            "no filter": _greedy(exact.Rules(filter_prefix=False)),
            "no extra token": _greedy(exact.Rules(extra=False)),
        },
    ),
    verified("LD-A34-length", formula=_LENGTHS, mutants={"N - 1": _lengths(_SIZE - 1)}),
    refuted(
        "LD-A34-nonempty",
        formula=_NONEMPTY,
        verify=partial(
            searched,
            _NONEMPTY,
            explain=lambda G: "the pool starts empty (Algorithm 1, line 2), so the first step has no n-gram",  # noqa: N803
        ),
        correction_formula=_NONEMPTY_FIXED,
        mutants={"current distribution": _NONEMPTY_FIXED},
    ),
)
