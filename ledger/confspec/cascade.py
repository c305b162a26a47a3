"""Claims of ConfSpec about its gate: cost of verification, calibration, and what 'preserves accuracy' can mean."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from typing import Final

from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Cases, Predicate, rows, walked
from ledger.proving.domains import between
from ledger.proving.records import Given, proved, refuted, restated, verified
from ledger.proving.rounding import printed
from ledger.proving.tools import all_of, exhaustive, identity, prove_equalities
from theory.published.confspec import CONFIDENT, LATENCY_MS

__all__ = ["CLAIMS"]


def _verify_break_even(threshold: str = "1 - c_d / c_t") -> Evidence:
    """Saving = c_t (1 - c_d / c_t - e): its sign is that of threshold - e; then the published numbers."""
    saving = f"c_t - (c_d + e * c_t) == c_t * ({threshold} - e)"
    return all_of(identity(saving, "c_t - (c_d + e c_t) = c_t (threshold - e)"), _published_savings)


def _published_savings() -> Evidence:
    """Worst case over the rounding of Table 6 and Figure 1 (escalation = 1 - share of confident instances)."""
    draft, target = printed(LATENCY_MS["draft verification"]), printed(LATENCY_MS["target verification"])
    parts = []
    for name, (_all, _confident, share) in CONFIDENT.items():
        escalation = 1 - printed(share)[0]
        cost = draft[1] + escalation * target[1]
        good = cost < target[0]
        parts.append((name, good, float(cost)))
    text = ", ".join(f"{name} at most {cost:.1f} ms" for name, _good, cost in parts)
    return exhaustive(lambda row: parts[row][1], {"row": range(len(parts))}, what=f"below 45.9 ms: {text}")


def _verify_batch(checks: int = 2) -> Evidence:
    """The target is not called only if none of the checks is escalated: ``(1 - e)**n``, by induction on n."""
    return all_of(
        identity(f"1 - (1 - e)**{checks} == e + (1 - e) * e", "one of two is escalated with chance e + (1 - e) e"),
        identity("(1 - e)**n - (1 - e)**(n + 1) == e * (1 - e)**n", "one more check adds e (1 - e)^n >= 0"),
    )


_INSTANCES = tuple(itertools.product((Fraction(1, 2), Fraction(7, 10), Fraction(9, 10)), (False, True)))
"""(confidence, decision agrees with the target)."""
_LEVELS = (Fraction(0), Fraction(3, 5), Fraction(4, 5), Fraction(1))


def _rates(population: tuple[int, ...], gate: Fraction) -> dict[str, Fraction]:
    """Escalation, disagreement after the cascade, and agreement among the confident."""
    chosen = [_INSTANCES[i] for i in population]
    kept = [ok for confidence, ok in chosen if confidence >= gate]
    n = len(chosen)
    return {
        "escalation": Fraction(n - len(kept), n),
        "agreement": Fraction(sum(kept) + n - len(kept), n),
        "confident agreement": Fraction(sum(kept), len(kept)) if kept else Fraction(1),
    }


def _populations() -> Iterator[dict[str, object]]:
    for size in range(1, 5):
        for population in itertools.product(range(len(_INSTANCES)), repeat=size):
            yield from ({"population": population, "level": level} for level in range(len(_LEVELS) - 1))


def _gate(*quantities: str) -> Cases:
    """Non-decreasing in gamma: every population of up to four instances, every pair of neighbouring thresholds."""

    def holds(population: tuple[int, ...], level: int) -> bool:
        low, high = _rates(population, _LEVELS[level]), _rates(population, _LEVELS[level + 1])
        return all(low[name] <= high[name] for name in quantities)

    return Cases(
        text=f"{' and '.join(quantities)} never fall when gamma rises (rates are means over instances, so single "
        "instances decide: a higher gamma keeps a subset)",
        test=holds,
        cases=_populations,
        where="populations of up to four instances",
        partial=True,
    )


_MISLED: Final = (_INSTANCES.index((Fraction(7, 10), True)), _INSTANCES.index((Fraction(9, 10), False)))
"""Two instances, the more confident one wrong."""


def _reliability(quantity: str = "confident agreement") -> Predicate:
    """Agreement among the confident falls from 1/2 to 0."""

    def explain(low: Fraction, high: Fraction) -> str:
        at_low, at_high = (_rates(_MISLED, gamma)[quantity] for gamma in (low, high))
        return f"{at_low} at the lower, {at_high} at the higher threshold"

    return Predicate(
        text=f"{quantity} rises with gamma (right at confidence 7/10, wrong at 9/10)",
        test=lambda low, high: _rates(_MISLED, low)[quantity] <= _rates(_MISLED, high)[quantity],
        domain={"low": between(0, 1, "[]"), "high": between(0, 1, "[]")},
        premise=lambda low, high: low <= high,
        given="low <= high",
        at=[{"low": "3/5", "high": "4/5"}],
        explain=explain,
    )


def _bins(
    good: Callable[[str], bool], what: str, names: Iterable[str] = tuple(CONFIDENT), *, explain: Callable[..., str]
) -> Cases:
    """A claim about families of Figure 1."""
    return Cases(
        text=what,
        test=good,
        cases=rows(*[{"name": name} for name in names]),
        where=f"Figure 1, {' and '.join(names)}",
        shown=lambda case: dict(zip(("overall", "confident", "share"), CONFIDENT[case["name"]], strict=True)),
        explain=explain,
    )


def _every_level(lowest: Fraction = Fraction(0)) -> Predicate:
    """A yes/no verdict at its likelier side has p_D >= 1/2, so a threshold of 1/2 or less never escalates."""
    yes = [Fraction(i, 100) for i in range(101)]
    return Predicate(
        text=f"every threshold of at least {lowest} escalates some decision",
        test=lambda gamma: any(max(p, 1 - p) < gamma for p in yes),
        domain={"gamma": between(str(lowest), 1, "[]")},
        at=[{"gamma": gamma} for gamma in ("1", "3/4", "51/100", "1/2") if Fraction(gamma) >= lowest],
        explain=lambda gamma: f"the likelier of Yes and No always reaches {gamma}",
    )


def _calibrated(gate: Fraction = Fraction(9, 10)) -> Cases:
    """A calibrated verifier is right with probability >= gate where p_D >= gate."""
    return _bins(
        lambda name: printed(CONFIDENT[name][1])[1] >= gate,
        f"where p_D >= {gate}, the draft agrees at least {gate} of the time",
        explain=lambda name: f"{name} agrees at most {float(printed(CONFIDENT[name][1])[1])}",
    )


def _verify_overconfident() -> Evidence:
    gaps = {name: Fraction(9, 10) - printed(row[1])[1] for name, row in CONFIDENT.items()}
    text = ", ".join(f"{name} by at least {float(100 * gap)} points" for name, gap in gaps.items())
    return exhaustive(lambda row: list(gaps.values())[row] > 0, {"row": range(2)}, what=f"overconfident: {text}")


def _confident_part(name: str, share: str | None = None) -> Fraction:
    """The least that confident instances contribute to the overall agreement."""
    return printed(CONFIDENT[name][1])[0] * printed(share or CONFIDENT[name][2])[0]


def _total(share: str | None = None, names: tuple[str, ...] = tuple(CONFIDENT)) -> Cases:
    """Overall agreement is at least (share of confident instances) times (agreement among them)."""

    def good(name: str) -> bool:
        own = share if name == "Qwen3-1.7B" else None
        return _confident_part(name, own) <= printed(CONFIDENT[name][0])[1]

    def explain(name: str) -> str:
        overall = float(printed(CONFIDENT[name][0])[1])
        return f"{name}, where they give at least {float(_confident_part(name)):.4f}, overall is at most {overall}"

    return _bins(good, "confident instances by themselves do not exceed the overall agreement", names, explain=explain)


def _verify_largest_share() -> Evidence:
    """Share of confident instances that the accuracies of Qwen3-1.7B still allow."""
    overall, confident, _share = CONFIDENT["Qwen3-1.7B"]
    largest = printed(overall)[1] / printed(confident)[0]
    what = f"share <= {float(100 * largest):.1f} % for Qwen3-1.7B, below the 84.5 % that could round to 85 %"
    good = Fraction(826, 1000) < largest < printed("0.85")[0]
    return all_of(
        exhaustive(lambda _one: good, {"_one": (1,)}, what=what), lambda: walked(_total(None, ("DeepSeek-1.5B",)))
    )


def _low_confidence_agreement(name: str) -> Fraction:
    """Largest low-confidence agreement that the rounding allows: (overall - share * confident) / (1 - share)."""
    overall, confident, share = (printed(x) for x in CONFIDENT[name])
    # the quotient falls with `confident` and is monotone in `share`, so corners hold the maximum
    return max((overall[1] - s * confident[0]) / (1 - s) for s in share)


def _rounded_up(bound: Fraction) -> str:
    """An upper bound with three decimals."""
    return f"{math.ceil(1000 * bound) / 1000:.3f}"


def _ambiguous(level: Fraction = Fraction(1, 2)) -> Cases:
    """'Ambiguous' yes/no decisions would agree about half of the time."""
    return _bins(
        lambda name: _low_confidence_agreement(name) >= level,
        f"low-confidence decisions of DeepSeek-1.5B agree with the target at least {level} of the time",
        ("DeepSeek-1.5B",),
        explain=lambda name: f"they do so at most {_rounded_up(_low_confidence_agreement(name))}",
    )


def _verify_inverted() -> Evidence:
    value = _low_confidence_agreement("DeepSeek-1.5B")
    most = _rounded_up(value)
    what = f"agreement among low-confidence decisions at most {most} < 1/5: the opposite decision is better"
    return exhaustive(lambda _one: value < Fraction(1, 5), {"_one": (1,)}, what=what)


CLAIMS: tuple[Claim, ...] = (
    proved(
        "CS-V1",
        verify=Given(prove_equalities),
        mutants={"either or": restated("CS-V1", change=("e * (c_d + c_t)", "e * c_t"))},
    ),
    proved("CS-V2", verify=_verify_break_even, mutants={"ratio": partial(_verify_break_even, "c_d / c_t")}),
    proved("CS-V3", verify=_verify_batch, mutants={"one": partial(_verify_batch, 1)}),
    verified(
        "CS-G1",
        _gate("escalation", "agreement"),
        mutants={"among the confident": partial(_gate, "confident agreement")},
    ),
    refuted(
        "CS-G2",
        _reliability(),
        instead=_gate("escalation", "agreement"),
        mutants={"after the cascade": partial(_reliability, "agreement")},
    ),
    refuted("CS-G3", _calibrated(), fix=_verify_overconfident, mutants={"0.8": partial(_calibrated, Fraction(8, 10))}),
    refuted("CS-G4", _total(), fix=_verify_largest_share, mutants={"82 %": partial(_total, "0.82")}),
    refuted("CS-G5", _ambiguous(), fix=_verify_inverted, mutants={"one tenth": partial(_ambiguous, Fraction(1, 10))}),
    refuted(
        "CS-G6",
        _every_level(),
        fix=lambda: exhaustive(
            lambda percent: any(max(p, 100 - p) < percent for p in range(101)) == (percent > 50),
            {"percent": range(101)},
            what="some verdict (an even one, p_D = 1/2) is escalated exactly at thresholds above 1/2",
        ),
        mutants={"above 1/2": partial(_every_level, Fraction(51, 100))},
    ),
)
