"""A plan under load, as a reader sees it: the table by load, the curve, how sure, the settings."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from calibrate.replay.trials import PLAIN
from specplan.output import SCREEN, by_need, table
from specplan.planning.loads.assumed import assumed, assumed_by_plan
from specplan.planning.loads.options import pays
from specplan.planning.loads.statements import Pays, fixed_k, gains_by_load
from specplan.worlds.beliefs import MEASURE
from specplan.worlds.drafters.naming import drafter_name
from specplan.worlds.world import passes_of

if TYPE_CHECKING:
    from sim.configuration import Configuration
    from specplan.planning.loads.load_plan import LoadPlan, LoadRow
    from specplan.planning.loads.options import Option
    from specplan.worlds.request import Deployment, Load
    from specplan.worlds.running.settings import Settings

__all__ = [
    "at_load",
    "dollars_each",
    "median_and_90th",
    "method_name",
    "named",
    "not_considered",
    "one_k",
    "plan_as_json",
    "plan_as_text",
    "switch_off",
    "title",
    "verdict",
]

_MILLION: Final = 1e6
_HOUR: Final = 3600.0


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
        lines += ["", "Gain over plain decoding on the same GPUs, by answers at once (in brackets k1, k):", ""]
        lines += [_curve(plan), "", switch_off(plan)]
    lines += [""]
    lines += _methods(plan)
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


def title(deployment: Deployment) -> str:
    """Return what is planned: models, GPUs, engine and sizes."""
    formats = deployment.target.precision
    stored = formats.weights if formats.experts in (None, formats.weights) else f"{formats.weights}, {formats.experts}"
    models = [f"{deployment.target.name} ({stored})"]
    for words, model in (
        ("draft", deployment.draft),
        (drafter_name(deployment, "eagle"), deployment.head),
        ("judge", deployment.judge),
    ):
        if model is not None:
            models.append(f"{words} {'in the checkpoint' if model.facts.architecture == 'mtp' else model.name}")
    n = f"{deployment.gpus} x " if deployment.gpus > 1 else ""
    return (
        f"Plan for {', '.join(models)} on {n}{deployment.gpu.name}, {_engine(deployment)}: prompts of "
        f"{deployment.prompt_tokens} tokens, answers of {deployment.answer_tokens}"
    )


def _engine(deployment: Deployment) -> str:
    """The engine with the version that was said, and with the one whose costs are taken for it."""
    engine, said = deployment.engine, deployment.engine_version
    priced = "" if said == engine.version else f" (costs of {engine.version})"
    return f"{engine.name} {said}{priced}"


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
    return f"{table(best, upper)}\n\n{table(seen, lower)}"


def _gain_cells(row: LoadRow) -> list[str]:
    plain = row.option.configuration == PLAIN
    spread = "–" if plain else f"{row.gain.low:.2f} – {row.gain.high:.2f}"
    limit = row.limit if row.meets else f"{row.limit}; misses the bounds"
    return [row.option.arrangement.text, f"{row.gain.value:.2f}", spread, limit]


def _times(row: LoadRow) -> list[str]:
    times = [median_and_90th(row, name, unit) for name, unit in (("ttft_s", 1.0), ("tpot_s", 1e3), ("seconds", 1.0))]
    return [f"{row.tokens_per_s:.0f}", *times]


def median_and_90th(row: LoadRow, name: str, unit: float) -> str:
    """Return the median and the 90th percentile, in a unit."""
    known = row.served.percentiles(name)
    median, most = ("–" if math.isnan(known[p]) else f"{unit * known[p]:.3g}" for p in (50, 90))
    return "–" if median == most == "–" else f"{median} / {most}"


def method_name(deployment: Deployment, configuration: Configuration) -> str:
    """Return a method as engines call it (mtp, eagle3, ngram, draft_model); others by their title."""
    token = configuration.token
    if configuration.spec.level == "token" and token is not None:
        return drafter_name(deployment, token)
    below = f" + {drafter_name(deployment, token)}" if token is not None else ""
    return configuration.spec.title + below


def named(deployment: Deployment, option: Option) -> str:
    """Return the name of a configuration for a reader, with its depths."""
    configuration = option.configuration
    depths = [f"k1 = {configuration.k1}"] if configuration.k1 > 1 else []
    depths += [f"k = {configuration.k2 - 1}"] if configuration.k2 > 1 else []
    return ", ".join([method_name(deployment, configuration), *depths])


def dollars_each(deployment: Deployment, row: LoadRow) -> tuple[str, str]:
    """Return dollars per million tokens and per answer, for all GPUs of the plan."""
    per_second = (deployment.gpu_price or 0.0) * deployment.gpus / _HOUR
    return f"{per_second / row.tokens_per_s * _MILLION:.3g}", f"{per_second / row.answers_per_s:.2g}"


def at_load(load: Load) -> str:
    """Return a load as a sentence names it."""
    return f"{load.text} answer{'s' if load.concurrency > 1 else ''} at once" if load.concurrency else load.text


def verdict(deployment: Deployment, load: Load, rows: Sequence[LoadRow]) -> str:
    """Return what to do at a load, what it brings and how sure that is."""
    at = f"At {at_load(load)}"
    best = rows[0]
    if len(rows) == 1 and best.option.configuration == PLAIN:
        return f"{at}: nothing was compared with plain decoding."
    if math.isinf(best.gain.value):
        return (
            f"{at}: {named(deployment, best.option)} on {best.option.arrangement.text}; plain decoding cannot keep up."
        )
    if best.option.configuration == PLAIN:
        return f"{at}: leave speculation off; nothing is expected to be faster than plain decoding."
    text = f"{at}: {named(deployment, best.option)} on {best.option.arrangement.text}"
    text += f", {best.gain.value:.2f} times plain decoding, between {best.gain.low:.2f} and {best.gain.high:.2f}"
    text += " with 95 % confidence"
    if not pays(best.gain.value):
        text += "; no faster than plain decoding, which misses the bounds"
    elif best.gain.low < 1.0:
        text += "; it may lose"
    if not best.meets:
        text += "; nothing meets the bounds"
    return text + "."


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
    return table(["method", *(str(n) for n in curve.answers)], rows)


def _depths(option: Option) -> str:
    configuration = option.configuration
    depths = [configuration.k1] if configuration.k1 > 1 else []
    return ", ".join(str(depth) for depth in [*depths, *([configuration.k2 - 1] if configuration.k2 > 1 else [])])


def switch_off(plan: LoadPlan) -> str:
    """Return at which loads speculation pays."""
    return Pays.of(gains_by_load(plan)).sentence()


def one_k(plan: LoadPlan) -> str:
    """Return what one k for all loads would lose; empty where all have the same one, or none."""
    drafting = {rows[0].option.configuration.k2 for _, rows in plan.loads if rows[0].option.configuration.k2 > 1}
    fixed = fixed_k(plan)
    if fixed is None or len(drafting) < 2:
        return ""
    loses = f"{100.0 * fixed.loss:.0f} % of what k by load gives"
    return f"Simpler: one k = {fixed.k} for all these loads loses at most {loses}."


def not_considered(plan: LoadPlan) -> Iterator[str]:
    """Yield what was not considered, with the reason, methods with one reason together."""
    for what, names in by_need(plan.unknown).items():
        yield f"{', '.join(names)}: needs {what}"
    alike: dict[str, list[str]] = {}
    for name, why in plan.deployment.passed_over.items():
        alike.setdefault(why, []).append(name)
    yield from (f"{', '.join(names)}: {why}" for why, names in alike.items())


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
    yield from (f"assumed: {one.text}" for one in assumed_by_plan(plan))
    simpler = one_k(plan)
    if simpler:
        yield simpler
    yield from (f"not considered: {one}" for one in not_considered(plan))
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
    yield from _wrapped(f"- {note}" for note in settings.notes)


def plan_as_json(plan: LoadPlan, settings: Sequence[Settings]) -> dict[str, Any]:
    """The plan as plain data."""
    deployment = plan.deployment
    return {
        "schema": "specplan.load-plan",
        "schema_version": 1,
        "target": deployment.target.name,
        "draft": None if deployment.draft is None else deployment.draft.name,
        "judge": None if deployment.judge is None else deployment.judge.name,
        "head": None if deployment.head is None else deployment.head.name,
        "gpu": deployment.gpu.name,
        "gpus": deployment.gpus,
        "engine": _engine(deployment),
        "operators": passes_of(deployment, deployment.target, 1)[1],
        "prompt_tokens": deployment.prompt_tokens,
        "answer_tokens": deployment.answer_tokens,
        "loads": [
            {"load": load.text, "rows": [_row_as_json(deployment, row) for row in rows], "settings": one.plain()}
            for (load, rows), one in zip(plan.loads, settings, strict=True)
        ],
        "curve": {"answers": list(plan.curve.answers), "gains": {k: list(v) for k, v in plan.curve.gains.items()}},
        "switch_off_from": Pays.of(gains_by_load(plan)).off_from,
        "speculation_pays": [list(ends) for ends in Pays.of(gains_by_load(plan)).ranges()],
        "one_k": _one_k_as_json(plan),
        "not_planned": list(plan.beyond),
        "unknown": {name: list(lacking) for name, lacking in plan.unknown.items()},
        "not_considered": dict(deployment.passed_over),
    }


def _one_k_as_json(plan: LoadPlan) -> dict[str, Any] | None:
    fixed = fixed_k(plan)
    return None if fixed is None else {"k": fixed.k, "loss": fixed.loss}


def _row_as_json(deployment: Deployment, row: LoadRow) -> dict[str, Any]:
    served, price = row.served, deployment.gpu_price
    dollars = None if price is None else price * deployment.gpus / _HOUR
    return {
        "configuration": row.option.configuration.name,
        "method": method_name(deployment, row.option.configuration),
        "k": row.option.configuration.k2 - 1,
        "assumed": [one.plain() for one in assumed(deployment, row.option.configuration)],
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
        "dollars_per_million_tokens": None if dollars is None else 1e6 * dollars / row.tokens_per_s,
        "dollars_per_answer": None if dollars is None else dollars / row.answers_per_s,
        **{name: served.percentiles(name) for name in ("ttft_s", "tpot_s", "seconds")},
        "mean": {name: served.mean(name) for name in ("seconds", "tokens")},
        "in_flight_per_copy": served.in_flight,
        "busy": served.busy,
        "preempted": served.preempted,
        "cache_share": served.cache_share,
        "in_vain": dict(row.in_vain),
        "limit": row.limit,
        "meets": row.meets,
        "goodput": row.goodput,
    }
