"""Claims of Lookahead Decoding about verification: Theorem A and the printed lines of Algorithms 3 and 4."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction

from theory.claims.ledger import Claim, Evidence, Verdict
from theory.claims.lookahead_decoding import exact
from theory.claims.proving.deferred import sp
from theory.claims.proving.records import mutant, proved, proved_with_fix, refuted, repaired, verified
from theory.claims.proving.tools import all_of, counterexample, exhaustive, identity, refute, screened, with_fix

__all__ = ["CLAIMS"]

_SIZE = 3
"""n-gram size of the exact runs: two positions to verify and one token more, so acceptance crosses a position."""
_CASES = ((2, 3, 12), (3, 2, 5))
"""(vocabulary, most n-grams, models) of the exact runs."""


def _runs() -> Iterator[tuple[exact.Model, tuple[exact.Gram, ...]]]:
    """Every model with every list of n-grams."""
    for vocabulary, most, members in _CASES:
        for model in exact.model_family(vocabulary, members):
            for grams in exact.gram_lists(vocabulary, _SIZE - 1, most):
                yield model, grams


def _over_runs(good: Callable[[exact.Model, tuple[exact.Gram, ...]], bool], what: str) -> Evidence:
    """``false`` with the first run that fails, else ``verified`` for the finite set of runs."""
    count = 0
    for model, grams in _runs():
        count += 1
        if not good(model, grams):
            shown = {"vocabulary": len(model(())), "n-grams": grams, "P": ", ".join(map(str, model(())))}
            return counterexample(f"{what}: fails for the n-grams {grams}", shown, {"runs": count})
    text = f"{what}: all {count} runs (2 and 3 tokens, up to 3 n-grams with duplicates, zero masses included)"
    return Evidence(verdict=Verdict.VERIFIED, method="exhaustive", detail=text, effort={"runs": count})


def _verify_theorem_a(rules: exact.Rules = exact.AS_PRINTED) -> Evidence:
    """All draws of Algorithm 4, completed to N tokens, against the target; then one position for every P and G."""

    def preserved(model: exact.Model, grams: tuple[exact.Gram, ...]) -> bool:
        return exact.completed(exact.sample_verification(model, grams, _SIZE, rules), model, _SIZE) == exact.target_law(
            model, _SIZE
        )

    return screened(
        lambda: _over_runs(preserved, "law of the next N tokens"),
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


def _verify_proof_step(largest: Fraction = Fraction(1)) -> Evidence:
    """``r P(v) / r = P(v)`` with r = 1 - P(s) needs P(s) < 1; at P(s) = 1 the branch is never entered."""
    masses = [{"p_guess": x} for x in ("1/3", "1/2", largest)]
    printed = refute(lambda p_guess: p_guess < 1, masses, what="the proof divides by r = 1 - P(s), which is not 0")

    def repaired(model: exact.Model, grams: tuple[exact.Gram, ...]) -> bool:
        return sum(exact.sample_verification(model, grams, _SIZE).values()) == 1

    return with_fix(
        printed, screened(lambda: _over_runs(repaired, "total mass 1 without the empty branch"), _one_position)
    )


def _adversary(independent: bool) -> exact.Law:
    """P = (1/2, 1/2), one guess. The adversary sees r: it guesses token 1 when r <= 1/2 and token 0 otherwise."""
    half = Fraction(1, 2)
    law: exact.Law = {}
    for low_r, guess in itertools.product((True, False), (0, 1)):
        weight = half * half if independent else half * (guess == (1 if low_r else 0))
        emitted = guess if low_r else 1 - guess
        law[(emitted,)] = law.get((emitted,), Fraction(0)) + weight
    return law


def _verify_indifference(independent: bool = False) -> Evidence:
    """Refuted by a guess that depends on the acceptance draw; a mixture of fixed guesses inherits Theorem A."""
    masses = {token: _adversary(independent)[(token,)] for token in (0, 1)}
    return refute(
        lambda token: masses[int(token)] == Fraction(1, 2),
        [{"token": 0}, {"token": 1}],
        what="P = (1/2, 1/2) is kept although the guess looks at the acceptance draw r",
        explain=lambda token: f"emitted with probability {masses[int(token)]}",
    )


def _verify_uniform(strict: bool = False) -> Evidence:
    """Acceptance on a generator with values k/n in [0, 1): ``r <= p`` against ``r < p``."""

    def chance(p: Fraction, n: int, strictly: bool) -> Fraction:
        return Fraction(sum(1 for k in range(n) if (Fraction(k, n) < p if strictly else Fraction(k, n) <= p)), n)

    printed = refute(
        lambda n, p: p > 0 or chance(p, int(n), strict) == 0,
        [{"n": 4, "p": 0}],
        what="a token of probability 0 is never accepted",
        explain=lambda n, p: f"accepted with probability {chance(p, int(n), strict)}",
    )

    def close(n: int, k: int) -> bool:
        p = Fraction(k, 12)
        return k > 12 or (0 <= chance(p, n, True) - p < Fraction(1, n) and (p > 0 or chance(p, n, True) == 0))

    fixed = exhaustive(close, {"n": range(1, 17), "k": range(13)}, what="r < p: chance in [p, p + 1/n), 0 at p = 0")
    return with_fix(printed, fixed)


def _verify_measure(share: str = "1") -> Evidence:
    """P(r <= p) on U(0, 1) is the length of [0, p], and r <= p against r < p differ by a point of length 0."""
    p, r = sp.symbols("p r", positive=True)
    return all_of(
        identity(sp.integrate(1, (r, 0, p)) - sp.Rational(share) * p, "length of the part of [0, 1] with r <= p"),
        identity(sp.integrate(1, (r, p, p)), "length of the part with r = p"),
    )


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


def _verify_mean(guesses: int = 2) -> Evidence:
    """Equation 5 at gamma = 1 against Algorithm 4 on a uniform target with different guesses, alpha = P(guess)."""

    def truth(b: Fraction) -> Fraction:
        n = int(b)
        share = (Fraction(1, max(n, 2)),) * max(n, 2)
        return _mean_tokens(exact.sample_verification(lambda _out: share, [(t,) for t in range(n)], 2))

    def formula(b: Fraction) -> Fraction:
        return 2 - (1 - Fraction(1, max(int(b), 2))) ** int(b)

    return refute(
        lambda b: truth(b) == formula(b),
        [{"b": guesses}],
        what="Equation 5 gives the mean of Algorithm 4 when each guess alone passes with alpha = 1/b",
        explain=lambda b: f"{truth(b)} tokens against {formula(b)}",
    )


def _verify_prefix_mean() -> Evidence:
    return _over_runs(
        lambda model, grams: (
            _mean_tokens(exact.sample_verification(model, grams, _SIZE)) == 1 + _prefix_mass(model, grams)
        ),
        "mean tokens of Algorithm 4 = 1 + sum of P(u) over the distinct prefixes u of the n-grams",
    )


def _verify_greedy(rules: exact.Rules = exact.AS_PRINTED, most: int = 3) -> Evidence:
    """Output = greedy decoding up to the longest correct prefix plus one, for all targets and lists of n-grams."""
    targets, lists = list(exact.greedy_models(_SIZE)), list(exact.gram_lists(2, _SIZE - 1, most))

    def holds(target: int, grams: int) -> bool:
        choose, chosen = targets[target], lists[grams]
        right = exact.greedy_run(choose, _SIZE)
        longest = max(next((i for i in range(_SIZE - 1) if g[i] != right[i]), _SIZE - 1) for g in chosen)
        return exact.greedy_verification(choose, chosen, _SIZE, rules) == right[: longest + 1]

    ranges = {"target": range(len(targets)), "grams": range(len(lists))}
    return exhaustive(
        holds,
        ranges,
        what="Algorithm 3 = greedy decoding up to the longest correct prefix plus one",
        reach="N = 3, two tokens",
    )


def _verify_lengths(most: int = _SIZE) -> Evidence:
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


def _verify_nonempty(rules: exact.Rules = exact.AS_PRINTED) -> Evidence:
    return refute(
        lambda G: _has_distribution(int(G), rules),  # noqa: N803
        [{"G": 1}, {"G": 0}],
        what="D is never empty, so line 13 always finds a distribution",
        explain=lambda G: "the pool starts empty (Algorithm 1, line 2), so the first step has no n-gram",  # noqa: N803
    )


_FINITE = "finite vocabulary, exact arithmetic, n-grams fixed before the acceptance draws"

CLAIMS: tuple[Claim, ...] = (
    proved(
        id="LD-TA",
        source="Lookahead Decoding, Theorem A, Algorithm 4 and Appendix B",
        statement="Algorithm 4 emits tokens with the law of the target, for any n-grams in any order, duplicates "
        "included.",
        assumptions=_FINITE,
        verify=_verify_theorem_a,
        mutants=(
            mutant("no zero", "line 32 left out", _verify_theorem_a, exact.Rules(zero=False)),
            mutant("no norm", "line 33 left out", _verify_theorem_a, exact.Rules(renormalise=False)),
            mutant(
                "no filter",
                "n-grams with another prefix stay after an acceptance",
                _verify_theorem_a,
                exact.Rules(filter_prefix=False),
            ),
        ),
        notes="Starting the filter at k = j is right: an earlier n-gram with the accepted token would have been "
        "rejected with it.",
    ),
    proved_with_fix(
        id="LD-TA-proof",
        source="Lookahead Decoding, Theorem A, Appendix B, cases 1 (2) and 2 (1)",
        statement="The mass of a token after rejections is P(v) divided by the product of the rejection probabilities "
        "r_k.",
        assumptions="any P, any guesses; no r_k is excluded from being 0",
        verify=_verify_proof_step,
        correction="Valid where all r_k > 0. If P_k(s_k) = 1 the guess is always accepted, the later branches have "
        "probability 0 and contribute nothing, so the theorem stands (greedy targets are this case).",
        correction_verify=_one_position,
        mutants=(mutant("P(s) < 1", "the case P(s) = 1 excluded by assumption", _verify_proof_step, Fraction(2, 3)),),
    ),
    repaired(
        id="LD-A4-indifferent",
        source="Lookahead Decoding, section 3.2",
        statement="How the guesses were made never matters for the output law.",
        assumptions="none stated",
        printed=_verify_indifference,
        correction="The guesses must be independent of the acceptance draws given the prefix; then the output law is a "
        "mixture of target laws. A guess that sees r turns P = (1/2, 1/2) into a constant.",
        repair=_verify_theorem_a,
        mutants=(mutant("independent guess", "the adversary does not see r", _verify_indifference, independent=True),),
        notes="Relevant for implementations that share one random stream between drafting and verification.",
    ),
    proved(
        id="LD-A4-uniform",
        source="Lookahead Decoding, Algorithm 4, line 17",
        statement="The test r <= P(s) accepts s with probability P(s).",
        assumptions="r uniform on the real interval [0, 1], as printed; 0 <= P(s) <= 1",
        verify=_verify_measure,
        mutants=(mutant("99 %", "with probability 0.99 P(s)", _verify_measure, "0.99"),),
        notes="On the numbers of a machine it is not exact: LD-A4-generator.",
    ),
    proved_with_fix(
        id="LD-A4-generator",
        source="Lookahead Decoding, Algorithm 4, line 17, consequence for implementations derived here",
        statement="The test r <= P(s) accepts a token of probability 0 with probability 0.",
        assumptions="r from a machine generator with the values k/n, 0 <= k < n, in place of the paper's U(0, 1)",
        verify=_verify_uniform,
        correction="Use r < P(s): the chance is then within 1/n of P(s) and 0 at P(s) = 0. With <= an excluded token "
        "(top-k, or already rejected) passes with probability 1/n.",
        correction_verify=lambda: exhaustive(
            lambda n: sum(1 for k in range(n) if Fraction(k, n) < 0) == 0,
            {"n": range(1, 257)},
            what="r < 0 never happens on k/n",
        ),
        mutants=(mutant("strict", "r < P(s)", _verify_uniform, strict=True),),
    ),
    refuted(
        id="LD-A4-mean",
        source="Lookahead Decoding, Equation 5 applied to Algorithm 4, section 4.2",
        statement="Equation 5 gives the mean number of tokens that Algorithm 4 emits for b guesses of equal acceptance "
        "rate.",
        assumptions="sampling; the guesses differ, as entries of a pool do",
        verify=_verify_mean,
        correction="The mean is exactly 1 + sum of P(u) over the distinct non-empty prefixes u of the n-grams: what "
        "one gets by sampling from the target and following the n-grams as a tree.",
        correction_verify=_verify_prefix_mean,
        mutants=(mutant("one guess", "b = 1", _verify_mean, guesses=1),),
    ),
    verified(
        id="LD-A3",
        source="Lookahead Decoding, Algorithm 3 and section 3.2",
        statement="Greedy verification emits the tokens of greedy decoding, as many as the best n-gram has right plus "
        "one.",
        assumptions="ties of the argmax broken in one fixed way; at least one n-gram",
        reach="N = 3, two tokens, up to 3 n-grams",
        verify=_verify_greedy,
        mutants=(
            mutant("no filter", "n-grams with another prefix stay", _verify_greedy, exact.Rules(filter_prefix=False)),
            mutant("no extra token", "lines 42 to 44 left out", _verify_greedy, exact.Rules(extra=False)),
        ),
        notes="Exhaustive for N = 3 and two tokens; for any N each position repeats the same argument on the n-grams "
        "that are left.",
    ),
    verified(
        id="LD-A34-length",
        source="Lookahead Decoding, Algorithms 3 and 4, line 2",
        statement="A step emits between 1 and N tokens, hence 1 <= S <= N.",
        assumptions="at least one n-gram of size N >= 2",
        reach="N = 3, up to 3 n-grams of two or three tokens",
        verify=_verify_lengths,
        mutants=(mutant("N - 1", "at most N - 1 tokens", _verify_lengths, _SIZE - 1),),
        notes="Each of the N - 1 rounds appends one token and ends the step on a rejection; a full pass appends one "
        "more.",
    ),
    refuted(
        id="LD-A34-nonempty",
        source="Lookahead Decoding, Algorithms 3 and 4, line 13 (comment)",
        statement="The list D of distributions is never empty.",
        assumptions="called from Algorithm 1",
        verify=_verify_nonempty,
        correction="D must hold the distribution after the current token even when no n-gram matches; then such a step "
        "is one plain decoding step.",
        correction_verify=lambda: exhaustive(
            lambda G: _has_distribution(G, exact.Rules(current=True)),  # noqa: N803
            {"G": range(4)},
            what="with the current distribution in D every number of n-grams works",
            reach="G <= 3",
        ),
        mutants=(
            mutant(
                "current distribution",
                "D starts with the distribution after the current token",
                _verify_nonempty,
                exact.Rules(current=True),
            ),
        ),
    ),
)
