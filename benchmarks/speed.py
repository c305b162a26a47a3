"""Speed of everything that simulates, in one run on one core: medians of ratios that hold on any machine.

Run: ``python -m benchmarks.speed [-o FILE] [--against FILE]``. The table goes to stdout, the rows to a JSON file.
Each run of a row follows a run of the idiomatic SimPy program, or of the program that its name says, and what is
compared with an earlier file is the median of their ratios, so that neither a slower machine nor other load is a slower
program (`benchmarks.interleaved`). A row whose median became 1.3 times worse *and* whose interval lies beyond the
earlier one is warned of, with exit status 1; memory is compared as it is. The last column says what is asked of a row:
met, missed, or open where the interval holds the goal.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.bench_serving import closed, trial_of, whole_trial
from benchmarks.bench_simulator import answer_of, our_commit_times, yardstick
from benchmarks.interleaved import Median, Row, Yardstick
from benchmarks.peers import DYNAMO, SWEEPS, TRACES, peer_rows, sweep_rows
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
K1 = 4
STEPS = 100
DRAFTED: Final = (0.3, 0.2, 0.15, 0.35)
"""Probabilities of 1, 2, 3 and 4 tokens in a pass."""
WHOLE_TOKENS: Final = 255 * 1000
BLOCK = shared_by(STEPS)
"""Answers that share a stream, as in sweeps."""

UNIT: Final = "idiomatic SimPy, steps"
UNIT_STEPS: Final = 3_000
"""Steps of the yardstick: some 70 ms of CPU."""
DRAWING: Final = "random generator, one number a step"
RECORDING: Final = "SimPy path, recording, steps"
MEMORY: Final = "peak memory, MB"
MOST_MB: Final = 300.0
RATIOS: Final = {
    RECORDING: 3.0,
    TRACES: 100.0,
    **{
        DYNAMO.format(kind, way): least
        for kind in ("plain", "speculation")
        for way, least in (("", 1.0), (", numba", 5.0))
    },
    **{SWEEPS.format(backend): 1.5 for backend in ("joblib", "dask", "ray")},
}
"""Ratios that are asked of rows: to the yardstick, or to what their names say."""

_SEEDS = count(1)
"""Seeds of all rows together: a seed that comes again brings numbers that are kept (`sim.fast.draws`)."""

Rows = dict[str, Row]


def unit() -> Yardstick:
    """The yardstick of all rows."""
    idiomatic = yardstick(answer_of(UNIT_STEPS))
    return Yardstick(work=lambda: idiomatic(K1), amount=UNIT_STEPS)


def simpy_rows(yard: Yardstick, n: int = 10_000) -> Rows:
    """The SimPy path, and the yardstick beside itself."""
    answer = answer_of(n)
    return {
        UNIT: yard.beside(yard.work, yard.amount),
        "SimPy path, steps": yard.beside(lambda: our_commit_times(answer, K1), n),
        RECORDING: yard.beside(lambda: our_commit_times(answer, K1, record=True), n, repeats=17),
    }


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


def fast_rows(yard: Yardstick) -> Rows:
    """The fast engine and its parts: by numpy alone, and by numba where it is installed."""
    random, fixed = (
        World(cv=1.2, correlation=0.6, lag1=0.37, steps=STEPS, ends=True),
        World(steps=STEPS, ends=True),
    )
    generator, u = np.random.Generator(np.random.Philox(1)), np.empty(1_000_000)
    n, whole = 4 * BLOCK, "fast engine with its draws"
    worth, loops.WORTH_COMPILING = loops.WORTH_COMPILING, sys.maxsize  # nothing is compiled
    found = {
        f"{whole}, random lengths, steps": yard.beside(drawn_anew(random, n), STEPS * n),
        f"{whole}, fixed lengths, steps": yard.beside(drawn_anew(fixed, n), STEPS * n),
        f"{whole}, random lengths, a stream for each answer, steps": yard.beside(drawn_anew(random, n, 1), STEPS * n),
        f"{whole}, fixed lengths, a stream for each answer, steps": yard.beside(drawn_anew(fixed, n, 1), STEPS * n),
        "recursion in numpy, random lengths, steps": yard.beside(*recursion(random)),
        "run lengths in numpy, fixed lengths, steps": yard.beside(*recursion(fixed)),
        DRAWING: yard.beside(lambda: generator.random(out=u), u.size),
    }
    loops.WORTH_COMPILING = 0
    if find_spec("numba") is None:
        print("numba is not installed: its rows are left out", file=sys.stderr)
    else:
        found["recursion in numba, random lengths, steps"] = yard.beside(*recursion(random, compiled=True))
        found[f"{whole}, random lengths, numba, steps"] = yard.beside(drawn_anew(random, n), STEPS * n)
    loops.WORTH_COMPILING = worth
    return found


def serving_rows(yard: Yardstick) -> Rows:
    """Closed loops of 32 answers on an engine whose cache fills up: tokens that are committed, draws included."""
    found = {}
    for name, method in (("plain decoding", "autoregressive"), ("LR", "lr-async k1=4 rules=released-code")):
        for words, pmf in (("", None), (" over token-level speculation", DRAFTED)):
            work = partial(_closed_tokens, method, pmf)
            found[f"serving, {name}{words}, tokens"] = yard.beside(work, repeats=7)
    return found | whole_rows(yard)


def _closed_tokens(method: str, pmf: tuple[float, ...] | None) -> float:
    return closed(trial_of(method, "full", seed=next(_SEEDS), pmf=pmf)).tokens


def whole_rows(yard: Yardstick) -> Rows:
    """Closed loops of 64 answers that are one request each, in Python, and by numba where it is installed."""
    found, worth = {}, running.WORTH_COMPILING
    ways = {"": sys.maxsize} if find_spec("numba") is None else {"": sys.maxsize, ", numba": 0}
    for way, least in ways.items():
        running.WORTH_COMPILING = least
        for words, pmf in (("", None), (" over token-level speculation", DRAFTED)):
            work = partial(_whole_load, pmf)
            work()  # compiled at its first call
            found[f"serving, whole answers{words}{way}, tokens"] = yard.beside(work, WHOLE_TOKENS, repeats=7)
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


def planned(yard: Yardstick) -> Rows:
    """A published profile: the plan that users ask for, and one over a thousand configurations."""
    profile, many = load("lr-deepseek-gsm8k"), Request(k1_max=252, max_parallel=4096)
    n = len(many.candidates(Predictor(profile, sparing=True).trials).known)
    return {
        "plan of a published profile": yard.beside(lambda: plan(profile, Request()), 1, repeats=7),
        f"plan over {n} configurations, configurations": yard.beside(lambda: plan(profile, many), n, repeats=6),
    }


def measured() -> tuple[Rows, float]:
    """Rows by name, and the peak of memory, MB."""
    yard = unit()
    found = {**simpy_rows(yard), **fast_rows(yard)}
    found["closed form, points"] = yard.beside(lambda: [f_async(0.7, 0.2, K1) for _ in range(2000)], 2000)
    found |= planned(yard)
    with tempfile.TemporaryDirectory() as folder:
        found["sweep at 0.1 %, points"] = yard.beside(sweep(Path(folder)), 160, repeats=7)
    found |= serving_rows(yard)
    found |= peer_rows(yard)
    found |= sweep_rows()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB, but of macOS
    return found, peak / (2**20 if sys.platform == "darwin" else 2**10)


def asked(rows: Rows) -> dict[str, float]:
    """Rates per CPU second that are asked of rows; half of what drawing alone does is asked of fixed lengths."""
    whole = "fast engine with its draws"
    goals = {
        f"{whole}, random lengths, steps": 15e6,
        f"{whole}, fixed lengths, steps": max(150e6, 0.5 * rows[DRAWING].rate.value),
        "sweep at 0.1 %, points": 2000 / 60,
        "serving, plain decoding over token-level speculation, tokens": 1e6,
        "serving, LR, tokens": 0.5e6,
        **{f"serving, whole answers{words}, tokens": 5e6 for words in ("", " over token-level speculation")},
        **{f"serving, whole answers{words}, numba, tokens": 40e6 for words in ("", " over token-level speculation")},
    }
    return goals | {name: 1000 / 2 for name in rows if name.startswith("plan over")}


def reached(measured: Median, goal: float) -> str:
    """Whether a goal is met: open where the interval holds it."""
    return "met" if measured.low >= goal else "missed" if measured.high < goal else "open"


def worse(rows: Rows, before: Rows) -> list[str]:
    """Names of rows whose ratio to the yardstick fell by more than `SLOWER`, and outside of both intervals."""
    return sorted(
        name
        for name in rows.keys() & before.keys()
        if before[name].ratio.value > SLOWER * rows[name].ratio.value and before[name].ratio.low > rows[name].ratio.high
    )


def print_table(rows: Rows, memory: float) -> None:
    """Print rates, the ratios to what ran beside them (the yardstick, unless a name says what), and what is asked."""
    goals = asked(rows)
    print(f"{'':70}{'per CPU second':>16}{'ratio, 95 %':>26}{'asked':>11}")
    for name, row in rows.items():
        ratio = f"{row.ratio.value:.4g} [{row.ratio.low:.4g}, {row.ratio.high:.4g}]"
        met = f"{goals[name]:11,.4g} {reached(row.rate, goals[name])}" if name in goals else ""
        if name in RATIOS:
            met = f"{RATIOS[name]:9g} x {reached(row.ratio, RATIOS[name])}"
        print(f"{name:70}{row.rate.value:16,.4g}{ratio:>26}{met}")
    print(f"{MEMORY:70}{memory:16,.4g}{'':26}{MOST_MB:11,.4g} {'met' if memory <= MOST_MB else 'missed'}")


def main() -> int:
    """Measure, print, write, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--against", type=Path, default=COMMITTED, help="an earlier file; default the committed one")
    options = parser.parse_args()
    before = json.loads(options.against.read_text(encoding="utf-8")) if options.against.exists() else {}
    rows, memory = measured()
    print_table(rows, memory)
    lost = worse(rows, {name: Row.read(data) for name, data in before.items() if name != MEMORY})
    lost += [MEMORY] if memory > SLOWER * before.get(MEMORY, memory) else []
    for name in lost:
        print(f"worse than in {options.against.name} by more than {SLOWER} times: {name}", file=sys.stderr)
    if options.output is not None:
        plain = {name: row.plain() for name, row in rows.items()} | {MEMORY: memory}
        write_atomically(options.output, json.dumps(plain, indent=2, sort_keys=True) + "\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
