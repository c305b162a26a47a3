"""Speed of the engine under load against the engine without limits, in one run.

Thirty-two answers at once of Lookahead Reasoning (k1 = 4, 150 steps of 40 tokens), and of plain decoding, on
`sim.serving.engine.ServingEngine`, with a cache that fills up and one that does not, and on
`sim.engines.batching.BatchEngine`.
Runs are interleaved and the fastest of each is taken, so that other load on the machine hits all alike.

Run: ``python benchmarks/bench_serving.py [--repeats N]``; exit status 1 if a ratio is below a quarter.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sim.algorithms.autoregressive import autoregressive
from sim.answers.acceptance import Acceptance
from sim.answers.drawn import SyntheticBehaviour
from sim.answers.lengths import Fixed, Lengths, Lognormal
from sim.answers.token_passes import DrawnPasses
from sim.configuration import Configuration
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.engines.protocol import Engine
from sim.fast.draws import shared_by
from sim.roles import DRAFT, TARGET
from sim.serving.answers import ServedLoad
from sim.serving.engine import ServingEngine
from sim.serving.limits import ADDED, Joined, ServingLimits
from sim.serving.run import closed_loop
from sim.trial import Trial

REQUIRED = 0.25
ANSWERS, STEPS = 32, 150
TARGET_COST = LinearCost(base_s=0.01, sequence_s=2e-4, context_s=1e-8, prefill_s=0.01, prefill_token_s=1e-5)
DRAFT_COST = LinearCost(base_s=0.003, sequence_s=1e-4, context_s=1e-9, prefill_s=0.003, prefill_token_s=1e-6)
CACHE_TOKENS = 120_000.0
"""About a third of what the answers hold at their ends."""


def engines(kind: str) -> dict[str, Engine]:
    """The target's engine of a kind, and the draft's."""
    limits = ServingLimits(cache_tokens=CACHE_TOKENS if kind == "full" else float("inf"))
    target = BatchEngine(TARGET_COST) if kind == "batch" else ServingEngine(Joined(TARGET_COST, ADDED), limits=limits)
    return {TARGET: target, DRAFT: BatchEngine(DRAFT_COST)}


def trial_of(method: str, kind: str, *, seed: int = 0, pmf: tuple[float, ...] | None = None) -> Trial:
    """A method on drawn answers; with ``pmf`` the target's passes commit so many tokens each."""
    configuration = Configuration.parse(method)
    step = Lognormal(mean=40.0, cv=1.2)
    behaviour = SyntheticBehaviour(
        lengths=Lengths(target=step, draft=step, correlation=0.6, lag1=0.37, limit=100),
        acceptance=Acceptance(alpha=0.6),
        steps=Fixed(STEPS),
        prompt_tokens=2000,
        seed=seed,
    )
    trial = Trial.of(configuration.algorithm(), behaviour, engines(kind), meets=configuration.spec.meets)
    return trial.speculating({TARGET: DrawnPasses(pmf=pmf, seed=seed)} if pmf else {})


def whole_trial(*, seed: int, pmf: tuple[float, ...] | None = None) -> Trial:
    """Plain decoding of answers that are one request of about 255 tokens, as users of a server ask for them."""
    length = Lognormal(mean=255.0, cv=0.8)
    drawn = SyntheticBehaviour(
        lengths=Lengths(target=length, draft=length),
        acceptance=Acceptance(alpha=0.6),
        steps=Fixed(1),
        prompt_tokens=300,
        seed=seed,
        block=shared_by(1),
    )
    trial = Trial.of(autoregressive, drawn, engines("free"), meets="plain")
    return trial.speculating({TARGET: DrawnPasses(pmf=pmf, seed=seed)} if pmf else {})


def closed(trial: Trial) -> ServedLoad:
    """Simulate the closed loop."""
    return closed_loop(trial, concurrency=ANSWERS, tokens=ANSWERS * STEPS * 20)


def seconds(method: str, kind: str) -> float:
    """Wall-clock seconds in which the answers are simulated."""
    trial = trial_of(method, kind)
    began = time.perf_counter()
    closed(trial)
    return time.perf_counter() - began


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    worst = float("inf")
    print(f"{'method':34} {'engine':28} {'s':>7} {'speed / batch':>14}")
    for method in ("autoregressive", "lr-async k1=4 rules=released-code"):
        kinds = {"batch": "without limits", "free": "under load", "full": "under load, cache full"}
        taken = {kind: [] for kind in kinds}
        for _ in range(repeats):
            for kind in kinds:
                taken[kind].append(seconds(method, kind))
        for kind, words in kinds.items():
            ratio = min(taken["batch"]) / min(taken[kind])
            worst = min(worst, ratio)
            print(f"{method:34} {words:28} {min(taken[kind]):7.3f} {ratio:14.2f}")
    return 0 if worst >= REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())
