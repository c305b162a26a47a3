"""Lookahead Decoding on the bundled target: compression against W, N and G, and what a pass costs against its rows.

``python benchmarks/measure_lookahead.py compression FILE`` counts tokens and passes over held-out problems (no matter
on which machine); ``... cost FILE`` times passes and whole answers, plain decoding and Lookahead Decoding in turn, on a
silent machine. Both write raw samples into one JSON file, which ``figures/lookahead_compression.py`` draws.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from calibrate import pair
from calibrate.engines.protocol import Sampling
from calibrate.engines.speculation import Speculation
from calibrate.engines.torch.batch import ContinuousBatch
from calibrate.engines.torch.decoder import Decoder
from calibrate.engines.torch.job import SPARE, Job, Limits
from calibrate.engines.torch.model import load_model, load_tokenizer
from calibrate.models.asking import bundled_problems

SEED: Final = 20
N_PROBLEMS: Final = 24
LIMITS: Final = Limits(max_batch=1, n_idle=1, max_context=512)
WINDOWS: Final = (1, 2, 4, 8, 16, 32)
NGRAMS: Final = (2, 3, 4, 5, 6)
COSTED: Final = ((1, 2, 1), (2, 3, 2), (4, 3, 4), (8, 3, 8), (8, 4, 8), (16, 5, 16))  # (W, N, G)


class Bench:
    """The target, and an engine per variant, so that no state passes from one cell to the next."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        folder = pair.target_path()
        self.decoder = Decoder(
            load_model(folder, dtype=torch.float32, device=torch.device("cpu")), LIMITS.max_context + SPARE
        )
        self.tokenizer = load_tokenizer(folder)
        self.questions = [
            self.tokenizer.encode(problem.prompt).ids for problem in bundled_problems(N_PROBLEMS, SEED, "validation")
        ]

    def engine(self) -> ContinuousBatch:
        return ContinuousBatch(self.decoder, self.tokenizer, frozenset([0]), LIMITS)

    def answer(self, engine: ContinuousBatch, i: int, speculation: Speculation | None, temperature: float) -> Job:
        sampling = Sampling(temperature=temperature, top_p=0.95) if temperature else Sampling()
        one = Job(
            id=i, prompt=self.questions[i], max_tokens=300, sampling=sampling, seed=SEED + i, speculation=speculation
        )
        engine.submit(one)
        while engine.busy:
            engine.advance()
        return one

    def counts(self, speculation: Speculation, temperature: float) -> list[list[int]]:
        """Tokens after the first, and the passes that they took, of each problem's answer."""
        engine, found = self.engine(), []
        for i in range(N_PROBLEMS):
            one = self.answer(engine, i, speculation, temperature)
            found.append([one.n_generated - 1, len(one.passes)])
        return found


def lookahead(window: int, ngram: int, guesses: int) -> Speculation:
    return Speculation(method="lookahead", k2=ngram, window=window, ngram=ngram, guesses=guesses)


def compression(bench: Bench) -> list[dict[str, Any]]:
    """All cells; each says what it is and holds [tokens, passes] per answer."""
    cells = []
    for temperature in (0.0, 0.6):
        for ngram in NGRAMS:
            for window in WINDOWS:
                cells.append((temperature, ngram, window))
    found = []
    for temperature, ngram, window in cells:
        counts = bench.counts(lookahead(window, ngram, window), temperature)
        tokens, passes = map(sum, zip(*counts, strict=True))
        print(f"T={temperature} N={ngram} W={window} G={window}: S={tokens / passes:.3f}", flush=True)
        found.append(
            {
                "temperature": temperature,
                "ngram": ngram,
                "window": window,
                "guesses": window,
                "prompt_as_reference": False,
                "jump": "keep",
                "counts": counts,
            }
        )
    for window in (1, 3, 7, 15):
        counts = bench.counts(Speculation(method="jacobi", k2=window + 1, window=window), 0.0)
        found.append({"temperature": 0.0, "method": "jacobi", "window": window, "counts": counts})
    return found


def cost(bench: Bench, rounds: int = 2) -> dict[str, Any]:
    """Seconds per pass and seconds per answer, in different rounds of each problem, all settings in turn."""
    engines = {cell: bench.engine() for cell in (None, *COSTED)}
    answers: dict[Any, list[list[float]]] = {cell: [] for cell in engines}
    rows: dict[Any, Counter[int]] = {cell: Counter() for cell in engines}
    by_rows: dict[int, list[float]] = {}
    for i in range(3):
        bench.answer(engines[None], i, None, 0.0)
    for at in range(rounds * N_PROBLEMS):
        i = at % N_PROBLEMS
        for cell, engine in engines.items():
            engine.work.statistics(clear=True)
            one = bench.answer(engine, i, lookahead(*cell) if cell else None, 0.0)
            passes = [(1, it.seconds) for it in engine.work.iterations]
            passes += [(p.rows, p.seconds) for p in engine.work.passes]
            if (at + at // N_PROBLEMS) % 2:
                answers[cell].append([n := one.n_generated - 1, len(one.passes) or n, one.end - one.prefill_end])
                continue
            rows[cell].update(n for n, _ in passes)
            for n, seconds in passes:
                by_rows.setdefault(n, []).append(seconds)
    return {
        "machine": f"{platform.machine()}, one core, torch {torch.__version__}, float32",
        "settings": [list(cell) if cell else None for cell in engines],
        "answers": [answers[cell] for cell in engines],
        "rows": [dict(sorted(rows[cell].items())) for cell in engines],
        "seconds_by_rows": {n: [len(s), *(round(q, 7) for q in quartiles(s))] for n, s in sorted(by_rows.items())},
    }


def quartiles(values: list[float]) -> list[float]:
    return statistics.quantiles(values, n=4) if len(values) > 1 else values * 3


def main() -> None:
    what, path = sys.argv[1], Path(sys.argv[2])
    stored = json.loads(path.read_text()) if path.exists() else {}
    bench = Bench()
    stored[what] = compression(bench) if what == "compression" else cost(bench)
    stored["about"] = {
        "model": "bundled target",
        "seed": SEED,
        "n_problems": N_PROBLEMS,
        "split": "validation",
        "date": datetime.now(UTC).date().isoformat(),
        "counts": "[tokens after the first, target passes] per answer",
        "settings": "[W, N, G]; null is plain decoding",
        "rows": "per setting, from every other answer: rows of a pass: passes",
        "seconds_by_rows": "from the same: rows of a pass: [passes, lower quartile, median, upper quartile], s",
        "answers": "per setting, from the other answers: [tokens after the first, target passes, seconds] per answer",
    }
    path.write_text(json.dumps(stored) + "\n")


if __name__ == "__main__":
    main()
