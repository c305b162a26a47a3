"""A plan under load, as a reader sees it: the table by load, the curve, how sure, the settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from calibrate.replay.trials import PLAIN
from specplan.output import by_need, table
from specplan.planning.planner import label
from specplan.worlds.beliefs import MEASURE
from specplan.worlds.world import passes_of

if TYPE_CHECKING:
    from specplan.planning.loads.load_plan import Curve, LoadPlan, LoadRow
    from specplan.planning.loads.options import Option
    from specplan.worlds.request import Deployment, Load
    from specplan.worlds.settings import Settings

__all__ = ["at_load", "median_and_90th", "named", "plan_as_json", "plan_as_text", "switch_off", "title", "verdict"]

_MILLION: Final = 1e6
_HOUR: Final = 3600.0


def plan_as_text(plan: LoadPlan, settings: Sequence[Settings]) -> str:
    """The plan for a reader.

    Parameters
    ----------
    plan : what was found.
    settings : of the best option at each load, in their order.
    """
    lines = [title(plan.deployment), "", _by_load(plan), ""]
    lines += [verdict(load, rows) for load, rows in plan.loads]
    lines += [f"Not planned: {why}." for why in plan.beyond]
    if plan.curve.gains:
        lines += ["", "Gain over plain decoding on the same GPUs, by answers at once (in brackets k1, k2):", ""]
        lines += [_curve(plan.curve), "", switch_off(plan.curve)]
    lines += [""]
    lines += _methods(plan)
    lines += [f"- {note}" for note in _notes(plan)]
    together: dict[Settings, list[str]] = {}
    for (load, _), one in zip(plan.loads, settings, strict=True):
        together.setdefault(one, []).append(_at(load))
    for one, loads in together.items():
        lines += ["", *_settings(loads, one)]
    return "\n".join(lines)


def title(deployment: Deployment) -> str:
    """Return what is planned: models, GPUs, engine and sizes."""
    formats = deployment.target.precision
    stored = formats.weights if formats.experts in (None, formats.weights) else f"{formats.weights}, {formats.experts}"
    models = [f"{deployment.target.name} ({stored})"]
    for words, model in (("drafted by", deployment.draft), ("judged by", deployment.judge)):
        if model is not None:
            models.append(f"{words} {model.name}")
    n = f"{deployment.gpus} x " if deployment.gpus > 1 else ""
    return (
        f"Plan for {', '.join(models)} on {n}{deployment.gpu.name}, {deployment.engine.name} "
        f"{deployment.engine.version}: prompts of {deployment.prompt_tokens} tokens, answers of "
        f"{deployment.answer_tokens}"
    )


def _by_load(plan: LoadPlan) -> str:
    headings = ["load", "best", "GPUs", "gain", "95 % interval", "tokens/s", "TTFT s", "TPOT ms", "answer s"]
    headings += ["runs out first"]
    priced = plan.deployment.gpu_price is not None
    headings += ["$/M tokens"] if priced else []
    headings += ["goodput/s"] if plan.limits.binding else []

    def more(row: LoadRow) -> list[str]:
        dollars = [_dollars(plan.deployment, row)] if priced else []
        return dollars + ([f"{row.goodput:.3g}"] if plan.limits.binding else [])

    rows = []
    for load, found in plan.loads:
        best = found[0]
        rows.append([load.text, *_cells(best), *more(best)])
        if best.option.configuration != PLAIN:
            plain = next((row for row in found if row.option.configuration == PLAIN), None)
            if plain is not None:
                rows.append(["", *_cells(plain), *more(plain)])
    return table(headings, rows)


def _cells(row: LoadRow) -> list[str]:
    plain = row.option.configuration == PLAIN
    spread = "–" if plain else f"{row.gain.low:.2f} – {row.gain.high:.2f}"
    return [
        named(row.option),
        row.option.arrangement.text,
        f"{row.gain.value:.2f}",
        spread,
        f"{row.tokens_per_s:.0f}",
        median_and_90th(row, "ttft_s", 1.0),
        median_and_90th(row, "tpot_s", 1e3),
        median_and_90th(row, "seconds", 1.0),
        row.limit if row.meets else f"{row.limit}; misses the bounds",
    ]


def median_and_90th(row: LoadRow, name: str, unit: float) -> str:
    """Return the median and the 90th percentile, in a unit."""
    found = row.served.percentiles(name)
    return "–" if math.isnan(found[50]) else f"{unit * found[50]:.3g} / {unit * found[90]:.3g}"


def named(option: Option) -> str:
    """Return the name of a configuration for a reader, with its depths."""
    configuration = option.configuration
    depths = [f"{name} = {value}" for name, value in (("k1", configuration.k1), ("k2", configuration.k2)) if value > 1]
    return ", ".join([label(configuration), *depths])


def _dollars(deployment: Deployment, row: LoadRow) -> str:
    assert deployment.gpu_price is not None
    return f"{deployment.gpu_price * deployment.gpus / _HOUR / row.tokens_per_s * _MILLION:.3g}"


def at_load(load: Load) -> str:
    """Return a load as a sentence names it."""
    return f"{load.text} answer{'s' if load.concurrency > 1 else ''} at once" if load.concurrency else load.text


def verdict(load: Load, rows: Sequence[LoadRow]) -> str:
    """Return what to do at a load, what it brings and how sure that is."""
    at = f"At {at_load(load)}"
    best = rows[0]
    if len(rows) == 1 and best.option.configuration == PLAIN:
        return f"{at}: nothing was compared with plain decoding."
    if math.isinf(best.gain.value):
        return f"{at}: {named(best.option)} on {best.option.arrangement.text}; plain decoding cannot keep up."
    if best.option.configuration == PLAIN:
        return f"{at}: switch speculation off; nothing is expected to be faster than plain decoding."
    text = f"{at}: {named(best.option)} on {best.option.arrangement.text}, {best.gain.value:.2f} times plain decoding"
    text += f", between {best.gain.low:.2f} and {best.gain.high:.2f} with 95 % confidence"
    if best.gain.low < 1.0:
        text += "; it may lose"
    if not best.meets:
        text += "; nothing meets the bounds"
    return text + "."


def _curve(curve: Curve) -> str:
    rows = []
    for kind, gains in curve.gains.items():
        first = next(option for option in curve.options[kind] if option is not None)
        cells = [
            "–" if gain is None or option is None else f"{gain:.2f} ({_depths(option)})"
            for gain, option in zip(gains, curve.options[kind], strict=True)
        ]
        rows.append([label(first.configuration), *cells])
    return table(["method", *(str(n) for n in curve.answers)], rows)


def _depths(option: Option) -> str:
    configuration = option.configuration
    return ", ".join(str(depth) for depth in (configuration.k1, configuration.k2) if depth > 1)


def switch_off(curve: Curve) -> str:
    """Return from how many answers at once on speculation no longer pays."""
    off = curve.off_from()
    if off is None:
        return f"Something is faster than plain decoding up to {curve.answers[-1]} answers at once."
    if off == curve.answers[0]:
        return "Plain decoding is fastest at every number of answers at once: leave speculation off."
    return f"Switch speculation off from {off} answers at once."


def _methods(plan: LoadPlan) -> Iterator[str]:
    """What else was simulated at length, load by load."""
    headings = [
        "answers at once",
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
                cells = [named(row.option), row.option.arrangement.text, f"{row.gain.value:.2f}"]
                cells += [f"{row.gain.low:.2f} – {row.gain.high:.2f}"]
                cells += [f"{row.in_vain[role]:.2f}" for role in ("draft", "target")]
                rows.append([load.text, *cells, f"{100.0 * row.prior_share:.0f} %"])
    if rows:
        yield "What comes next, and how much of the interval (its square) is what nobody has measured:"
        yield ""
        yield table(headings, rows)
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
    for what, names in by_need(plan.unknown).items():
        yield f"not evaluated: {', '.join(names)}: needs {what}"
    for model in (plan.deployment.target, plan.deployment.draft, plan.deployment.judge, plan.deployment.head):
        for note in model.facts.notes if model is not None else ():
            yield f"{model.name}: {note}" if model is not None else note


def _at(load: Load) -> str:
    return load.text if load.concurrency is None else f"{load.text} at once"


def _settings(loads: Sequence[str], settings: Settings) -> Iterator[str]:
    yield f"To run it ({', '.join(loads)}):"
    yield ""
    yield from (f"  {command}" for command in settings.commands)
    if settings.adaptive is not None:
        import json

        yield f"  adaptive.json: {json.dumps(settings.adaptive)}"
    if settings.client is not None:
        import json

        yield f"  step-level client: {json.dumps(settings.client, sort_keys=True)}"
    yield from (f"- {note}" for note in settings.notes)


def plan_as_json(plan: LoadPlan, settings: Sequence[Settings]) -> dict[str, Any]:
    """The plan as plain data."""
    deployment = plan.deployment
    return {
        "schema": "specplan.load-plan",
        "schema_version": 1,
        "target": deployment.target.name,
        "draft": None if deployment.draft is None else deployment.draft.name,
        "judge": None if deployment.judge is None else deployment.judge.name,
        "gpu": deployment.gpu.name,
        "gpus": deployment.gpus,
        "engine": f"{deployment.engine.name} {deployment.engine.version}",
        "operators": passes_of(deployment, deployment.target, 1)[1],
        "prompt_tokens": deployment.prompt_tokens,
        "answer_tokens": deployment.answer_tokens,
        "loads": [
            {"load": load.text, "rows": [_row_as_json(deployment, row) for row in rows], "settings": one.plain()}
            for (load, rows), one in zip(plan.loads, settings, strict=True)
        ],
        "curve": {"answers": list(plan.curve.answers), "gains": {k: list(v) for k, v in plan.curve.gains.items()}},
        "switch_off_from": plan.curve.off_from(),
        "not_planned": list(plan.beyond),
        "unknown": {name: list(lacking) for name, lacking in plan.unknown.items()},
    }


def _row_as_json(deployment: Deployment, row: LoadRow) -> dict[str, Any]:
    served, price = row.served, deployment.gpu_price
    return {
        "configuration": row.option.configuration.name,
        "arrangement": {
            "tp": row.option.arrangement.tp,
            "replicas": row.option.arrangement.replicas,
            "draft_gpus": row.option.arrangement.own_gpus,
            "drafting": row.option.arrangement.drafting,
        },
        "gain": {"value": row.gain.value, "low": row.gain.low, "high": row.gain.high, "estimator": row.gain.estimator},
        "errors": dict(row.errors),
        "prior_share": row.prior_share,
        "tokens_per_s": row.tokens_per_s,
        "answers_per_s": row.answers_per_s,
        "gpu_s_per_answer": deployment.gpus / row.answers_per_s,
        "dollars_per_million_tokens": None if price is None else float(_dollars(deployment, row)),
        **{name: served.percentiles(name) for name in ("ttft_s", "tpot_s", "seconds")},
        "in_flight_per_copy": served.in_flight,
        "busy": served.busy,
        "preempted": served.preempted,
        "cache_share": served.cache_share,
        "in_vain": dict(row.in_vain),
        "limit": row.limit,
        "meets": row.meets,
        "goodput": row.goodput,
    }
