"""How near ``specplan explain`` comes to the best k, from any k, in how many steps: on simulated servers.

    python -m benchmarks.explain_procedure [--worlds 20]

A server is a curve of acceptance by position and what its rounds take. Curves are those of published heads and of
published figures of draft models (draws of `specplan.worlds.priors`), of the bundled pair by model and by head, and
of drafts whose difficulty varies (mixtures by a beta distribution). Each answer departs from the curve, as answers do.
The server counts as vLLM does; without speculation it was measured once. Then the advice is followed: run the k that is
said to come next, give what ran before as a baseline, until explain is sure.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrate.engines.prometheus import SpecDecode
from specplan.live.explaining.costs import Point
from specplan.live.explaining.depth import Depth
from specplan.live.explaining.explanation import explained, point_of
from specplan.live.explaining.reading import Histogram, Reading
from specplan.live.explaining.window import window
from specplan.worlds.priors import token_curves

Floats = NDArray[np.float64]

MOST: Final = 64
"""Largest k that vLLM takes here."""
TOKENS: Final = 300
"""Tokens of an answer."""
APART: Final = 0.3
"""Standard deviation of the logit of acceptance between answers."""
MEASURED: Final = 40
"""Answers of a window."""
SPREAD: Final = 0.3
"""Spread of the durations of rounds, over their mean."""
BATCH: Final = 4
PLAIN_S: Final = 0.02
PREFILL_S: Final = 1e-3
_BOUNDS: Final = (0.0, *(float(b) for b in 1e-3 * 1.2 ** np.arange(100)), math.inf)

MODEL: Final = (0.54, 0.88, 0.90, 0.95, 0.94)
"""The bundled pair's draft, by torch, 1,336 rounds at temperature 0.6; further positions as the last."""
HEAD: Final = (0.65, 0.80, 0.80, 0.90, 0.88)
"""Its EAGLE head, 1,577 rounds."""
ROUNDS: Final = ((0.02, 0.0, 0.03), (0.05, 0.01, 0.0), (0.1, 0.01, 0.05), (0.2, 0.02, 0.0), (0.3, 0.0, 0.1))
"""Costs as shares of a plain round: a drafted token, a row that is verified, and what comes with any draft."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server with any k."""

    kind: str
    conditional: Floats
    """Acceptance of each position given those before, shape (MOST,)."""
    drafting: float
    row: float
    fixed: float

    def seconds(self, k: int) -> float:
        """Return the time of a round with k drafted tokens."""
        return PLAIN_S * (1.0 + (self.fixed + (self.drafting + self.row) * k if k else 0.0))

    def pace(self, k: int) -> float:
        """Tokens per second, over answers of the same length: a harmonic mean."""
        apart, weights = np.polynomial.hermite_e.hermegauss(15)
        logits = np.log(self.conditional[:k] / (1.0 - self.conditional[:k]))[None, :] + APART * apart[:, None]
        tokens = 1.0 + np.cumprod(1.0 / (1.0 + np.exp(-logits)), axis=1).sum(axis=1)
        return float(weights.sum() / (weights / tokens).sum()) / self.seconds(k)

    def readings(self, k: int, rng: np.random.Generator, parts: int = 2) -> list[Reading]:
        """What it counts while it answers: before, and after each part of the answers."""
        counts = _Counts(k)
        found = [counts.reading()]
        for _ in range(parts):
            for _ in range(MEASURED // parts):
                self._answer(k, counts, rng)
            found.append(counts.reading())
        return found

    def _answer(self, k: int, counts: _Counts, rng: np.random.Generator) -> None:
        logit = np.log(self.conditional[:k] / (1.0 - self.conditional[:k])) + rng.normal(0.0, APART)
        upto = np.concatenate([[1.0], np.cumprod(1.0 / (1.0 + np.exp(-logit))), [0.0]])
        rounds = max(round(TOKENS / upto.sum()), 1)
        ends = rng.multinomial(rounds, np.maximum(upto[:-1] - upto[1:], 0.0))
        accepted = [int(ends[j:].sum()) for j in range(1, k + 1)]
        noise = rng.normal(0.0, SPREAD / math.sqrt(rounds / BATCH))
        counts.add(rounds, accepted, self.seconds(k) * (1.0 + noise))


@dataclass(slots=True)
class _Counts:
    """vLLM's counters."""

    k: int
    rounds: int = 0
    answers: int = 0
    seconds: float = 0.0
    accepted: list[int] = field(default_factory=list)

    def add(self, rounds: int, accepted: Sequence[int], seconds: float) -> None:
        """Count the rounds of an answer, and their mean duration."""
        self.rounds += rounds
        self.answers += 1
        self.seconds += rounds * seconds
        self.accepted = [a + b for a, b in zip(self.accepted or [0] * self.k, accepted, strict=True)]

    def reading(self) -> Reading:
        """What the server would say now."""
        accepted = self.accepted or [0] * self.k
        tokens = self.rounds + sum(accepted) + self.answers
        passes = self.rounds / BATCH
        spec = SpecDecode(
            tokens=tokens,
            drafts=self.rounds,
            drafted=self.rounds * self.k,
            accepted=sum(accepted),
            accepted_at=tuple(accepted),
        )
        return Reading(
            source=f"k={self.k}",
            engine="vllm",
            models=frozenset({"simulated"}),
            started=0.0,
            counters={"generated": float(tokens), "prompt": 50.0 * self.answers},
            histograms={
                "gaps": _histogram(self.rounds, self.seconds),
                "iterations": _histogram(passes, float(tokens)),
                "first": _histogram(self.answers, PREFILL_S * self.answers),
                "prefill": _histogram(self.answers, PREFILL_S * self.answers),
            },
            spec=spec if self.k else None,
            accept_length=math.nan,
            running=BATCH,
            waiting=0,
            cache_usage=0.1,
            cache_tokens=1e6,
        )


def _histogram(count: float, total: float) -> Histogram:
    """Return a histogram of equal values: one bucket holds them."""
    mean = total / count if count else 0.0
    counts = [0.0] * len(_BOUNDS)
    counts[next(i for i, bound in enumerate(_BOUNDS) if mean <= bound)] = float(count)
    return Histogram(bounds=_BOUNDS, counts=tuple(counts), total=total)


def servers(n: int, seed: int = 0) -> Iterator[Server]:
    """Servers of every kind of curve, ``n`` of each, with every kind of round in turn."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        drafting, row, fixed = ROUNDS[i % len(ROUNDS)]
        for kind, conditional in _curves(rng):
            padded = np.concatenate([conditional, np.full(MOST, conditional[-1])])[:MOST]
            yield Server(kind=kind, conditional=np.clip(padded, 0.01, 0.99), drafting=drafting, row=row, fixed=fixed)


def _curves(rng: np.random.Generator) -> Iterator[tuple[str, Floats]]:
    for method in ("eagle3", "mtp", "draft-model"):
        worlds = token_curves(method).worlds
        yield method, worlds[rng.integers(len(worlds))]
    yield "pair, model", np.array(MODEL)
    yield "pair, head", np.array(HEAD)
    # Of odds that differ between drafts, those go on that have good ones: a beta distribution of mean m and size s.
    mean, size = rng.uniform(0.4, 0.85), np.exp(rng.uniform(np.log(1.0), np.log(30.0)))
    j = np.arange(MOST)
    yield "mixture", (mean * size + j) / (size + j)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How following the advice ended."""

    k: int
    ran: tuple[int, ...]
    """The k that ran, the first one included."""
    sure: bool
    missed: float
    """Share of the best pace, [0, 1)."""


def followed(server: Server, start: int, rng: np.random.Generator, *, most: int = 4) -> list[Ended]:
    """Return what is reached if the advice is followed 0, 1, ... times, up to ``most`` or until it is sure."""
    plain = server.readings(0, rng)
    points = [point_of(window(plain[0], plain[-1]))]
    best = max(server.pace(k) for k in range(MOST + 1))
    found: list[Ended] = []
    ran: list[int] = [start]
    while True:
        depth, point = _asked(server, ran[-1], points, rng)
        said = round(depth.best.value)
        missed = 1.0 - server.pace(min(said, MOST)) / best
        found.append(Ended(k=said, ran=tuple(ran), sure=depth.sure, missed=missed))
        if depth.sure or len(ran) > most or depth.step in ran:
            return found
        points.append(point)
        ran.append(min(depth.step, MOST))


def _asked(server: Server, k: int, points: Sequence[Point], rng: np.random.Generator) -> tuple[Depth, Point]:
    """What explain says of a k, and what it is as a baseline."""
    readings = server.readings(k, rng)
    depth = explained(readings, baselines=points).depth
    assert depth is not None
    return depth, point_of(window(readings[0], readings[-1]))


def main() -> None:
    """Follow the advice on all servers from every k, and print how it ends."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--worlds", type=int, default=20, help="servers of each kind")
    parser.add_argument("--starts", default="1,2,3,5,10")
    given = parser.parse_args()
    print(f"{'kind':12} {'from k':>6}  {'within 3 % at once':>18}  {'in the end':>10}  {'worst':>6}  {'runs':>4}  sure")
    for kind in ("eagle3", "mtp", "draft-model", "pair, model", "pair, head", "mixture"):
        for start in map(int, given.starts.split(",")):
            rng = np.random.default_rng([start, 7])
            ended = [followed(one, start, rng) for one in servers(given.worlds) if one.kind == kind]
            first = np.mean([one[0].missed <= 0.03 for one in ended])
            last = np.array([one[-1].missed for one in ended])
            runs = np.mean([len(one[-1].ran) - 1 for one in ended])
            sure = np.mean([one[-1].sure for one in ended])
            print(
                f"{kind:12} {start:6}  {first:18.0%}  {np.mean(last <= 0.03):10.0%}  {last.max():6.1%}  {runs:4.1f}  "
                f"{sure:.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
