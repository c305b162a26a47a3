"""Print the c1 at which the simulator meets LookaheadReasoning in Table 2 of ConfSpec.

Run it as ``python -m workshop.confspec_table``. No latency is published of Qwen3's pair; its profiles have the c1 that
follows, see `workshop.make_published`.
"""

from __future__ import annotations

from functools import cache
from math import isnan
from statistics import fmean, stdev

import numpy as np

from calibrate.record.library import bundled
from specplan.check.reproducing.confspec import DATASETS, Case, speedup
from specplan.output import table
from theory.published.confspec import BENCHMARKS, speedups

_GRID = (0.05, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9)


def _implied_c1(pair: str, rules: str) -> list[float]:
    """The c1 of each benchmark; NaN where none meets the row."""
    published = speedups("2 DeepSeek" if pair == "deepseek" else "2 Qwen3", "LookaheadReasoning")
    implied = []
    for benchmark in DATASETS:
        simulated = [-_lookahead(pair, benchmark, rules, c1) for c1 in _GRID]
        met = float(published[BENCHMARKS.index(benchmark)])
        implied.append(float(np.interp(-met, simulated, _GRID, left=np.nan, right=np.nan)))
    return implied


@cache
def _lookahead(pair: str, benchmark: str, rules: str, c1: float) -> float:
    profile = bundled(f"lr-{pair}-{DATASETS[benchmark]}")
    figures = profile.published
    assert figures is not None
    assert figures.verify_s is not None
    changed = figures.model_copy(update={"c1": figures.c1.model_copy(update={"value": c1})})
    case = Case(
        table="",
        row="",
        configuration=f"lr-async k1=6 rules={rules}",
        acceptance=figures.alpha1.value,
        judge_s=figures.verify_s.value,
    )
    return speedup(profile.model_copy(update={"published": changed}), case, n_answers=30)


def main() -> None:
    """Print the c1 of both pairs by schedule and benchmark."""
    lines = []
    for rules in ("paper", "eager", "released-code"):
        for pair in ("deepseek", "qwen3"):
            implied = _implied_c1(pair, rules)
            met = [c1 for c1 in implied if not isnan(c1)]
            spread = f"{stdev(met):.3f}" if len(met) > 1 else ""
            lines.append([rules, pair, *(f"{c1:.3f}" for c1 in implied), f"{fmean(met):.3f}" if met else "", spread])
    print(table(["schedule", "pair", *DATASETS, "mean", "standard deviation"], lines))


if __name__ == "__main__":
    main()
