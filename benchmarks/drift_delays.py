"""How soon the gateway's test finds a drift of acceptance by 0.1, and how often it is wrong (docs/serve-a-plan.md).

400 simulated streams of independent verdicts a row, at the rate for acceptance alone and an exactly known prediction.

    python -m benchmarks.drift_delays
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from specplan.drift.betting import MeanBets

STREAMS: Final = 400
FALSE_ALARM: Final = 0.05
DRIFT: Final = 0.1
LONG: Final = 20_000
LATER: Final = 3_000


def first_alarms(p: float, q: float, *, start: int, steps: int, seed: int = 0) -> NDArray[np.float64]:
    """Step of each stream's first alarm, infinity for none; acceptance is p before ``start``, and q from there on."""
    rng = np.random.default_rng(seed)
    bets = MeanBets(p, p, drift=DRIFT, false_alarm=FALSE_ALARM)
    alarms = np.full(STREAMS, np.inf)
    for step in range(steps):
        bets.take((rng.random(STREAMS) < (p if step < start else q)).astype(float))
        alarms = np.where((bets.evidence >= 1.0) & np.isinf(alarms), step + 1, alarms)
    return alarms


def lorden(p: float, q: float) -> float:
    """Steps that a test with one false alarm in 20,000 needs at least on average (Lorden 1971)."""
    information = q * math.log(q / p) + (1.0 - q) * math.log((1.0 - q) / (1.0 - p))
    return math.log(LONG) / information


def main() -> None:
    """Print the table."""
    print("acceptance    within 200  median, at once  median, later  Lorden  false alarms in 20,000 steps")
    for p in (0.95, 0.90, 0.80, 0.75, 0.50):
        q = p - DRIFT
        at_once = first_alarms(p, q, start=0, steps=2_000)
        later = first_alarms(p, q, start=LATER, steps=LATER + 3_000, seed=1)
        wrong = np.isfinite(first_alarms(p, p, start=0, steps=LONG, seed=2)).mean()
        print(
            f"{p:.2f} to {q:.2f}  {(at_once <= 200).mean():10.0%}  {np.median(at_once):15.0f}  "
            f"{np.median(later[later > LATER] - LATER):13.0f}  {lorden(p, q):6.0f}  {wrong:.1%} of the streams"
        )


if __name__ == "__main__":
    main()
