"""Claims of SPECS that its own algorithm or tables decide: the threshold, noise, ablations, GPQA."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from theory.claims.ledger import Claim, Evidence
from theory.claims.proving.deferred import sp
from theory.claims.proving.records import mutant, proved, refuted
from theory.claims.proving.tools import all_of, exhaustive, identity, refute
from theory.claims.specs.exact import decided, nonnegative
from theory.published.specs import BENCHMARKS, TABLE_1, TABLE_2, TABLE_4, TABLE_6, TABLE_7, WIDTHS

__all__ = ["CLAIMS"]

_CELLS = tuple((benchmark, width) for benchmark in BENCHMARKS for width in WIDTHS)
_REWARDS = (Fraction(2, 5), Fraction(3, 5), Fraction(4, 5))
"""Largest reward among the candidates of three blocks."""


def _accuracy(table: Mapping[tuple[str, int], tuple[str, ...]], method: str, benchmark: str, width: int) -> Fraction:
    """Of Tables 2, 4 and 6, in percent."""
    return Fraction(table[method, width][2 * BENCHMARKS.index(benchmark)])


def _main(method: str, benchmark: str, width: int) -> Fraction:
    """Accuracy of Table 1, Qwen pair, in percent."""
    return Fraction(TABLE_1["Qwen2.5", benchmark, method, width].accuracy)


def _switch(tau: Fraction) -> int:
    """The block after which line 9 of Algorithm 1 hands over to the draft model, counted from one; 4: never."""
    return next((block for block, reward in enumerate(_REWARDS, 1) if reward > tau), len(_REWARDS) + 1)


def _verify_threshold(sign: int = 1) -> Evidence:
    """A higher threshold switches no later (printed), or no earlier (`sign` -1)."""
    return refute(
        lambda low, high: sign * (_switch(low) - _switch(high)) >= 0,
        [{"low": "1/5", "high": "3/10"}, {"low": "1/2", "high": "7/10"}],
        what=f"a higher tau switches to the draft model no {'later' if sign > 0 else 'earlier'}",
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
    for benchmark, width in _CELLS:
        clean = _main("SPECS", benchmark, width) - _main("BS(S)", benchmark, width)
        noisy = _accuracy(TABLE_4, "SPECS", benchmark, width) - _accuracy(TABLE_4, "BS(S)", benchmark, width)
        yield {"clean": clean, "noisy": noisy}


def _verify_noise(wider: bool = True) -> Evidence:
    return refute(
        lambda clean, noisy: noisy > clean if wider else noisy > 0,
        _gaps(),
        what="with noisy rewards SPECS is further above beam search with the small model than without"
        if wider
        else "with noisy rewards SPECS is above beam search with the small model",
        explain=lambda clean, noisy: f"{float(clean):.2f} points without noise, {float(noisy):.2f} with it",
    )


def _fix_noise() -> Evidence:
    shrinking = sum(gap["noisy"] < gap["clean"] for gap in _gaps())
    return all_of(
        decided(shrinking == 6, what="the gap shrinks in 6 of the 9 settings", method="exact enumeration"),
        decided(
            all(gap["noisy"] > 0 for gap in _gaps()), what="and stays positive in all 9", method="exact enumeration"
        ),
    )


def _verify_no_target(method: str = "No Target") -> Evidence:
    """Accuracies of Table 2 above those of BS(S) in Table 1."""
    points: list[dict[str, Fraction | int | str]] = [
        {"ablation": _accuracy(TABLE_2, method, b, n), "small": _main("BS(S)", b, n), "width": n} for b, n in _CELLS
    ]
    return refute(
        lambda ablation, small, width: ablation > small,
        points,
        what=f"{method} is more accurate than beam search with the small model",
        explain=lambda ablation, small, width: f"{float(ablation)} against {float(small)} % (MATH500, width {width})",
    )


def _fix_no_target() -> Evidence:
    ahead = [_accuracy(TABLE_2, "No Target", b, n) - _main("BS(S)", b, n) for b, n in _CELLS]
    good = sum(gap > 0 for gap in ahead) == 7 and max(ahead) > 16 and min(ahead) == Fraction(-3, 2)
    return decided(good, what="ahead in 7 of 9 settings, by at most 16.1 points", method="exact enumeration")


def _verify_variant(better: str, worse: str) -> Evidence:
    """One row of Table 6 is more accurate than another at every width and benchmark."""
    points: list[dict[str, Fraction | int | str]] = [
        {"first": _accuracy(TABLE_6, better, b, n), "second": _accuracy(TABLE_6, worse, b, n), "width": n}
        for b, n in _CELLS
    ]
    return refute(
        lambda first, second, width: first > second,
        points,
        what=f"{better} is more accurate than {worse}",
        explain=lambda first, second, width: f"{float(first)} against {float(second)} % at width {width}",
    )


_SMALL_START, _LARGE_RSD = "SPECS (start with small model)", "RSD (start with large model)"
_PLAIN_SCORE = "SPECS (with no log-likelihood term in score)"


def _fix_small_start() -> Evidence:
    ahead = [_accuracy(TABLE_6, _SMALL_START, b, n) > _accuracy(TABLE_6, "RSD", b, n) for b, n in _CELLS]
    return decided(sum(ahead) == 8, what="more accurate than RSD in 8 of 9 settings", method="exact enumeration")


def _verify_others(worse: tuple[str, ...] = (_LARGE_RSD, _PLAIN_SCORE)) -> Evidence:
    rows = [(b, n, other) for b, n in _CELLS for other in worse]

    def holds(row: int) -> bool:
        benchmark, width, other = rows[row]
        return _accuracy(TABLE_6, "SPECS", benchmark, width) > _accuracy(TABLE_6, other, benchmark, width)

    return exhaustive(holds, {"row": range(len(rows))}, what=f"SPECS is more accurate than {' and '.join(worse)}")


def _verify_gpqa(least: Fraction = Fraction(1, 10)) -> Evidence:
    """Seconds of SPECS on GPQA below those of beam search with the large model by at least this share."""
    return refute(
        lambda specs, large: 1 - specs / large >= least,
        [{"specs": TABLE_7[n][1], "large": TABLE_7[n][3]} for n in WIDTHS],
        what=f"SPECS saves at least {float(100 * least):g} % of the seconds of beam search with the large model",
        explain=lambda specs, large: f"{float(100 * (1 - specs / large)):.1f} % saved",
    )


def _fix_gpqa() -> Evidence:
    saved = [1 - Fraction(TABLE_7[n][1]) / Fraction(TABLE_7[n][3]) for n in WIDTHS]
    good = [round(float(100 * x), 1) for x in saved] == [51.6, 5.5, 20.8]
    return decided(good, what="savings of 51.6, 5.5 and 20.8 % at widths 4, 8 and 16", method="exact enumeration")


CLAIMS: tuple[Claim, ...] = (
    refuted(
        id="SPECS-TAU",
        source="SPECS, Section 4.2, accuracy against latency (threshold tau)",
        statement="Higher values of tau switch to the draft model more quickly, for lower latency and accuracy.",
        assumptions="Algorithm 1, line 9: the draft model takes over once the largest reward exceeds tau",
        verify=_verify_threshold,
        correction="The other way round: a reward above a higher threshold is above a lower one, so a higher tau never "
        "switches earlier, and the target model writes more. Figure 4 says so too: at tau = 1 SPECS is beam search "
        "with the large model.",
        correction_verify=_fix_threshold,
        mutants=(mutant("reversed", "a higher tau switches no earlier", _verify_threshold, -1),),
    ),
    refuted(
        id="SPECS-NOISE",
        source="SPECS, Appendix D.6 against Tables 1 and 4",
        statement="With noisy rewards the gap in accuracy between SPECS and beam search with the small model "
        "increases.",
        assumptions="Qwen pair, equal benchmark and width; Table 1 without, Table 4 with noise",
        verify=_verify_noise,
        correction="The gap shrinks in 6 of the 9 settings and stays positive in all of them.",
        correction_verify=_fix_noise,
        mutants=(mutant("positive", "the gap stays positive", _verify_noise, wider=False),),
    ),
    refuted(
        id="SPECS-NOTARGET",
        source="SPECS, Section 4.3, draft selection score, against Tables 1 and 2",
        statement="Without the target model as a generator SPECS is much more accurate than beam search with the small "
        "model.",
        assumptions="Qwen pair, equal benchmark and width; 'much' is read as 'at all'",
        verify=_verify_no_target,
        correction="It is ahead in 7 of 9 settings, by up to 16.1 points (OlympiadBench, width 4), and behind on "
        "MATH500 at widths 8 and 16.",
        correction_verify=_fix_no_target,
        mutants=(mutant("SPECS", "SPECS itself", _verify_no_target, "SPECS"),),
    ),
    refuted(
        id="SPECS-D8",
        source="SPECS, Appendix D.8, first ablation, against Table 6",
        statement="SPECS that starts with the small model performs better than RSD.",
        assumptions="Qwen pair, equal benchmark and width; accuracy",
        verify=lambda: _verify_variant(_SMALL_START, "RSD"),
        correction="In 8 of 9 settings; on MATH500 at width 4 RSD is more accurate, 77.8 against 77.5 %.",
        correction_verify=_fix_small_start,
        mutants=(mutant("other RSD", "than RSD that starts large", _verify_variant, _SMALL_START, _LARGE_RSD),),
    ),
    proved(
        id="SPECS-D8b",
        source="SPECS, Appendix D.8, second and third ablation, against Table 6",
        statement="SPECS is more accurate than RSD that starts with the large model, and than SPECS without the "
        "log-likelihood in its score.",
        assumptions="Qwen pair, all nine settings of Table 6",
        verify=_verify_others,
        mutants=(mutant("RSD", "than RSD", _verify_others, ("RSD",)),),
    ),
    refuted(
        id="SPECS-GPQA",
        source="SPECS, Appendix D.9 against Table 7",
        statement="On GPQA SPECS has a much better latency than beam search with the large model.",
        assumptions="each width; 'much' is read as by a tenth",
        verify=_verify_gpqa,
        correction="By 51.6, 5.5 and 20.8 % at widths 4, 8 and 16; at width 4 its accuracy is 3.4 points lower.",
        correction_verify=_fix_gpqa,
        mutants=(mutant("at all", "better by 5 %", _verify_gpqa, Fraction(1, 20)),),
    ),
)
