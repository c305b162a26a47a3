"""Claims of Lookahead Decoding about scaling (section 4.2): what is linear in the logarithm of what, and how far.

The tool is a band for unbounded gamma. With ``x = ln(1 / alpha)``, harmonic numbers ``H_b`` and
``g(i) = 1 - (1 - alpha^i)^b``, Equation 5 tends to ``E(b) = sum_{i >= 0} g(i)``; g falls, and its integral over [0, oo)
is ``H_b / x``, so ``H_b / x <= E(b) <= 1 + H_b / x``. Compression is therefore linear in ln(b) with slope
``1 / (f x)``, to within one token.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

from flint import arb

from ledger.ledger import Claim, Evidence, Verdict
from ledger.lookahead_decoding.expected_tokens import multi
from ledger.proving.balls import point, precision
from ledger.proving.cases import Cases, Predicate, rows, searched
from ledger.proving.formulas import between, whole
from ledger.proving.records import proved, record, refuted, restated
from ledger.proving.rounding import printed
from ledger.proving.tools import all_of, exhaustive, identity, numeric, refute, screened
from theory.published.lookahead_decoding import ALPHA, STEPS_PER_HIT, TABLE_3

__all__ = ["CLAIMS"]

_BITS = 128
_SETTING = {"alpha": Fraction(ALPHA), "f": Fraction(STEPS_PER_HIT)}
"""Figure 4 (b) of the paper."""


def _hit(alpha: arb, i: int, b: int) -> arb:
    """Ball of ``1 - (1 - alpha^i)^b``: some of b sequences pass their first i tokens."""
    return arb(1) if i == 0 else -(b * (-(alpha**i)).log1p()).expm1()


def _tokens(alpha: arb, gamma: int, b: int) -> arb:
    """Ball of Equation 5."""
    return sum((_hit(alpha, i, b) for i in range(1, gamma + 1)), arb(1))


def _unbounded(alpha: arb, b: int) -> arb:
    """Ball of Equation 5 for gamma to infinity: terms until the tail ``b alpha^i / (1 - alpha)`` is negligible."""
    total, i = arb(1), 1
    while not b * alpha**i / (1 - alpha) < arb(2) ** -60:
        total += _hit(alpha, i, b)
        i += 1
    return total + arb(0, (b * alpha**i / (1 - alpha)).upper())


def _harmonic(b: int) -> Fraction:
    return sum((Fraction(1, k) for k in range(1, b + 1)), Fraction(0))


_BAND = (
    identity(
        "diff(1 - (1 - exp(-x * y))**b, y) == -b * x * exp(-x * y) * (1 - exp(-x * y))**(b - 1)",
        "g falls: its derivative is minus a positive product",
    ),
    identity("diff(1 - exp(-x * y), y) == x * (1 - (1 - exp(-x * y)))", "with u = 1 - alpha^y, du = x (1 - u) dy"),
    identity("(u**b - u**(b + 1)) / (1 - u) == u**b", "(1 - u^b) / (1 - u) gains u^b from b to b + 1"),
    identity("diff(u**(b + 1) / (b + 1), u) == u**b", "its integral gains 1 / (b + 1), so it is H_b"),
    identity("diff(x - log(1 + x), x) == x / (1 + x)", "ln(1 + x) <= x"),
    identity(
        "diff(log(1 + x) - x / (1 + x), x) == x / (1 + x)**2", "x / (1 + x) <= ln(1 + x): ln b <= H_b <= 1 + ln b"
    ),
)
"""The steps of the band."""


def _verify_band(upper: Fraction = Fraction(1), base: int | None = None) -> Evidence:
    """``H_b / x <= E(b) <= upper + H_b / x``; a base other than e mistakes the slope."""

    def holds(alpha: Fraction, b: Fraction) -> bool:
        with precision(_BITS):
            rate, count = point(alpha), int(b)
            scale = -rate.log() if base is None else -rate.log() / arb(base).log()
            line = point(_harmonic(count)) / scale
            value = _unbounded(rate, count)
            # at b = 1 and alpha -> 0 the upper edge is approached, never touched; both comparisons are certain
            return bool(value > line) and bool(value < line + point(upper))

    rates = [Fraction(k, 10) for k in range(1, 10)] + [Fraction(1, 100), Fraction(1, 10**100)]
    grid = [{"alpha": rate, "b": b} for rate in rates for b in (1, 2, 3, 5, 10, 100, 1000)]
    what = f"H_b / ln(1/alpha) < E(b) < {upper} + H_b / ln(1/alpha) (balls)"
    return screened(refute(holds, grid, what=what), *_BAND)


def _gain(alpha: Fraction, gamma: Fraction, b: Fraction) -> Fraction:
    """Tokens that a doubling of b adds."""
    return Fraction(multi(alpha, int(gamma), 2 * int(b)) - multi(alpha, int(gamma), int(b)))


_SATURATION = Predicate(
    text="at a fixed gamma a doubling of b adds as much late as early, within a factor 2",
    test=lambda alpha, gamma, b: _gain(alpha, gamma, b) >= _gain(alpha, gamma, Fraction(1)) / 2,
    domain={"alpha": between(0, 1), "gamma": whole(1, 64), "b": whole(1, 64)},
    explain=lambda alpha, gamma, b: (
        f"doubling b adds {float(_gain(alpha, gamma, Fraction(1))):.3f} tokens at b = 1 and "
        f"{float(_gain(alpha, gamma, b)):.3f} at b = {b}"
    ),
)


def _search_saturation(gamma: int) -> Evidence:
    return searched(_SATURATION, *({"alpha": "1/2", "gamma": gamma, "b": b} for b in (16, 64)))


def _verify_truncation() -> Evidence:
    """``0 <= E(b) - E_gamma(b) <= b alpha^(gamma+1) / (1 - alpha)`` by Bernoulli's inequality and a geometric tail."""

    def holds(tenths: int, gamma: int, b: int) -> bool:
        with precision(_BITS):
            rate = point(Fraction(tenths, 10))
            lost = _unbounded(rate, b) - _tokens(rate, gamma, b)
            # b = 1 reaches the bound exactly, so the comparison allows the width of the balls
            return bool(lost > 0) and bool(lost < b * rate ** (gamma + 1) / (1 - rate) + arb(2) ** -50)

    grid = {"tenths": range(1, 10), "gamma": (1, 4, 16), "b": (1, 16, 256)}
    return all_of(
        identity("(1 - x) * (1 - b * x) - (1 - (b + 1) * x) == b * x**2", "(1 - x)^b >= 1 - b x by induction"),
        identity(
            "b * alpha**(gamma + 1) / (1 - alpha) - b * alpha**(gamma + 2) / (1 - alpha) == b * alpha**(gamma + 1)",
            "the tail is geometric",
        ),
        lambda: exhaustive(holds, grid, what="loss by a finite gamma within the bound (balls)"),
        detail="gamma >= ln(b / (d (1 - alpha))) / ln(1/alpha) keeps the line to within d tokens",
    )


def _verify_growth(
    guesses: Callable[[Fraction, int], int] | None = None, depth: Callable[[int], int] = lambda k: k
) -> Evidence:
    """``E_K(b) >= 1 + 0.63 K`` once ``b >= alpha^(-K)``: every term i <= K is at least ``1 - 1/e``."""

    def holds(tenths: int, k: int) -> bool:
        alpha = Fraction(tenths, 10)
        b = -((-1 / alpha**k) // 1) if guesses is None else guesses(alpha, k)
        with precision(_BITS):
            return bool(_tokens(point(alpha), depth(k), int(b)) > 1 + point(Fraction(63 * k, 100)))

    def constant() -> Evidence:
        with precision(_BITS):
            ok = bool(1 - arb(-1).exp() > point(Fraction(63, 100)))
        return exhaustive(lambda one: ok, {"one": (1,)}, what="1 - 1/e > 63/100 (ball)")

    return all_of(
        lambda: exhaustive(holds, {"tenths": range(1, 10), "k": range(1, 13)}, what="E_K(b) > 1 + 0.63 K (balls)"),
        identity("diff(-log(1 - x) - x, x) == x / (1 - x)", "-ln(1 - x) >= x, so (1 - x)^(1/x) <= 1/e"),
        constant,
        detail="E_gamma(b) grows with gamma and with b, so with both unbounded it passes 1 + 0.63 K for every K",
    )


def _verify_one_factor(gap_factor: int = 1) -> Evidence:
    """Fixed gamma: ``0 < gamma + 1 - E <= gamma (1 - alpha^gamma)^b -> 0``. Fixed b: the band."""

    def holds(tenths: int, gamma: int, b: int) -> bool:
        alpha = Fraction(tenths, 10)
        gap = gamma + 1 - multi(alpha, gamma, b)
        return bool(0 < gap * gap_factor <= gamma * (1 - alpha**gamma) ** b)

    grid = {"tenths": range(1, 10), "gamma": range(1, 5), "b": (1, 2, 7, 30)}
    what = "0 < gamma + 1 - E <= gamma (1 - alpha^gamma)^b, as each term is at most the last"
    return all_of(lambda: exhaustive(holds, grid, what=what), _verify_band)


def _verify_rate(slack: Fraction = Fraction(0)) -> Evidence:
    """``H_b > x (E_gamma(b) - 1)``: the band, as E_gamma(b) is below E(b); slack adds tokens to the right side."""

    def holds(tenths: int, gamma: int, b: int) -> bool:
        with precision(_BITS):
            alpha = point(Fraction(tenths, 10))
            tokens = _tokens(alpha, gamma, b)
            return bool(point(_harmonic(b)) > -alpha.log() * (tokens - 1 + point(slack)))

    grid = {"tenths": range(1, 10), "gamma": (1, 4, 16, 64), "b": (1, 16, 256)}
    what = "H_b > ln(1/alpha) (E_gamma(b) - 1) (balls)"
    return all_of(lambda: exhaustive(holds, grid, what=what), _verify_band)


def _fitted(alpha: Fraction, f: Fraction) -> Cases:
    """Prediction for N = 5, W = G = 15 against the published compression of Table 3, tag 8."""

    def near(alpha: Fraction, f: Fraction, published: str) -> bool:
        predicted = (f - 1 + multi(alpha, 4, 15)) / f
        return bool(max(abs(predicted / end - 1) for end in printed(published)) < Fraction(2, 100))

    return Cases(
        text="predicted and published compression differ by less than 2 %",
        test=near,
        cases=rows({"alpha": alpha, "f": f, "published": TABLE_3[8].compression}),
        where="N = 5, W = G = 15, the only point with a printed number",
    )


_FITTED = _fitted(**_SETTING)


def _fit(fitted: Cases = _FITTED) -> Evidence:
    (case,) = fitted.cases()
    predicted = float((case["f"] - 1 + multi(case["alpha"], 4, 15)) / case["f"])
    off = max(abs(predicted / float(end) - 1) for end in printed(case["published"]))
    what = f"predicted S = {predicted:.3f} against {case['published']} published: at most {100 * off:.1f} % off"
    return numeric(fitted.holds(case), what=what, effort={"points": 1})


CLAIMS: tuple[Claim, ...] = (
    refuted("LD-S1", fix=_verify_band, mutants={"compression": restated("LD-S1", change=("1 / multi", "-multi"))}),
    proved(
        "LD-S1-band",
        verify=_verify_band,
        mutants={
            "half a token": partial(_verify_band, upper=Fraction(1, 2)),
            "nearly a token": partial(_verify_band, upper=Fraction(99, 100)),
            "binary logarithm": partial(_verify_band, base=2),
        },
    ),
    refuted(
        "LD-S2",
        _SATURATION,
        verify=partial(_search_saturation, 4),
        fix=_verify_truncation,
        mutants={"long n-grams": partial(_search_saturation, 64)},
    ),
    proved(
        "LD-S3",
        verify=_verify_growth,
        mutants={
            "b fixed": partial(_verify_growth, lambda _a, _k: 1),
            "gamma fixed": partial(_verify_growth, depth=lambda _k: 2),
        },
    ),
    proved("LD-S4", verify=_verify_one_factor, mutants={"faster limit": partial(_verify_one_factor, gap_factor=4)}),
    proved("LD-S5", verify=_verify_rate, mutants={"one token more": partial(_verify_rate, Fraction(1))}),
    record(
        Verdict.NUMERIC,
        "LD-S6",
        _FITTED,
        verify=_fit,
        mutants={
            "other alpha": partial(_fit, _fitted(Fraction(1, 2), _SETTING["f"])),
            "other f": partial(_fit, _fitted(_SETTING["alpha"], Fraction(2))),
        },
    ),
)
