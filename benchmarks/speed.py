"""Speed of everything that simulates, in one run on one core: ratios that hold on any machine.

Run: ``python -m benchmarks.speed [-o FILE] [--against FILE]``. The table goes to stdout, the rates to a JSON file.
Compared with an earlier file are rates as multiples of the idiomatic SimPy program's, so that a slower machine is no
slower program; what became 1.3 times slower is warned of, with exit status 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from benchmarks.bench_simulator import answer_of, our_commit_times, yardstick
from calibrate.record.files import write_atomically
from calibrate.record.library import load
from sim.algorithms import lookahead_async
from sim.algorithms.rules import PAPER
from sim.engines.fixed import PerToken
from sim.fast.draws import blocks_of, step_seconds
from sim.fast.kernels import async_seconds
from sim.gaps.worlds import World, behaviour_of, engines_of
from sim.trial import Trial, trial_seconds
from specplan.planning.planner import Request, plan
from specplan.sweeping.grid import Grid
from specplan.sweeping.sweep import run_sweep
from theory.speedup import f_async

COMMITTED = Path(__file__).with_name("speed.json")
SLOWER = 1.3
K1 = 4

_SEEDS = count(1)
"""Of all rows together: a seed that comes again brings numbers that are kept (`sim.fast.draws`)."""


def rate(work: Callable[[], object], amount: int, repeats: int = 5) -> float:
    """Amount per CPU second, the fastest of several runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return amount / best


def recursion(world: World, *, compiled: bool = False) -> tuple[Callable[[], object], int]:
    """The recursion on answers that are drawn already; by run lengths where steps take the same time."""
    (answers, *_) = list(blocks_of(behaviour_of(world, 0), range(600)))
    target, draft = (step_seconds(PerToken(s), n) for s, n in ((0.025, answers.target), (0.005, answers.draft)))
    cut = answers.target_cut
    work = partial(
        async_seconds,
        *(target, draft, answers.accepted, np.float64(0.0), answers.n_steps),
        k1=K1,
        rules=PAPER,
        target_cut=cut,
        draft_cut=cut,
        compiled=compiled,
    )
    work()  # compiled at its first call
    return work, target.size


def drawn_anew(world: World) -> Callable[[], object]:
    """All of it, drawing included: each call has answers of its own."""

    def work() -> object:
        behaviour = behaviour_of(world, next(_SEEDS))
        return trial_seconds(Trial.of(partial(lookahead_async, k1=K1), behaviour, engines_of(world)), range(600))

    return work


def sweep(folder: Path) -> Callable[[], object]:
    """160 points at 0.1 % standard error."""
    names = iter(range(100))
    told = {
        "precision": 0.001,
        "fixed": {"cv": 1.2, "correlation": 0.6, "lag1": 0.37, "judge": 0.1},
        "vary": {
            "method": ["lr-async", "lr-sync"],
            "k1": [2, 4, 6, 8],
            "alpha1": [0.5, 0.6, 0.7, 0.8, 0.9],
            "c1": [0.1, 0.2, 0.3, 0.4],
        },
    }
    return lambda: run_sweep(Grid.model_validate(told), folder / f"{next(names)}.csv")


def measured() -> dict[str, float]:
    """Rates by name, per CPU second."""
    n = 10_000
    answer = answer_of(n)
    random, fixed = World(cv=1.2, correlation=0.6, lag1=0.37, steps=100, ends=True), World(steps=100, ends=True)
    idiomatic = yardstick(answer)
    generator, u = np.random.Generator(np.random.Philox(1)), np.empty(1_000_000)
    found = {
        "idiomatic SimPy, steps": rate(lambda: idiomatic(K1), n),
        "SimPy path, steps": rate(lambda: our_commit_times(answer, K1), n),
        "SimPy path, recording, steps": rate(lambda: our_commit_times(answer, K1, record=True), n),
        "fast engine with its draws, random lengths, steps": rate(drawn_anew(random), 60_000),
        "fast engine with its draws, fixed lengths, steps": rate(drawn_anew(fixed), 60_000),
        "recursion in numpy, random lengths, steps": rate(*recursion(random)),
        "run lengths in numpy, fixed lengths, steps": rate(*recursion(fixed)),
        "random generator, one number a step": rate(lambda: generator.random(out=u), u.size),
        "closed form, points": rate(lambda: [f_async(0.7, 0.2, K1) for _ in range(200)], 200),
        "plan of a published profile": rate(lambda: plan(load("lr-deepseek-gsm8k"), Request()), 1, repeats=1),
    }
    try:
        found["recursion in numba, random lengths, steps"] = rate(*recursion(random, compiled=True))
    except ImportError:
        print("numba is not installed: its row is left out", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        found["sweep at 0.1 %, points"] = rate(sweep(Path(folder)), 160, repeats=1)
    return found


def main() -> int:
    """Measure, print, write, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="write the rates to this JSON file")
    parser.add_argument("--against", type=Path, default=COMMITTED, help="an earlier file; default the committed one")
    options = parser.parse_args()
    rates = measured()
    unit = rates["idiomatic SimPy, steps"]
    before = json.loads(options.against.read_text(encoding="utf-8")) if options.against.exists() else {}
    slower = []
    print(f"{'':52}{'per CPU second':>16}{'x idiomatic':>14}")
    for name, value in rates.items():
        print(f"{name:52}{value:16,.4g}{value / unit:14.4g}")
        if name in before and before[name] / before["idiomatic SimPy, steps"] > SLOWER * value / unit:
            slower.append(name)
    for name in slower:
        print(f"slower than {options.against.name} by more than {SLOWER}: {name}", file=sys.stderr)
    if options.output is not None:
        write_atomically(options.output, json.dumps(rates, indent=2, sort_keys=True) + "\n")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
