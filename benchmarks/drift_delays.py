"""How soon the gateway's test finds a drift of acceptance by 0.1, and how often it is wrong (docs/serve-a-plan.md).

400 simulated streams of verdicts a row, at the rate for acceptance alone; predicted exactly, or by records of 480
verdicts (20 of them with 20 streams each, or ``--records``) whose answers of eight steps are independent or alike. The
last rows have the lengths and shares of the bundled pair: predicted together, and by length.

    python -m benchmarks.drift_delays [--records N]
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from specplan.live.drift.betting import Record, ShareBets

STREAMS: Final = 400
FALSE_ALARM: Final = 0.05
DRIFT: Final = 0.1
LONG: Final = 20_000
LATER: Final = 3_000
RECORD: Final = 480
ANSWER: Final = 8
"""Steps of an answer."""
Streams = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table."""

    shares: tuple[float, ...]
    """Acceptance of each kind of draft."""
    weights: tuple[float, ...] = (1.0,)
    """How often each kind comes."""
    n: float = math.inf
    """Verdicts of the record."""
    alike: float = 0.0
    """Intra-class correlation of the verdicts of an answer."""
    apart: bool = False
    """Whether the test tells kinds apart."""

    @property
    def share(self) -> float:
        """Acceptance over all kinds."""
        return float(np.dot(self.shares, self.weights))

    @property
    def moved(self) -> tuple[float, ...]:
        """Acceptance of each kind when that over all is lower by the drift: the odds of all move alike."""
        p, w = np.array(self.shares), np.array(self.weights)
        times = brentq(lambda t: w @ (t * p / (1.0 + (t - 1.0) * p)) - self.share + DRIFT, 1e-6, 1.0)
        return tuple(float(one) for one in times * p / (1.0 + (times - 1.0) * p))

    @property
    def effect(self) -> float:
        """Variance of an answer's verdicts / that of independent ones."""
        return 1.0 + (ANSWER - 1) * self.alike

    @property
    def lorden(self) -> float:
        """Steps that a test with one false alarm in 20,000 needs at least on average, shares known for certain."""
        shares, moved = (self.shares, self.moved) if self.apart else ((self.share,), (self.share - DRIFT,))
        told = [q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p)) for p, q in zip(shares, moved, strict=True)]
        return self.effect * math.log(LONG) / float(np.dot(told, self.weights if self.apart else (1.0,)))


BY_LENGTH: Final = Row(shares=(0.99, 0.95, 0.68, 0.55), weights=(0.42, 0.22, 0.17, 0.19))
"""The bundled pair: drafts of up to 12, 18 and 45 tokens, and longer ones."""
ROWS: Final = (
    *(Row(shares=(p,)) for p in (0.95, 0.90, 0.80, 0.75, 0.50)),
    *(Row(shares=(p,), n=RECORD, alike=alike) for p in (0.90, 0.80) for alike in (0.0, 0.1)),
    *(Row(shares=BY_LENGTH.shares, weights=BY_LENGTH.weights, n=RECORD, apart=apart) for apart in (False, True)),
)


def verdicts(
    rng: np.random.Generator, row: Row, shares: tuple[float, ...], kinds: NDArray[np.int64], n: int
) -> Streams:
    """Verdicts of drafts of these kinds, shape (steps, n); each answer has a share of its own around its kind's."""
    p = np.array(shares)[kinds][:, None]
    if row.alike:
        k = (1.0 - row.alike) / row.alike
        own = rng.beta(k * shares[0], k * (1.0 - shares[0]), size=(-(-kinds.size // ANSWER), n))
        p = np.repeat(own, ANSWER, axis=0)[: kinds.size]
    return (rng.random((kinds.size, n)) < p).astype(float)


def recorded(rng: np.random.Generator, row: Row) -> list[Record]:
    """What a calibration finds."""
    if math.isinf(row.n):
        return [Record(row.share)]
    kinds = rng.choice(len(row.shares), size=int(row.n), p=row.weights)
    said = verdicts(rng, row, row.shares, kinds, 1)[:, 0]
    if not row.apart:
        return [Record(float(said.mean()), row.n)]
    return [Record(float(said[kinds == i].mean()), int((kinds == i).sum())) for i in range(len(row.shares))]


def first_alarms(row: Row, *, start: int, steps: int, records: int, seed: int = 0) -> NDArray[np.float64]:
    """Step of each stream's first alarm, infinity for none; acceptance moves at ``start``."""
    rng = np.random.default_rng(seed)
    found = []
    streams = STREAMS // records
    for _ in range(records):
        bets = ShareBets(recorded(rng, row), alike=row.effect, drift=DRIFT, false_alarm=FALSE_ALARM)
        kinds = rng.choice(len(row.shares), size=steps, p=row.weights)
        before = verdicts(rng, row, row.shares, kinds[:start], streams)
        stream = np.vstack([before, verdicts(rng, row, row.moved, kinds[start:], streams)])
        alarms = np.full(streams, np.inf)
        for step, observed in enumerate(stream, 1):
            bets.kind = int(kinds[step - 1]) if row.apart else 0
            bets.take(observed)
            alarms = np.where((bets.evidence >= 1.0) & np.isinf(alarms), step, alarms)
        found.append(alarms)
    return np.concatenate(found)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20, choices=[20, 50, 100, 200, 400], help="of the 400 streams")
    asked = parser.parse_args().records
    print("acceptance     record  alike  within 200  median, at once  median, later  Lorden  false alarms in 20,000")
    for row in ROWS:
        records = 1 if math.isinf(row.n) else asked
        at_once = first_alarms(row, start=0, steps=2_000, records=records)
        later = first_alarms(row, start=LATER, steps=LATER + 3_000, records=records, seed=1)
        wrong = np.isfinite(first_alarms(row, start=LONG, steps=LONG, records=records, seed=2)).mean()
        print(
            f"{row.share:.2f} to {row.share - DRIFT:.2f}{'*' if row.apart else ' '} {row.n:7.0f}  {row.alike:5.1f}"
            f"  {(at_once <= 200).mean():10.0%}  {np.median(at_once):15.0f}"
            f"  {np.median(later[later > LATER] - LATER):13.0f}  {row.lorden:6.0f}  {wrong:.1%}",
            flush=True,
        )
    print("* by length")


if __name__ == "__main__":
    main()
