"""Speed of everything that simulates, in one run on one core: ratios that hold on any machine.

Run: ``python -m benchmarks.speed [-o FILE] [--against FILE]``. The table goes to stdout, the rates to a JSON file.
Compared with an earlier file are rates as multiples of the idiomatic SimPy program's, so that a slower machine is no
slower program, and the memory; what became 1.3 times slower or larger is warned of, with exit status 1. The last column
says what is asked of a row.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.bench_serving import closed, trial_of, whole_trial
from benchmarks.bench_simulator import answer_of, our_commit_times, yardstick
from calibrate.record.files import write_atomically
from calibrate.record.library import load
from sim.algorithms import lookahead_async
from sim.algorithms.rules import PAPER
from sim.engines.fixed import PerToken
from sim.fast import compiled as loops
from sim.fast.draws import blocks_of, shared_by, step_seconds
from sim.fast.recursions import async_seconds
from sim.gaps.worlds import World, behaviour_of, engines_of
from sim.serving.answers import ServedLoad
from sim.serving.loop import running
from sim.serving.run import closed_loop
from sim.trial import Trial, trial_seconds
from specplan.planning.planner import Request, plan
from specplan.planning.predict import Predictor
from specplan.planning.sweeping.grid import Grid
from specplan.planning.sweeping.sweep import run_sweep
from theory.speedup import f_async

COMMITTED = Path(__file__).with_name("speed.json")
SLOWER = 1.3
ENOUGH_S = 0.3
K1 = 4
STEPS = 100
DRAFTED: Final = (0.3, 0.2, 0.15, 0.35)
"""Probabilities of 1, 2, 3 and 4 tokens in a pass."""
WHOLE_TOKENS: Final = 255 * 1000
BLOCK = shared_by(STEPS)
"""Answers that share a stream, as in sweeps."""

UNIT: Final = "idiomatic SimPy, steps"
DRAWING: Final = "random generator, one number a step"
MEMORY: Final = "peak memory, MB"

_SEEDS = count(1)
"""Seeds of all rows together: a seed that comes again brings numbers that are kept (`sim.fast.draws`)."""

Rates = dict[str, float]


def rate(work: Callable[[], object], amount: int, repeats: int = 5) -> float:
    """Amount per CPU second, the fastest of several runs; of short ones of as many as take `ENOUGH_S`."""
    took: list[float] = []
    while len(took) < repeats or sum(took) < ENOUGH_S:
        took.append(seconds_of(work))
    return amount / min(took)


def seconds_of(work: Callable[[], object]) -> float:
    """CPU seconds."""
    start = time.process_time()
    work()
    return time.process_time() - start


def simpy_rates(n: int = 10_000, repeats: int = 8) -> Rates:
    """The SimPy path and the yardstick, in turn, so that other load on the machine hits all alike."""
    answer = answer_of(n)
    idiomatic = yardstick(answer)
    works: dict[str, Callable[[], object]] = {
        UNIT: lambda: idiomatic(K1),
        "SimPy path, steps": lambda: our_commit_times(answer, K1),
        "SimPy path, recording, steps": lambda: our_commit_times(answer, K1, record=True),
    }
    rounds = [{name: seconds_of(work) for name, work in works.items()} for _ in range(repeats)]
    return {name: n / min(took[name] for took in rounds) for name in works}


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


def drawn_anew(world: World, n: int, block: int = BLOCK) -> Callable[[], object]:
    """All of it, drawing included: each call has answers of its own, by default drawn as those of sweeps are."""

    def work() -> object:
        behaviour = behaviour_of(world, next(_SEEDS), block)
        return trial_seconds(Trial.of(partial(lookahead_async, k1=K1), behaviour, engines_of(world)), range(n))

    return work


def fast_rates() -> Rates:
    """The fast engine and its parts: by numpy alone, and by numba where it is installed."""
    random, fixed = (
        World(cv=1.2, correlation=0.6, lag1=0.37, steps=STEPS, ends=True),
        World(steps=STEPS, ends=True),
    )
    generator, u = np.random.Generator(np.random.Philox(1)), np.empty(1_000_000)
    n, whole = 4 * BLOCK, "fast engine with its draws"
    worth, loops.WORTH_COMPILING = loops.WORTH_COMPILING, sys.maxsize  # nothing is compiled
    found = {
        f"{whole}, random lengths, steps": rate(drawn_anew(random, n), STEPS * n),
        f"{whole}, fixed lengths, steps": rate(drawn_anew(fixed, n), STEPS * n),
        f"{whole}, random lengths, a stream for each answer, steps": rate(drawn_anew(random, n, 1), STEPS * n),
        f"{whole}, fixed lengths, a stream for each answer, steps": rate(drawn_anew(fixed, n, 1), STEPS * n),
        "recursion in numpy, random lengths, steps": rate(*recursion(random)),
        "run lengths in numpy, fixed lengths, steps": rate(*recursion(fixed)),
        DRAWING: rate(lambda: generator.random(out=u), u.size),
    }
    loops.WORTH_COMPILING = 0
    if find_spec("numba") is None:
        print("numba is not installed: its rows are left out", file=sys.stderr)
    else:
        found["recursion in numba, random lengths, steps"] = rate(*recursion(random, compiled=True))
        found[f"{whole}, random lengths, numba, steps"] = rate(drawn_anew(random, n), STEPS * n)
    loops.WORTH_COMPILING = worth
    return found


def serving_rates() -> Rates:
    """Closed loops of 32 answers on an engine whose cache fills up: tokens that are committed, draws included."""
    found = {}
    for name, method in (("plain decoding", "autoregressive"), ("LR", "lr-async k1=4 rules=released-code")):
        for words, pmf in (("", None), (" over token-level speculation", DRAFTED)):
            rates = []
            for _ in range(3):
                trial = trial_of(method, "full", seed=next(_SEEDS), pmf=pmf)
                start = time.process_time()
                load = closed(trial)
                rates.append(load.tokens / (time.process_time() - start))
            found[f"serving, {name}{words}, tokens"] = max(rates)
    return found | whole_rates()


def whole_rates() -> Rates:
    """Closed loops of 64 answers that are one request each, in Python, and by numba where it is installed."""
    found, worth = {}, running.WORTH_COMPILING
    ways = {"": sys.maxsize} if find_spec("numba") is None else {"": sys.maxsize, ", numba": 0}
    for way, least in ways.items():
        running.WORTH_COMPILING = least
        for words, pmf in (("", None), (" over token-level speculation", DRAFTED)):
            work = partial(_whole_load, pmf)
            work()  # compiled at its first call
            found[f"serving, whole answers{words}{way}, tokens"] = rate(work, WHOLE_TOKENS, repeats=3)
    running.WORTH_COMPILING = worth
    return found


def _whole_load(pmf: tuple[float, ...] | None) -> ServedLoad:
    return closed_loop(whole_trial(seed=next(_SEEDS), pmf=pmf), concurrency=64, tokens=WHOLE_TOKENS, met_under_way=True)


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


def planned() -> Rates:
    """A published profile: the plan that users ask for, and one over a thousand configurations."""
    profile, many = load("lr-deepseek-gsm8k"), Request(k1_max=252, max_parallel=4096)
    n = len(many.candidates(Predictor(profile, sparing=True).trials).known)
    return {
        "plan of a published profile": rate(lambda: plan(profile, Request()), 1, repeats=3),
        f"plan over {n} configurations, configurations": rate(lambda: plan(profile, many), n, repeats=1),
    }


def measured() -> Rates:
    """Rates by name, per CPU second; and what they took of memory."""
    found = {**simpy_rates(), **fast_rates()}
    found["closed form, points"] = rate(lambda: [f_async(0.7, 0.2, K1) for _ in range(200)], 200)
    found |= planned()
    with tempfile.TemporaryDirectory() as folder:
        found["sweep at 0.1 %, points"] = rate(sweep(Path(folder)), 160, repeats=2)
    found |= serving_rates()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB, but of macOS
    found[MEMORY] = peak / (2**20 if sys.platform == "darwin" else 2**10)
    return found


def asked(rates: Rates) -> Rates:
    """What is asked of rows: three times the yardstick, half of what drawing alone does, rates, and 300 MB."""
    whole = "fast engine with its draws"
    goals = {
        "SimPy path, recording, steps": 3.0 * rates[UNIT],
        f"{whole}, random lengths, steps": 15e6,
        f"{whole}, fixed lengths, steps": max(150e6, 0.5 * rates[DRAWING]),
        "sweep at 0.1 %, points": 2000 / 60,
        "serving, plain decoding over token-level speculation, tokens": 1e6,
        "serving, LR, tokens": 0.5e6,
        **{f"serving, whole answers{words}, tokens": 5e6 for words in ("", " over token-level speculation")},
        **{f"serving, whole answers{words}, numba, tokens": 40e6 for words in ("", " over token-level speculation")},
        MEMORY: 300.0,
    }
    return goals | {name: 1000 / 2 for name in rates if name.startswith("plan over")}


def worse(rates: Rates, before: Rates) -> list[str]:
    """Names of rows that became slower, or larger, by more than `SLOWER`."""
    found = []
    for name in rates.keys() & before.keys():
        scale = 1.0 if name == MEMORY else before[UNIT] / rates[UNIT]
        ratio = before[name] / (rates[name] * scale)
        if (1.0 / ratio if name == MEMORY else ratio) > SLOWER:
            found.append(name)
    return sorted(found)


def print_table(rates: Rates) -> None:
    """Print rates, what they are of the yardstick's, and what is asked."""
    goals = asked(rates)
    print(f"{'':70}{'per CPU second':>16}{'x idiomatic':>13}{'asked':>11}")
    for name, value in rates.items():
        goal = goals.get(name)
        met = "" if goal is None else f"{goal:11,.4g} {'met' if (value <= goal) == (name == MEMORY) else 'missed'}"
        share = f"{'':13}" if name == MEMORY else f"{value / rates[UNIT]:13.4g}"
        print(f"{name:70}{value:16,.4g}{share}{met}")


def main() -> int:
    """Measure, print, write, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="write the rates to this JSON file")
    parser.add_argument("--against", type=Path, default=COMMITTED, help="an earlier file; default the committed one")
    options = parser.parse_args()
    before = json.loads(options.against.read_text(encoding="utf-8")) if options.against.exists() else {}
    rates = measured()
    print_table(rates)
    lost = worse(rates, before)
    for name in lost:
        print(f"worse than in {options.against.name} by more than {SLOWER} times: {name}", file=sys.stderr)
    if options.output is not None:
        write_atomically(options.output, json.dumps(rates, indent=2, sort_keys=True) + "\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
