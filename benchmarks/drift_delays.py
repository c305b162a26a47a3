"""How soon the gateway's test finds a drift of acceptance by 0.1, and how often it is wrong (docs/serve-a-plan.md).

400 simulated streams of verdicts a row, at the rate for acceptance alone; predicted exactly, or by records of 480
verdicts (20 of them, 20 streams each) whose answers of eight steps are independent or alike.

    python -m benchmarks.drift_delays
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from specplan.drift.shares import ShareBets

STREAMS: Final = 400
FALSE_ALARM: Final = 0.05
DRIFT: Final = 0.1
LONG: Final = 20_000
LATER: Final = 3_000
RECORD: Final = 480
ANSWER: Final = 8
"""Steps of an answer."""
RECORDS: Final = 20
ROWS: Final = (
    *((p, math.inf, 0.0) for p in (0.95, 0.90, 0.80, 0.75, 0.50)),
    *((p, RECORD, icc) for p in (0.90, 0.80) for icc in (0.0, 0.1)),
)
"""Acceptance, verdicts of the record, and the intra-class correlation of those of one answer."""


def verdicts(rng: np.random.Generator, p: float, steps: int, streams: int, icc: float) -> NDArray[np.float64]:
    """Verdicts, shape (steps, streams); each answer has a share of its own around ``p``."""
    if not icc:
        return (rng.random((steps, streams)) < p).astype(float)
    k = (1.0 - icc) / icc
    own = rng.beta(k * p, k * (1.0 - p), size=(-(-steps // ANSWER), streams))
    return (rng.random((steps, streams)) < np.repeat(own, ANSWER, axis=0)[:steps]).astype(float)


def first_alarms(
    p: float, q: float, n: float, icc: float, *, start: int, steps: int, seed: int = 0
) -> NDArray[np.float64]:
    """Step of each stream's first alarm, infinity for none; acceptance is p before ``start``, and q from there on."""
    rng = np.random.default_rng(seed)
    records = 1 if math.isinf(n) else RECORDS
    streams, alike, found = STREAMS // records, 1.0 + (ANSWER - 1) * icc, []
    for _ in range(records):
        known = p if math.isinf(n) else float(verdicts(rng, p, int(n), 1, icc).mean())
        bets = ShareBets(known, n, alike=alike, drift=DRIFT, false_alarm=FALSE_ALARM)
        alarms = np.full(streams, np.inf)
        stream = np.vstack([verdicts(rng, p, start, streams, icc), verdicts(rng, q, steps - start, streams, icc)])
        for step, observed in enumerate(stream, 1):
            bets.take(observed)
            alarms = np.where((bets.evidence >= 1.0) & np.isinf(alarms), step, alarms)
        found.append(alarms)
    return np.concatenate(found)


def lorden(p: float, q: float, alike: float) -> float:
    """Steps that a test with one false alarm in 20,000 needs at least on average (Lorden 1971), p known for certain."""
    information = q * math.log(q / p) + (1.0 - q) * math.log((1.0 - q) / (1.0 - p))
    return alike * math.log(LONG) / information


def main() -> None:
    """Print the table."""
    print("acceptance    record  icc  within 200  median, at once  median, later  Lorden  false alarms in 20,000 steps")
    for p, n, icc in ROWS:
        q = p - DRIFT
        at_once = first_alarms(p, q, n, icc, start=0, steps=2_000)
        later = first_alarms(p, q, n, icc, start=LATER, steps=LATER + 3_000, seed=1)
        wrong = np.isfinite(first_alarms(p, p, n, icc, start=0, steps=LONG, seed=2)).mean()
        print(
            f"{p:.2f} to {q:.2f}  {n:6.0f}  {icc:3.1f}  {(at_once <= 200).mean():10.0%}  {np.median(at_once):15.0f}  "
            f"{np.median(later[later > LATER] - LATER):13.0f}  {lorden(p, q, 1.0 + (ANSWER - 1) * icc):6.0f}  {wrong:.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
