"""Predict ConfSpec's Tables 2 and 3: ``python -m workshop.confspec_table [--c1]``, or ``specplan reproduce confspec``.

``--c1`` prints instead at which c1 the simulator meets the row LookaheadReasoning of Table 2, for both pairs: no
latency is published of Qwen3's, see `workshop.make_published`.
"""

from __future__ import annotations

import sys
from math import isnan
from statistics import fmean, stdev

import specplan as sp
from specplan.check.reproducing.confspec import BENCHMARKS_PREDICTED, implied_c1
from specplan.output import table


def _c1_report() -> str:
    lines = []
    for rules in ("paper", "eager", "released-code"):
        for pair in ("deepseek", "qwen3"):
            found = implied_c1(pair, rules)
            met = [c1 for c1 in found if not isnan(c1)]
            spread = f"{stdev(met):.3f}" if len(met) > 1 else ""
            lines.append([rules, pair, *(f"{c1:.3f}" for c1 in found), f"{fmean(met):.3f}" if met else "", spread])
    return table(["schedule", "pair", *BENCHMARKS_PREDICTED, "mean", "standard deviation"], lines)


if __name__ == "__main__":
    print(_c1_report() if "--c1" in sys.argv[1:] else sp.reproduce("confspec").text(verbose=True))
