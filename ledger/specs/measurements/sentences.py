"""Claims of SPECS that its own algorithm or tables decide: the threshold, noise, ablations, GPQA."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Final

from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Cases, Predicate, grid, rows, walked
from ledger.proving.deferred import sp
from ledger.proving.domains import between
from ledger.proving.once import once
from ledger.proving.records import refuted
from ledger.proving.tools import all_of, identity
from ledger.specs.exact import decided, nonnegative
from ledger.specs.measurements.cells import CELLS, accuracy, main_accuracy
from theory.published.specs import TABLE_4, TABLE_7, WIDTHS

__all__ = ["CLAIMS"]

_REWARDS = (Fraction(2, 5), Fraction(3, 5), Fraction(4, 5))
"""Largest reward among the candidates of three blocks."""


def _switch(tau: Fraction) -> int:
    """The block after which line 9 of Algorithm 1 hands over to the draft model, counted from one; 4: never."""
    return next((block for block, reward in enumerate(_REWARDS, 1) if reward > tau), len(_REWARDS) + 1)


def _threshold(sign: int = 1) -> Predicate:
    """A higher threshold switches no later (printed), or no earlier (`sign` -1)."""
    return Predicate(
        text=f"a higher tau switches to the draft model no {'later' if sign > 0 else 'earlier'}",
        test=lambda low, high: sign * (_switch(low) - _switch(high)) >= 0,
        domain={"low": between(0, 1), "high": between(0, 1)},
        premise=lambda low, high: low < high,
        given="low < high",
        at=[{"low": "1/5", "high": "3/10"}, {"low": "1/2", "high": "7/10"}],
        explain=lambda low, high: (
            f"with largest rewards 2/5, 3/5, 4/5 the switch comes after block {_switch(low)} at the lower and after "
            f"block {_switch(high)} at the higher threshold"
        ),
    )


def _fix_threshold() -> Evidence:
    low, extra, above = sp.symbols("tau d e", nonnegative=True)
    return all_of(
        identity(((low + extra) + above - low) - (extra + above), "r = tau + d + e exceeds tau by d + e"),
        lambda: nonnegative(extra + above, what="so a reward above the higher threshold is above the lower one"),
    )


def _gaps() -> Iterator[dict[str, Fraction]]:
    """SPECS less beam search with the small model, in points of accuracy: Table 1 and, with noise, Table 4."""
    for benchmark, width in CELLS:
        clean = main_accuracy("SPECS", benchmark, width) - main_accuracy("BS(S)", benchmark, width)
        noisy = accuracy(TABLE_4, "SPECS", benchmark, width) - accuracy(TABLE_4, "BS(S)", benchmark, width)
        yield {"clean": clean, "noisy": noisy}


@once
def _noise(wider: bool = True) -> Cases:
    what = "further above beam search with the small model than without" if wider else "above it"
    return Cases(
        text=f"with noisy rewards SPECS is {what}",
        test=lambda clean, noisy: noisy > clean if wider else noisy > 0,
        cases=rows(*_gaps()),
        where="nine settings of the Qwen pair",
        explain=lambda clean, noisy: f"{float(clean):.2f} points without noise, {float(noisy):.2f} with it",
    )


def _fix_noise() -> Evidence:
    shrinking = sum(gap["noisy"] < gap["clean"] for gap in _gaps())
    return all_of(
        decided(shrinking == 6, what="the gap shrinks in 6 of the 9 settings", method="exact enumeration"),
        walked(_noise(wider=False)),
    )


_REPORTED: Final = {8: False, 4: True}
"""Steps by the target before the draft takes over -> whether the text reports a loss on traces of high reward."""


def _unharmed(after: tuple[int, ...] = tuple(_REPORTED)) -> Cases:
    return Cases(
        text="the draft completes traces of high reward as well as the target does, where it takes over after so many "
        "steps",
        test=lambda steps: not _REPORTED[steps],
        cases=grid(steps=after),
        where="Figure 2b (8 steps) and Figure 7 (4 steps), as the text reports them",
        explain=lambda steps: "Appendix D.5 reports a deterioration on traces of high reward",
    )


@once
def _competitive(below: str = "2") -> Cases:
    """With noisy rewards, points of accuracy below beam search with the large model."""
    found = [
        {"specs": accuracy(TABLE_4, "SPECS", b, n), "large": accuracy(TABLE_4, "BS(B)", b, n), "width": n}
        for b, n in CELLS
    ]
    return Cases(
        text=f"with noisy rewards SPECS is at most {below} points below beam search with the large model",
        test=lambda specs, large, width: specs >= large - Fraction(below),
        cases=rows(*found),
        where="nine settings of Table 4",
        explain=lambda specs, large, width: f"{float(specs)} against {float(large)} % (width {width})",
    )


def _fix_competitive() -> Evidence:
    low = [case for case in _competitive().cases() if not _competitive().holds(case)]
    return decided(
        len(low) == 1 and low[0]["large"] - low[0]["specs"] == Fraction("7.34"),
        what="in one of 9 settings it is 7.34 points below",
        method="exact enumeration",
    )


def _saved(specs: str, large: str) -> Fraction:
    return 1 - Fraction(specs) / Fraction(large)


@once
def _gpqa(least: Fraction = Fraction(1, 10)) -> Cases:
    """Seconds of SPECS on GPQA below those of beam search with the large model by at least this share."""
    return Cases(
        text=f"SPECS saves at least {float(100 * least):g} % of the seconds of beam search with the large model",
        test=lambda specs, large: _saved(specs, large) >= least,
        cases=rows(*[{"specs": TABLE_7[n][1], "large": TABLE_7[n][3]} for n in WIDTHS]),
        where="three widths",
        explain=lambda **row: f"{float(100 * _saved(**row)):.1f} % saved",
    )


def _fix_gpqa() -> Evidence:
    saved = [_saved(TABLE_7[n][1], TABLE_7[n][3]) for n in WIDTHS]
    good = [round(float(100 * x), 1) for x in saved] == [51.6, 5.5, 20.8]
    return decided(good, what="savings of 51.6, 5.5 and 20.8 % at widths 4, 8 and 16", method="exact enumeration")


CLAIMS: tuple[Claim, ...] = (
    refuted(
        "SPECS-TAU",
        formula=_threshold(),
        correction_formula=_threshold(-1),
        correction_verify=_fix_threshold,
        mutants={"reversed": partial(_threshold, -1)},
    ),
    refuted(
        "SPECS-NOISE",
        formula=_noise(),
        correction_formula=_noise(wider=False),
        correction_verify=_fix_noise,
        mutants={"positive": partial(_noise, wider=False)},
    ),
    refuted(
        "SPECS-NOISE2",
        formula=_competitive(),
        correction_verify=_fix_competitive,
        mutants={"8": partial(_competitive, "8")},
    ),
    refuted(
        "SPECS-OBS2", formula=_unharmed(), correction_formula=_unharmed((8,)), mutants={"8": partial(_unharmed, (8,))}
    ),
    refuted(
        "SPECS-GPQA", formula=_gpqa(), correction_verify=_fix_gpqa, mutants={"at all": partial(_gpqa, Fraction(1, 20))}
    ),
)
