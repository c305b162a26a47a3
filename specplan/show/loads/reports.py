"""Plans under load for a reader: reports by load, and what a token costs on several types of GPUs, also as a screen."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from specplan.output import SCREEN, percent, screen, table
from specplan.planning.loads.from_options import settings_for
from specplan.planning.loads.load_plan import NamesPlan
from specplan.planning.loads.statements import k_table
from specplan.show.drawing import Line, lines
from specplan.show.loads import words
from specplan.show.page import (
    Answer,
    Bullets,
    Code,
    Interval,
    Part,
    Picture,
    Report,
    Section,
    Table,
    Text,
    brief,
    filled,
    interval,
)
from specplan.worlds.beliefs import MEASURE
from specplan.worlds.sizes import LONGEST

if TYPE_CHECKING:
    from specplan.planning.loads.gpu_types import GpuPlans, Priced
    from specplan.planning.loads.load_plan import LoadPlan, LoadRow
    from specplan.worlds.request import Load
    from specplan.worlds.running.settings import Settings

__all__ = ["break_evens", "cheapest", "gpus_first_screen", "gpus_report", "load_parts", "load_plan_report"]

_NONE: Final = "–"


def load_plan_report(plan: NamesPlan) -> Report:
    """Return the report of a plan from names."""
    deployment = plan.deployment
    answers = [
        Answer(f"What to do at {words.at_load(load)}?", words.verdict(plan, load, rows).partition(": ")[2])
        for load, rows in plan.loads
    ]
    return Report(
        title=f"Plan for {deployment.target.name}",
        about=words.title(deployment),
        lead=words.verdict(plan, *plan.loads[0]),
        answers=[*answers, *_answers(plan)],
        sections=[Section("By load", [*load_parts(plan), *_every_k(plan)]), Section("To run it", list(_running(plan)))],
        notes=list(_notes(plan)),
    )


def gpus_report(plans: GpuPlans) -> Report:
    """Return the report of plans on several types of GPUs: costs by load, then each plan's tables and commands."""
    deployment = plans.loads[0][0].plan.deployment
    answers = [
        Answer(f"What is cheapest at {words.at_load(rows[0].load)}?", cheapest(plans, rows)) for rows in plans.loads
    ]
    sections = [Section("Costs by load", [*_costs(plans), *(_priced(plans, rows) for rows in plans.loads)])]
    for one in plans.plans:
        on = one.deployment
        price = f", {on.gpu_price:g} $/h each" if plans.priced else ""
        parts = [*load_parts(one), *_every_k(one), *_running(one)]
        sections.append(Section(f"On {on.gpus} x {on.gpu.name}{price}", parts))
    notes = dict.fromkeys(note for one in plans.plans for note in _notes(one))
    return Report(
        title=f"Plans for {deployment.target.name} by type of GPU",
        about=f"prompts of {deployment.prompt_tokens} tokens, answers of {deployment.answer_tokens}",
        lead=cheapest(plans, plans.loads[0]),
        answers=[*answers, Answer("Where does the cheapest type change?", break_evens(plans))],
        sections=sections,
        notes=[*(f"not planned for {name}: {why}" for name, why in plans.refused.items()), *notes],
    )


def _costs(plans: GpuPlans) -> Iterator[Part]:
    """Costs by load, a line for each type."""
    points: dict[str, list[tuple[float, float]]] = {}
    for one in (one for rows in plans.loads for one in rows if one.size):
        points.setdefault(one.gpu, []).append((float(one.size or 0.0), one.per_million))
    if len(plans.loads) > 1:
        x_name = "answers at once" if plans.loads[0][0].load.concurrency else "answers per second"
        drawn = [Line(name, each) for name, each in points.items()]
        draw = partial(lines, drawn, x_name=x_name, y_name=f"{_unit(plans)} per million tokens", log=True)
        yield Picture(draw, f"{_unit(plans)} per million tokens by load, of the best option on each type.")


def _priced(plans: GpuPlans, rows: Sequence[Priced]) -> Table:
    return filled(
        (words.at_load(rows[0].load), [f"{one.gpus} x {one.gpu}" for one in rows]),
        ("best", [words.named(one.plan, one.row.option) for one in rows]),
        (f"{_unit(plans)}/M tokens, 95 % interval", [Interval(one.per_million, one.low, one.high) for one in rows]),
        (f"{_unit(plans)}/answer", [brief(one.dollars.per_answer, 2) for one in rows]),
        ("bounds", ["met" if one.row.meets else "missed" for one in rows]),
        strong=0,
    )


def _answers(plan: NamesPlan) -> Iterator[Answer]:
    load, (best, *_) = plan.loads[0]
    gpus = plan.deployment.gpus
    yield Answer(
        "Per GPU?",
        f"{best.tokens_per_s / gpus:.0f} tokens/s for each GPU",
        f"{brief(gpus / best.answers_per_s)} GPU seconds for an answer, at {words.at_load(load)}",
    )
    for largest, moves in [*words.widest(plan).items()][:1]:
        yield Answer("What to measure next?", largest, f"it leaves the gain open by {moves}, the largest part")


def load_parts(plan: LoadPlan) -> Iterator[Part]:
    """Yield what a plan says of its loads: the curve, gains and times at each load, and where speculation pays."""
    drawn = _curves(plan)
    if drawn and len(plan.curve.answers) > 1:
        yield Picture(
            partial(lines, drawn, x_name="answers at once", y_name="gain", log=True, reference=1.0),
            f"Gain over plain decoding on {plan.simulator.place}, with 95 % intervals where it was simulated "
            "at length; the dashed line is plain decoding.",
        )
    for load, rows in plan.loads:
        yield _gains(plan, load, rows)
        times = _times(plan, load, rows)
        yield from [times] if len(times.headings) > 1 else []
    if plan.curve.gains:
        yield _curve(plan)
        yield Text(words.switch_off(plan))
    notes = [*words.beyond_timings(plan), *(f"Not planned: {why}." for why in plan.beyond)]
    if notes:
        yield Bullets(notes)


def _curves(plan: LoadPlan) -> list[Line]:
    """The gain of each kind of options by answers at once, with the intervals of the rows of loads."""
    drawn = []
    for kind, gains in plan.curve.gains.items():
        known: dict[int, tuple[float, Interval | None]] = {
            n: (gain, None) for n, gain in zip(plan.curve.answers, gains, strict=True) if gain is not None
        }
        every = ((load.concurrency, row) for load, rows in plan.loads for row in rows)
        known |= {n: (row.gain.value, interval(row.gain)) for n, row in every if n and row.option.kind == kind}
        option = next(option for option in plan.curve.options[kind] if option is not None)
        points = [(float(n), gain) for n, (gain, _) in sorted(known.items())]
        ends = [ends for _, (_, ends) in sorted(known.items())]
        drawn.append(Line(plan.simulator.name_of(option.configuration), points, ends))
    return drawn


def _gains(plan: LoadPlan, load: Load, rows: Sequence[LoadRow]) -> Table:
    per, n = ("GPU s", plan.deployment.gpus) if isinstance(plan, NamesPlan) else ("s", load.concurrency)
    dollars = [words.dollars_each(plan, row) for row in rows]
    return filled(
        (words.at_load(load), [words.named(plan, row.option) for row in rows]),
        ("GPUs" if isinstance(plan, NamesPlan) else "engines", [row.option.arrangement.text for row in rows]),
        ("gain, 95 % interval", [words.gain_of(row) for row in rows]),
        ("tokens/s", [f"{row.tokens_per_s:.0f}" for row in rows]),
        (f"{per} per answer", [brief(n / row.answers_per_s) if n else _NONE for row in rows]),
        ("runs out first", [row.limit or _NONE for row in rows]),
        ("bounds", [_NONE if not plan.limits.binding else "met" if row.meets else "missed" for row in rows]),
        ("$/M tokens", [per_million for per_million, _ in dollars]),
        ("$/answer", [per_answer for _, per_answer in dollars]),
        reference=1.0,
        strong=0,
    )


def _times(plan: LoadPlan, load: Load, rows: Sequence[LoadRow]) -> Table:
    """What users see, as median / 90th percentile, what is wasted, and how much of the interval is assumed."""
    waste = [[f"{r.in_vain[role]:.2f}" if role in r.in_vain else _NONE for r in rows] for role in ("draft", "target")]
    assumed = isinstance(plan, NamesPlan)
    title = "Times, waste" + (", and the share of the interval (squared) that nobody has measured" if assumed else "")
    return filled(
        (words.at_load(load), [words.named(plan, row.option) for row in rows]),
        ("TTFT s", [words.median_and_90th(row, "ttft_s", 1.0) for row in rows]),
        ("TPOT ms", [words.median_and_90th(row, "tpot_s", 1e3) for row in rows]),
        ("answer s", [words.median_and_90th(row, "seconds", 1.0) for row in rows]),
        ("goodput/s", [brief(row.goodput) if plan.limits.binding else _NONE for row in rows]),
        ("draft waste", waste[0]),
        ("target waste", waste[1]),
        ("of priors", [percent(row.prior_share, 0) if assumed and row.errors else _NONE for row in rows]),
        folded=title,
    )


def _curve(plan: LoadPlan) -> Table:
    """Gains by answers at once, each with its depths."""
    curve, rows = plan.curve, []
    for kind, gains in curve.gains.items():
        first = next(option for option in curve.options[kind] if option is not None)
        cells = []
        for gain, option in zip(gains, curve.options[kind], strict=True):
            known = "" if option is None else ", ".join(map(str, words.depths(plan, option.configuration).values()))
            cells.append(_NONE if gain is None else f"{gain:.2f} ({known})" if known else f"{gain:.2f}")
        rows.append([plan.simulator.name_of(first.configuration), *cells])
    headings = ["gain by answers at once", *map(str, curve.answers)]
    every = (one for options in curve.options.values() for one in options if one is not None)
    names = dict.fromkeys(chain.from_iterable(words.depths(plan, one.configuration) for one in every))
    return Table(headings=headings, rows=rows, folded=f"Gains by answers at once ({', '.join(names)})")


def _every_k(plan: NamesPlan) -> Iterator[Part]:
    """What each k loses, by answers at once."""
    losses_by_k = k_table(plan)
    if losses_by_k is None:
        return
    option = losses_by_k.option
    where = f"{plan.simulator.name_of(option.configuration)} on {option.arrangement.text}"
    by_k = zip(losses_by_k.ks, losses_by_k.losses, strict=True)
    rows = [[str(k), *(f"{100.0 * lost:.0f}" for lost in losses)] for k, losses in by_k]
    says = f"Tokens per second that each k loses against the best k, in %, {where}, by answers at once"
    yield Table(headings=["k", *map(str, losses_by_k.answers)], rows=rows, folded=says)


def _notes(plan: NamesPlan) -> Iterator[str]:
    yield (
        "gain: tokens per second of all GPUs / those of plain decoding in its best arrangement on as many GPUs; TTFT, "
        "TPOT, answer: median / 90th percentile, simulated; waste: tokens in vain per token that stands"
    )
    if plan.deployment.answer_spread:
        longest = f"of up to {LONGEST} times the mean tokens (--answer-spread)"
        yield f"commands allow for the longest planned answers, {longest}"
    if any(load.concurrency is None for load, _ in plan.loads):
        yield "of arrivals, tokens/s are those that arrive, and the gain is one of the mean seconds of an answer"
    widest = words.widest(plan)
    for name, moves in widest.items():
        if name in MEASURE:
            yield f"{name}: a prior of published pairs, which moves the gain by {moves}; to narrow it: {MEASURE[name]}"
    if "cost of passes" in widest:
        if any("no measured row" in one for one in words.costs_from(plan)):
            how = "of which no measured row tells"
        elif plan.deployment.gpu.fitted:
            how = "as measured on public rows of this GPU"
        else:
            how = "on a GPU known by its data sheet"
        yield f"the cost of passes moves the gain by {widest['cost of passes']}, {how}"
    yield from words.costs_from(plan)
    yield from (f"assumed: {one.text}" for one in words.assumed_by_plan(plan))
    yield from filter(None, [words.one_k(plan), words.policies(plan), *words.by_prompts(plan)])
    yield from (f"not considered: {one}" for one in words.not_considered(plan))
    made = plan.deployment
    for model in filter(None, (made.target, made.draft, made.judge, made.head, made.block)):
        yield from (f"{model.name}: {note}" for note in model.facts.notes)


def _running(plan: NamesPlan) -> Iterator[Part]:
    """Commands of each load, each set of them once."""
    together: dict[Settings, list[str]] = {}
    for load, rows in plan.loads:
        together.setdefault(settings_for(plan, rows[0].option), []).append(words.at_load(load))
    for settings, loads in together.items():
        yield Text(f"At {', '.join(loads)}:")
        yield Code("\n".join(settings.commands), shell=True)
        files = {"adaptive.json": settings.adaptive, "trtllm.json": settings.trtllm}
        for name, data in (files | {"Settings of the step-level client": settings.client}).items():
            if data is not None:
                yield Text(f"{name}:")
                yield Code(json.dumps(data, sort_keys=True))
        if settings.notes:
            yield Bullets(settings.notes)


def gpus_first_screen(plans: GpuPlans) -> str:
    """Return what fits a terminal of 80 columns: the cheapest type at each load, the break-even, the table."""
    deployment = plans.loads[0][0].plan.deployment
    sentences = [*(cheapest(plans, rows) for rows in plans.loads), break_evens(plans)]
    title = (
        f"Plans for {deployment.target.name} by type of GPU, {words.engine_name(deployment)}: "
        f"prompts of {deployment.prompt_tokens} tokens, answers of {deployment.answer_tokens}:"
    )
    return screen(sentences, [title], _gpus_table(plans), list(_below_gpus(plans)))


def _unit(plans: GpuPlans) -> str:
    """The unit of costs: dollars, or GPU hours where no prices were given."""
    return "$" if plans.priced else "GPU h"


def _short(gpu: str) -> str:
    return gpu.removeprefix("NVIDIA ")


def cheapest(plans: GpuPlans, rows: Sequence[Priced]) -> str:
    """Return which type is the cheapest at a load, what it costs, how sure that is, and what the next one costs."""
    best, *others = rows
    at = f"At {words.at_load(best.load)}"
    if not best.row.meets:
        return f"{at}: no type of GPU meets the bounds."
    on = f"{best.gpus} x {_short(best.gpu)} with {words.named(best.plan, best.row.option)}"
    cost = f"${brief(best.per_million)}" if plans.priced else f"{brief(best.per_million)} GPU h"
    text = f"{at}: cheapest is {on}, {cost} per million tokens"
    text += f", between {brief(best.low)} and {brief(best.high)} with 95 % confidence" if best.low < best.high else ""
    second = next((one for one in others if one.row.meets), None)
    if second is None:
        return f"{text}; {'no other type meets the bounds' if others else 'no other type was planned'}."
    times = second.per_million / best.per_million
    is_unsure = math.log(times) < math.hypot(best.costs, second.costs)
    sure = ", less than the uncertainty of passes" if is_unsure else ""
    return f"{text}; {_short(second.gpu)} costs {times:.2f} times as much{sure}."


def break_evens(plans: GpuPlans) -> str:
    """Return at which loads the cheapest type changes."""
    if len(plans.loads) < 2:
        several = "--concurrency 1,8,64" if plans.loads[0][0].load.concurrency else "--rate 0.5,1,2"
        return f"Break-even: say several loads ({several}) to see where another type becomes the cheapest."
    changes = plans.break_evens()
    if not changes:
        best = [rows[0].gpu for rows in plans.loads if rows[0].row.meets]
        only = _short(best[0]) if len(set(best)) == 1 else "no type"
        where = "all these loads" if len(best) == len(plans.loads) else "the loads at which any meets the bounds"
        return f"Break-even: none; {only} is the cheapest at {where}."
    of = "per second" if plans.loads[0][0].load.concurrency is None else "at once"
    turns = []
    for load, before, after in changes:
        n = brief(load, 2)
        answers = f"{n} answer{'s' if n != '1' else ''}"
        turns.append(f"from about {answers} {of} {_short(after.gpu)} is cheaper than {_short(before.gpu)}")
    return f"Break-even: {'; '.join(turns)}."


def _gpus_table(plans: GpuPlans) -> str:
    rows = []
    for priced in plans.loads:
        for i, one in enumerate(priced):
            option = words.named(one.plan, one.row.option)
            cells = [one.load.text if not i else "", f"{one.gpus} x {_short(one.gpu)}", option]
            ends = f" [{brief(one.low)}, {brief(one.high)}]" if one.low < one.high else ""
            cells += [f"{one.row.tokens_per_s:.0f}", f"{brief(one.per_million)}{ends}"]
            rows.append([*cells, brief(one.dollars.per_answer, 2) if one.row.meets else "misses bounds"])
    headings = ["load", "GPUs", "best", "tokens/s", f"{_unit(plans)}/M tokens", f"{_unit(plans)}/answer"]
    return table(headings, rows, width=SCREEN)


def _below_gpus(plans: GpuPlans) -> Iterator[str]:
    yield from (f"Not planned for {_short(name)}: {why}." for name, why in plans.refused.items())
    for plan in plans.plans:
        on = f"{plan.deployment.gpus} x {_short(plan.deployment.gpu.name)}"
        yield from (f"Not planned on {on}: {why}." for why in plan.beyond)
    assumed = {one.drafter: one.text for plan in reversed(plans.plans) for one in words.assumed_by_plan(plan)}
    yield from (f"Assumed: {text}." for text in assumed.values())
    yield (
        f"{_unit(plans)}/M tokens: price of all GPUs per hour / million tokens of answers written in it, [95 % "
        "interval]; GPUs: the fewest that hold the models, more where these finish too little, miss the bounds or have "
        "too little cache, unless --gpus says how many. Each plan in full, with its commands: -v."
    )
