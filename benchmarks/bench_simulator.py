"""Speed of the simulator against an idiomatic SimPy program of the same timeline, in one run.

Random step lengths, width 1, the paper's rules. Both simulate the same answers, drawn before the clock starts; their
commit times are compared before their speeds. Ours goes through the generator protocol and the virtual clock. Each run
follows one of the idiomatic program, and the medians of their ratios decide, so that other load on the machine hits
both alike (`benchmarks.interleaved`).

Run: ``python benchmarks/bench_simulator.py [--steps N] [--repeats N]``; exit status 1 if the interval of a median lies
below 3, operations recorded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.idiomatic_simpy import idiomatic_commit_times
from benchmarks.interleaved import Row, Yardstick
from sim.algorithms import lookahead_async
from sim.answers.acceptance import Acceptance
from sim.answers.drawn import DrawnAnswer, SyntheticBehaviour
from sim.answers.lengths import Fixed, Lengths, Lognormal
from sim.engines.fixed import FixedEngine, PerToken
from sim.virtual_clock import VirtualClock

REQUIRED = 3.0
TARGET_TOKEN_S = 0.01
DRAFT_TOKEN_S = 0.002


def answer_of(n_steps: int) -> DrawnAnswer:
    """Draw one long answer."""
    lengths = Lengths(
        target=Lognormal(mean=40.0, cv=1.2), draft=Lognormal(mean=40.0, cv=1.2), correlation=0.6, lag1=0.37
    )
    return SyntheticBehaviour(lengths=lengths, acceptance=Acceptance(alpha=0.7), steps=Fixed(n_steps)).answer(0)


def our_commit_times(answer: DrawnAnswer, k1: int, *, record: bool = False) -> list[float]:
    """Simulate with the generator protocol."""
    engines = {
        "target": FixedEngine(PerToken(TARGET_TOKEN_S)),
        "draft": FixedEngine(PerToken(DRAFT_TOKEN_S)),
        "judge": FixedEngine(0.0),
    }
    clock = VirtualClock(engines, record=record)
    session = clock.launch(lookahead_async(answer.root, k1=k1), answer)
    clock.run(session)
    return session.commit_times


def yardstick(answer: DrawnAnswer) -> Callable[[int], list[float]]:
    """Return the idiomatic program on the same answer, as a function of k1."""
    target_s = [TARGET_TOKEN_S * n for n in answer.target_lengths()]
    draft_s = [DRAFT_TOKEN_S * n for n in answer.draft_lengths()]
    accepted = answer.accepted()
    return lambda k1: idiomatic_commit_times(target_s, draft_s, accepted, k1=k1)


def main() -> int:
    """Print steps per second of both, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000, help="steps of the simulated answer")
    parser.add_argument("--repeats", type=int, default=11, help="runs of each, six at least for an interval")
    options = parser.parse_args()
    answer = answer_of(options.steps)
    idiomatic = yardstick(answer)
    missed = False
    print(f"{'k1':>4}{'ours, steps/s':>16}{'recording':>12}{'ours / idiomatic, 95 %':>26}{'recording / idiomatic':>26}")
    for k1 in (2, 4, 8):
        if max(abs(a - b) for a, b in zip(our_commit_times(answer, k1), idiomatic(k1), strict=True)) > 1e-6:
            print(f"the two programs disagree at k1={k1}", file=sys.stderr)
            return 1
        yard = Yardstick(work=partial(idiomatic, k1), amount=options.steps)
        ours, recorded = (
            yard.beside(partial(our_commit_times, answer, k1, record=record), options.steps, options.repeats)
            for record in (False, True)
        )
        print(f"{k1:4d}{ours.rate.value:16,.0f}{recorded.rate.value:12,.0f}{_ratio(ours):>26}{_ratio(recorded):>26}")
        missed = missed or recorded.ratio.high < REQUIRED
    return 1 if missed else 0


def _ratio(row: Row) -> str:
    return f"{row.ratio.value:.2f} [{row.ratio.low:.2f}, {row.ratio.high:.2f}]"


if __name__ == "__main__":
    sys.exit(main())
