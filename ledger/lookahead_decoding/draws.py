"""Claims of Lookahead Decoding about the random numbers that accept a guess (section 3.2, line 17 of Algorithm 4)."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence
from ledger.lookahead_decoding import exact
from ledger.lookahead_decoding.verification import PRESERVED, verify_theorem_a
from ledger.proving.cases import Cases, Predicate, grid, searched, walked
from ledger.proving.deferred import sp
from ledger.proving.formulas import between, one_of, whole
from ledger.proving.records import proved, proved_with_fix, repaired
from ledger.proving.tools import identity, screened, with_fix

__all__ = ["CLAIMS"]


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
    )


_INDIFFERENT = _indifferent()


def _explain_adversary(token: int) -> str:
    return f"emitted with probability {_adversary(independent=False)[(token,)]}"


def _chance(p: Fraction, n: int, *, strict: bool) -> Fraction:
    """Acceptance on a generator with values k/n in [0, 1): ``r <= p`` against ``r < p``."""
    return Fraction(sum(1 for k in range(n) if (Fraction(k, n) < p if strict else Fraction(k, n) <= p)), n)


def _excluded(*, strict: bool = False) -> Predicate:
    return Predicate(
        text=f"a token of probability 0 is never accepted by r {'<' if strict else '<='} P(s), r = k/n",
        test=lambda n, p: _chance(p, int(n), strict=strict) == 0,
        domain={"n": whole(1, 64), "p": one_of(0)},
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


def _search_excluded(printed: Predicate = _EXCLUDED) -> Evidence:
    return searched(
        printed, {"n": 4, "p": 0}, explain=lambda n, p: f"accepted with probability {_chance(p, int(n), strict=False)}"
    )


def _measure(share: str = "1") -> Predicate:
    """The part of [0, 1] with r <= p, measured at the middles of n equal pieces: off by half a piece at most."""

    def near(p: Fraction, n: Fraction) -> bool:
        hits = sum(1 for k in range(int(n)) if (k + Fraction(1, 2)) / n <= p)
        return abs(hits / n - Fraction(share) * p) <= 1 / (2 * n)

    return Predicate(
        text=f"r <= p holds for {'' if share == '1' else f'{share} '}p of n numbers spread evenly, up to half a number",
        test=near,
        domain={"p": between(0, 1, "[]"), "n": whole(1, 100)},
    )


_MEASURE = _measure()


def _verify_measure(spread: Predicate = _MEASURE) -> Evidence:
    """P(r <= p) on U(0, 1) is the length of [0, p], and r <= p against r < p differ by a point of length 0."""
    p, r = sp.symbols("p r", positive=True)
    return screened(
        searched(spread, {"p": "1/2", "n": 2}, {"p": 1, "n": 100}),
        identity(sp.integrate(1, (r, 0, p)) - p, "length of the part of [0, 1] with r <= p"),
        identity(sp.integrate(1, (r, p, p)), "length of the part with r = p"),
    )


CLAIMS: tuple[Claim, ...] = (
    repaired(
        "LD-A4-indifferent",
        formula=_INDIFFERENT,
        printed=partial(searched, _INDIFFERENT, explain=_explain_adversary),
        correction_formula=PRESERVED,
        repair=verify_theorem_a,
        mutants={"independent guess": lambda: searched(_indifferent(independent=True))},
    ),
    proved(
        "LD-A4-uniform",
        formula=_MEASURE,
        verify=_verify_measure,
        mutants={"99 %": partial(_verify_measure, _measure("0.99"))},
    ),
    proved_with_fix(
        "LD-A4-generator",
        formula=_EXCLUDED,
        verify=partial(with_fix, _search_excluded, partial(walked, _STRICT_TEST)),
        correction_formula=_STRICT_TEST,
        mutants={"strict": partial(_search_excluded, _excluded(strict=True))},
    ),
)
