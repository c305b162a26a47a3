"""Lookahead Decoding on the bundled target: compression against W and N with Equations 5 and 7, and what it is worth.

Reads ``lookahead_compression.json``, which ``benchmarks/measure_lookahead.py`` measured.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from _common import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, new_figure, save
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.optimize import curve_fit

from theory.hardware.gpus import gpu_named
from theory.hardware.passes import PassModel
from theory.hardware.shapes import Attention, Dense, Layers, Shape
from theory.hardware.work import Work
from theory.lookahead_decoding.speedup import lookahead_compression
from workshop.lookahead_devices import device_rows

DATA: Final = Path(__file__).parent / "lookahead_compression.json"
COLOURS: Final = {2: BLUE, 3: ORANGE, 4: GREEN, 5: VERMILION, 6: PURPLE}
DEVICES: Final = (1, 2, 4, 8)
_LAYERS: Final = Layers(
    count=36, attention=Attention(heads=32, kv_heads=8, head_dim=128), feed_forward=Dense(intermediate=12288)
)
MODEL: Final = PassModel(
    gpu=gpu_named("H100"), shape=Shape(hidden=4096, vocab=151936, layers=(_LAYERS,), norms=4)
)  # Qwen3-8B
CONTEXT: Final = 1000
"""Cached tokens of the modelled sequence."""
_PARALLEL_N: Final = 5
_MOST_ERROR: Final = 0.10
"""What the caption may claim as the fit's mean error on settings that it has not seen."""


def compression(counts: list[list[int]]) -> tuple[float, float]:
    """Tokens per pass, a ratio of totals, and its jackknife standard error over answers."""
    tokens, passes = np.array(counts, dtype=float).T
    left_out = (tokens.sum() - tokens) / (passes.sum() - passes)
    n = len(tokens)
    return float(tokens.sum() / passes.sum()), float(np.sqrt((n - 1) * np.var(left_out)))


def grid(cells: list[dict[str, Any]]) -> NDArray[np.float64]:
    """Greedy settings with G = W: rows of W, N, S, standard error, and whether the fit sees it."""
    rows = []
    for cell in cells:
        if cell["temperature"] == 0.0 and cell.get("jump") == "keep" and not cell["prompt_as_reference"]:
            w, n, g = cell["window"], cell["ngram"], cell["guesses"]
            if w == g and n in COLOURS and w & (w - 1) == 0:
                rows.append((w, n, *compression(cell["counts"]), (int(np.log2(w)) + n) % 2))
    return np.array(sorted(rows))


def draw_compression(axes: Axes, below: Axes, table: NDArray[np.float64], fit: tuple[float, float]) -> None:
    """Measured points, filled where the fit saw them, its lines, and the errors in per cent below."""
    columns = np.geomspace(1, 32, 6)
    for n, colour in COLOURS.items():
        w, _, s, error, seen = table[table[:, 1] == n].T
        fitted = lookahead_compression(*fit, window=w.astype(int), ngram=n)
        axes.plot(
            columns,
            lookahead_compression(*fit, window=columns.round().astype(int), ngram=n),
            color=colour,
            linewidth=1.2,
        )
        for which, face in ((seen == 1, colour), (seen == 0, "white")):
            label = f"N = {n}" if face == colour else None
            axes.errorbar(
                w[which],
                s[which],
                1.96 * error[which],
                fmt="o",
                color=colour,
                markerfacecolor=face,
                markersize=5,
                capsize=2,
                linewidth=1,
                label=label,
            )
            below.plot(w[which], 100 * (fitted / s - 1)[which], "o", color=colour, markerfacecolor=face, markersize=5)
    axes.set_xscale("log", base=2)
    axes.set_ylabel("compression S [tokens per pass]")
    axes.legend(frameon=False, title="lines: Eqs. 5 and 7; hollow: not fitted", fontsize=8, title_fontsize=8, ncols=2)
    below.axhline(0.0, color="black", linewidth=0.8)
    below.set_ylabel("fit error [%]")
    below.set_xlabel("window W = guesses G")


def seconds_of(cost: dict[str, Any]) -> Any:
    """Time of a pass by its rows: medians, a straight line between them."""
    known = np.array([(int(rows), q[2]) for rows, q in cost["seconds_by_rows"].items()])
    return lambda rows: float(np.interp(rows, known[:, 0], known[:, 1]))


def speedups(cost: dict[str, Any], cells: list[dict[str, Any]]) -> list[tuple[list[int], float, float, float]]:
    """Setting, predicted speedup, measured speedup and its standard error.

    Predicted from the compression of all answers and the pass times of other answers than those that were timed.
    """
    tau = seconds_of(cost)
    plain = np.array(cost["answers"][0])[:, 2]
    found = []
    for setting, answers, rows in zip(cost["settings"][1:], cost["answers"][1:], cost["rows"][1:], strict=True):
        w, n, g = setting
        same = [c for c in cells if c.get("ngram") == n and c["window"] == w and c["guesses"] == g]
        counts = next(c["counts"] for c in same if c["temperature"] == 0.0 and c["jump"] == "keep")
        total = sum(rows.values())
        mean = sum(k * tau(int(r)) for r, k in rows.items()) / total
        own = np.array(answers)[:, 2]
        ratios = (plain.sum() - plain) / (own.sum() - own)
        error = float(np.sqrt((len(own) - 1) * np.var(ratios)))
        found.append((setting, compression(counts)[0] * tau(1) / mean, float(plain.sum() / own.sum()), error))
    return found


def draw_speedups(axes: Axes, found: list[tuple[list[int], float, float, float]]) -> None:
    """Predicted against measured."""
    for setting, predicted, measured, error in found:
        axes.errorbar(predicted, measured, 1.96 * error, fmt="o", color=BLUE, markersize=5, capsize=2, linewidth=1)
        axes.annotate(
            f"({', '.join(map(str, setting))})", (predicted, measured), xytext=(6, -8), textcoords="offset points",
            fontsize=7,
        )  # fmt: skip
    ends = [0.9 * min(p for _, p, _, _ in found), 1.1 * max(p for _, p, _, _ in found)]
    axes.plot(ends, ends, color=GREY, linewidth=1)
    axes.set_xlabel("predicted speedup, S τ(1) / τ(rows) [–]")
    axes.set_ylabel("measured speedup [–]")
    axes.set_title("one CPU core, (W, N, G)", fontsize=10, loc="left")


def gpu_seconds(rows: int) -> float:
    """Modelled time of a pass of one sequence over so many tokens."""
    return MODEL.seconds(Work(sequences=1, tokens=rows, context=CONTEXT))


def draw_parallel(axes: Axes, table: NDArray[np.float64]) -> float:
    """Modelled speedup against W when GPUs share the branches; return what a GPU alone reaches at best."""
    w, _, s, *_ = table[table[:, 1] == _PARALLEL_N].T
    best = 0.0
    for devices, colour in zip(DEVICES, (BLUE, ORANGE, GREEN, VERMILION), strict=True):
        rows = [device_rows(int(v), _PARALLEL_N, int(v), devices) for v in w]
        value = [one * gpu_seconds(1) / gpu_seconds(r) for one, r in zip(s, rows, strict=True)]
        axes.plot(w, value, "o-", color=colour, markersize=4, linewidth=1.2, label=f"{devices}")
        best = max(best, *value) if devices == 1 else best
    axes.set_xscale("log", base=2)
    axes.set_xlabel(f"window W = guesses G, N = {_PARALLEL_N}")
    axes.set_ylabel("modelled speedup [–]")
    axes.set_title("H100s, 8B shape, these compressions", fontsize=10, loc="left")
    axes.legend(frameon=False, title="GPUs that share the branches", fontsize=8, title_fontsize=8, ncols=2)
    return best


def main() -> None:
    """Fit, draw, and check the caption."""
    data = json.loads(DATA.read_text())
    cells, cost = data["compression"], data["cost"]
    table = grid(cells)
    seen = table[:, 4] == 1
    w, n, s = table[:, 0].astype(int), table[:, 1].astype(int), table[:, 2]
    (alpha, f), _ = curve_fit(
        lambda at, alpha, f: lookahead_compression(alpha, f, window=at[0].astype(int), ngram=at[1].astype(int)),
        (w[seen], n[seen]), s[seen], p0=(0.3, 2.0), bounds=([1e-9, 1.0], [1.0 - 1e-9, np.inf]),
    )  # fmt: skip
    errors = np.abs(lookahead_compression(alpha, f, window=w, ngram=n) / s - 1)[~seen]
    figure = new_figure(11.0, 5.4)
    panels = figure.subplot_mosaic([["s", "p"], ["s", "p"], ["s", "d"], ["e", "d"]])
    panels["e"].sharex(panels["s"])
    draw_compression(panels["s"], panels["e"], table, (alpha, f))
    found = speedups(cost, cells)
    draw_speedups(panels["p"], found)
    best = draw_parallel(panels["d"], table)
    for axes in panels.values():
        axes.grid(color="#EEEEEE")
    assert best > max(m for _, _, m, _ in found), "a GPU with spare arithmetic gains less than the CPU core"
    worst = max(abs(p / m - 1) for _, p, m, _ in found)
    assert errors.mean() < _MOST_ERROR, f"the fit is {errors.mean():.1%} off on settings that it has not seen"
    assert worst < 0.10, f"a predicted speedup is {worst:.1%} off"
    for size in COLOURS:
        one = s[n == size]
        assert one[-1] > one[0], f"W = 32 compresses less than W = 1 at N = {size}"
    caption = (
        f"Lookahead Decoding on the bundled target compresses {s.min():.2f} to {s.max():.2f} times; Equations 5 and 7 "
        f"with alpha = {alpha:.2f} and f = {f:.2f}, fitted to half of the {len(s)} settings, are "
        f"{errors.mean():.1%} off on the other half (worst {errors.max():.1%}), and S τ(1) / τ(rows) is within "
        f"{worst:.0%} of the speedups measured on a CPU core; an H100 with an 8B shape would reach {best:.2f}."
    )
    save(figure, "lookahead_compression", seed=data["about"]["seed"], caption=caption)


if __name__ == "__main__":
    main()
