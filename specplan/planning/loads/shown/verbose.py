"""All of a plan under load in 80 columns: tables by load, the curve, every k, how sure, the commands."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calibrate.replay.trials import PLAIN
from specplan.output import SCREEN, table
from specplan.planning.loads.assumed import assumed_by_plan
from specplan.planning.loads.shown.pasting import broken, json_lines
from specplan.planning.loads.shown.words import (
    by_prompts,
    dollars_each,
    median_and_90th,
    method_name,
    named,
    not_considered,
    one_k,
    policies,
    switch_off,
    title,
    verdict,
)
from specplan.planning.loads.statements import k_table
from specplan.worlds.beliefs import MEASURE
from specplan.worlds.world import passes_of

if TYPE_CHECKING:
    from specplan.planning.loads.load_plan import LoadPlan, LoadRow
    from specplan.planning.loads.options import Option
    from specplan.worlds.request import Load
    from specplan.worlds.running.settings import Settings

__all__ = ["plan_as_text"]


def plan_as_text(plan: LoadPlan, settings: Sequence[Settings]) -> str:
    """The plan for a reader.

    Parameters
    ----------
    plan : what was found.
    settings : of the best option at each load, in their order.
    """
    deployment = plan.deployment
    lines = [textwrap.fill(title(deployment), SCREEN), "", _by_load(plan), ""]
    lines += _wrapped(verdict(deployment, load, rows) for load, rows in plan.loads)
    lines += _wrapped(f"Not planned: {why}." for why in plan.beyond)
    if plan.curve.gains:
        lines += ["", "Gain over plain decoding on as many GPUs, by answers at once (k1, k):", ""]
        lines += [_curve(plan), "", switch_off(plan)]
    lines += [""]
    lines += _methods(plan)
    lines += _k_table(plan)
    lines += _wrapped(f"- {note}" for note in _notes(plan))
    together: dict[Settings, list[str]] = {}
    for (load, _), one in zip(plan.loads, settings, strict=True):
        together.setdefault(one, []).append(_at(load))
    for one, loads in together.items():
        lines += ["", *_settings(loads, one)]
    return "\n".join(lines)


def _wrapped(lines: Iterable[str]) -> Iterator[str]:
    yield from (
        textwrap.fill(line, SCREEN, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
        for line in lines
    )


def _by_load(plan: LoadPlan) -> str:
    """Two tables that fit a terminal: what is best where, and what users see of it; plain decoding below each."""
    deployment = plan.deployment
    priced, bound = deployment.gpu_price is not None, plan.limits.binding
    best = ["load", "best", "GPUs", "gain", "95 % interval", "runs out first"]
    best += ["$/M tokens", "$/answer"] if priced else []
    seen = ["load", "method", "tokens/s", "TTFT s", "TPOT ms", "answer s", *(["goodput/s"] if bound else [])]
    upper, lower = [], []
    for load, found in plan.loads:
        plain = [row for row in found[1:] if row.option.configuration == PLAIN]
        for name, row in zip((load.text, ""), [found[0], *plain], strict=False):
            dollars = dollars_each(deployment, row) if priced else ()
            upper.append([name, named(deployment, row.option), *_gain_cells(row), *dollars])
            goodput = [f"{row.goodput:.3g}"] if bound else []
            lower.append([name, method_name(deployment, row.option.configuration), *_times(row), *goodput])
    return f"{_tables(best, upper, 2)}\n\n{_tables(seen, lower, 2)}"


def _tables(headings: Sequence[str], rows: Sequence[Sequence[str]], keep: int) -> str:
    """A table, as several where it is wider than a screen, each with the first ``keep`` columns."""
    widths = [max(map(len, column)) + 2 for column in zip(headings, *rows, strict=True)]
    blocks, used = [list(range(keep))], sum(widths[:keep])
    for column in range(keep, len(headings)):
        if used + widths[column] > SCREEN + 2 and len(blocks[-1]) > keep:
            blocks.append(list(range(keep)))
            used = sum(widths[:keep])
        blocks[-1].append(column)
        used += widths[column]
    found = ([[row[i] for i in block] for row in (headings, *rows)] for block in blocks)
    return "\n\n".join(table(block[0], block[1:], width=SCREEN) for block in found)


def _gain_cells(row: LoadRow) -> list[str]:
    plain = row.option.configuration == PLAIN
    spread = "–" if plain else f"{row.gain.low:.2f} – {row.gain.high:.2f}"
    limit = row.limit if row.meets else f"{row.limit}; misses the bounds"
    return [row.option.arrangement.text, f"{row.gain.value:.2f}", spread, limit]


def _times(row: LoadRow) -> list[str]:
    times = [median_and_90th(row, name, unit) for name, unit in (("ttft_s", 1.0), ("tpot_s", 1e3), ("seconds", 1.0))]
    return [f"{row.tokens_per_s:.0f}", *times]


def _curve(plan: LoadPlan) -> str:
    curve = plan.curve
    rows = []
    for kind, gains in curve.gains.items():
        first = next(option for option in curve.options[kind] if option is not None)
        cells = [
            "–" if gain is None or option is None else f"{gain:.2f} ({_depths(option)})"
            for gain, option in zip(gains, curve.options[kind], strict=True)
        ]
        rows.append([method_name(plan.deployment, first.configuration), *cells])
    return _tables(["method", *(str(n) for n in curve.answers)], rows, 1)


def _depths(option: Option) -> str:
    configuration = option.configuration
    depths = [configuration.k1] if configuration.k1 > 1 else []
    return ", ".join(str(depth) for depth in [*depths, *([configuration.k2 - 1] if configuration.k2 > 1 else [])])


def _k_table(plan: LoadPlan) -> Iterator[str]:
    """What each k loses, by answers at once."""
    found = k_table(plan)
    if found is None:
        return
    option = found.option
    where = f"{method_name(plan.deployment, option.configuration)} on {option.arrangement.text}"
    yield from _wrapped([f"Tokens per second that each k loses against the best k, in %, {where}, by answers at once:"])
    yield ""
    by_k = zip(found.ks, found.losses, strict=True)
    rows = [[str(k), *(f"{100.0 * lost:.0f}" for lost in losses)] for k, losses in by_k]
    yield _tables(["k", *map(str, found.answers)], rows, 1)
    yield ""


def _methods(plan: LoadPlan) -> Iterator[str]:
    """What else was simulated at length, load by load."""
    headings = [
        "load",
        "method",
        "GPUs",
        "gain",
        "95 % interval",
        "draft waste",
        "target waste",
        "of priors",
    ]
    rows = []
    for load, found in plan.loads:
        for row in found:
            if row.option.configuration != PLAIN:
                cells = [named(plan.deployment, row.option), row.option.arrangement.text, f"{row.gain.value:.2f}"]
                cells += [f"{row.gain.low:.2f} – {row.gain.high:.2f}"]
                cells += [f"{row.in_vain[role]:.2f}" for role in ("draft", "target")]
                rows.append([load.text, *cells, f"{100.0 * row.prior_share:.0f} %"])
    if rows:
        yield "What comes next; of priors: share of the interval (squared) nobody has measured:"
        yield ""
        yield _tables(headings, rows, 2)
        yield ""


def _notes(plan: LoadPlan) -> Iterator[str]:
    yield (
        "gain: tokens per second of all GPUs / those of plain decoding in its best arrangement on as many GPUs; TTFT, "
        "TPOT, answer: median / 90th percentile, simulated; waste: tokens in vain per token that stands"
    )
    if any(load.concurrency is None for load, _ in plan.loads):
        yield "of arrivals, tokens/s are those that arrive, and the gain is one of the mean seconds of an answer"
    widest: dict[str, float] = {}
    for _, rows in plan.loads:
        for name, part in rows[0].errors.items():
            widest[name] = max(widest.get(name, 0.0), part)
    for name, part in sorted(widest.items(), key=lambda item: -item[1]):
        if name in MEASURE:
            moves = f"moves the gain by ±{100 * part:.0f} %"
            yield f"{name} is a prior of published pairs and {moves}; to narrow it: {MEASURE[name]}"
    if "cost of passes" in widest:
        how = (
            "as measured on public rows of this GPU"
            if plan.deployment.gpu.fitted
            else "on a GPU known by its data sheet"
        )
        yield f"the cost of passes moves the gain by ±{100 * widest['cost of passes']:.0f} %, {how}"
    _, whose = passes_of(plan.deployment, plan.deployment.target, 1)
    if whose is not None:
        yield whose
    yield from (f"assumed: {one.text}" for one in assumed_by_plan(plan))
    yield from (sentence for sentence in (one_k(plan), policies(plan), *by_prompts(plan)) if sentence)
    yield from (f"not considered: {one}" for one in not_considered(plan))
    made = plan.deployment
    for model in (made.target, made.draft, made.judge, made.head, made.block):
        for note in model.facts.notes if model is not None else ():
            yield f"{model.name}: {note}" if model is not None else note


def _at(load: Load) -> str:
    return load.text if load.concurrency is None else f"{load.text} at once"


def _settings(loads: Sequence[str], settings: Settings) -> Iterator[str]:
    yield f"To run it ({', '.join(loads)}):"
    yield ""
    yield from (broken(command) for command in settings.commands)
    if settings.adaptive is not None:
        yield from _file("adaptive.json", settings.adaptive)
    if settings.client is not None:
        yield from _file("step-level client", settings.client)
    yield from _wrapped(f"- {note}" for note in settings.notes)


def _file(name: str, data: Mapping[str, Any]) -> Iterator[str]:
    """What a file holds, in lines of a screen."""
    first, *rest = json_lines(json.dumps(data, sort_keys=True), SCREEN - len(name) - 6)
    yield f"  {name}: {first}"
    yield from (f"      {line}" for line in rest)
