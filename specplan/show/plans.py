"""Reports of plans from a profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from specplan.output import by_need
from specplan.show.page import Answer, Bullets, Code, Interval, Part, Picture, Report, Section, Table, Text, Widget
from specplan.show.svg import Line, lines
from specplan.show.texts.plan import widest

if TYPE_CHECKING:
    from calibrate.replay.trials import Trials
    from sim.estimate import Estimate
    from specplan.planning.at_once import AtOnce
    from specplan.planning.planner import Row
    from specplan.show.results.plans import ProfilePlan

__all__ = ["interval", "plan_report"]


def interval(estimate: Estimate, digits: int = 2) -> Interval:
    """Return an estimate as a cell of a table."""
    return Interval(value=estimate.value, low=estimate.low, high=estimate.high, digits=digits)


def plan_report(plan: ProfilePlan) -> Report:
    """Return the report of a plan; simulates an answer for its timeline, and a grid for its sliders."""
    from specplan.planning.predict import Predictor

    profile, ranking = plan.timings.profile, plan.ranking
    trials = Predictor(profile, n_answers=2, uncertainty=False).trials
    models = {role: model.name for role, model in profile.models.items()}
    pair = ", ".join(f"{role} {name}" for role, name in models.items())
    sections = [Section(title="All methods", parts=list(_ranking(plan)))]
    if plan.at_once:
        sections.append(Section(title="By concurrency", parts=list(_loads(plan))))
    sections += [*_timeline(plan), *_explorer(plan, trials)]
    sections.append(Section(title="To run it", parts=list(_running(plan))))
    notes = dict.fromkeys(
        (*plan.timings.lines(), *ranking.assumptions, *(note for row in ranking.rows for note in row.prediction.notes))
    )
    needs = [f"not evaluated: {', '.join(names)}: needs {what}" for what, names in by_need(ranking.unknown).items()]
    return Report(
        title=f"Plan for {ranking.profile}",
        about=pair or "models without names",
        lead=plan.headline(),
        answers=list(_answers(plan)),
        sections=sections,
        made=list(_made(plan)),
        notes=[*notes, *needs],
    )


def _answers(plan: ProfilePlan) -> Iterator[Answer]:
    best = plan.best
    p, c = best.prediction, best.prediction.configuration
    yield Answer(question="Which method?", answer=best.label, detail=best.why)
    knobs = [f"{name} = {value}" for name, value in (("k1", c.k1), ("k2", c.k2))]
    yield Answer(
        question="Which k?",
        answer=", ".join(knobs),
        detail="k1: target steps in flight; k2: tokens that the target verifies in one pass",
    )
    s = p.speedup
    if not c.speculates:
        yield Answer(question="How sure?", answer="It is the reference", detail="no method is expected to be faster")
    else:
        parts = ", ".join(f"{name} ±{100 * value:.1f} %" for name, value in p.errors.items())
        yield Answer(
            question="How fast, how sure?",
            answer=f"{s.value:.2f} times plain decoding, 95 % interval {s.low:.2f} – {s.high:.2f}",
            detail=f"the interval covers: {parts}",
        )
    yield _at_load(plan)
    yield Answer(
        question="At what price?",
        answer=f"{1.0 + p.wasted_target:.2f} target tokens generated per committed token",
        detail=f"{p.peak_sequences} target sequences of {c.k2} tokens per pass at the peak; "
        f"{p.wasted_draft:.2f} discarded draft tokens per committed token. {_device(plan)}",
    )
    if (doubt := widest(plan.ranking)) is not None:
        yield Answer(question="What to measure next?", answer=doubt.remedy, detail=doubt.what)


def _device(plan: ProfilePlan) -> str:
    device = plan.timings.device or plan.timings.profile.provenance.device
    return f"Timings of: {device}." if device else "The profile does not state the GPUs of its timings."


def _at_load(plan: ProfilePlan) -> Answer:
    question = "At which load?"
    if not plan.at_once:
        return Answer(
            question=question,
            answer="One answer at a time",
            detail="for more, give --concurrency 1,8,32",
        )
    best: dict[int, AtOnce] = {}
    for crowd in plan.at_once:
        if crowd.answers not in best or crowd.gain.value > best[crowd.answers].gain.value:
            best[crowd.answers] = crowd
    gains = [f"{n} at once: {crowd.gain.value:.2f} times" for n, crowd in sorted(best.items())]
    names = dict.fromkeys(crowd.configuration.name for _, crowd in sorted(best.items()))
    return Answer(question=question, answer="; ".join(gains), detail="best: " + "; ".join(names))


def _ranking(plan: ProfilePlan) -> Iterator[Part]:
    graded = any(row.prediction.accuracy is not None for row in plan.ranking.rows)
    headings = ["method", "k1", "k2", "speedup, 95 % interval", *(("accuracy",) if graded else ())]
    yield Table(
        headings=[*headings, "in flight", "draft waste", "target waste", "why"],
        rows=[_cells(row, graded) for row in plan.ranking.rows],
        reference=1.0,
        strong=0,
    )
    yield Text(
        text="Speedup: time of plain decoding / time of the method, ratio of totals over answers; the dashed line is "
        "plain decoding. In flight: target sequences x tokens per pass at the peak. Waste: discarded tokens per "
        "committed token."
    )


def _cells(row: Row, graded: bool) -> list[str | Interval]:
    p, c = row.prediction, row.prediction.configuration
    cells: list[str | Interval] = [row.label, str(c.k1), str(c.k2)]
    cells.append(interval(p.speedup) if c.speculates else "1.00")
    if graded:
        cells.append("–" if p.accuracy is None else interval(p.accuracy))
    return [
        *cells,
        f"{p.peak_sequences} x {c.k2}",
        f"{p.wasted_draft:.2f}",
        f"{p.wasted_target:.2f}",
        row.why,
    ]


def _loads(plan: ProfilePlan) -> Iterator[Part]:
    from specplan.planning.planner import kind, label

    counts = sorted({crowd.answers for crowd in plan.at_once})
    kinds: dict[str, dict[int, AtOnce]] = {}
    for crowd in plan.at_once:
        kinds.setdefault(kind(crowd.configuration), {})[crowd.answers] = crowd
    names = {one: label(next(iter(by.values())).configuration) for one, by in kinds.items()}
    if len(counts) > 1:
        drawn = [
            Line(
                name=names[one],
                points=[(float(n), by[n].gain.value) for n in counts if n in by],
                intervals=[interval(by[n].gain) for n in counts if n in by],
            )
            for one, by in kinds.items()
        ]
        picture = lines(drawn, x_name="answers at once", y_name="gain", log=True, reference=1.0)
        yield Picture(
            svg=picture,
            caption="Tokens per second over those of plain decoding at the same concurrency on the same engines, with "
            "95 % intervals.",
        )
    yield Table(
        headings=["gain by answers at once", *map(str, counts)],
        rows=[
            [names[one], *(interval(by[n].gain) if n in by else "" for n in counts)]
            for one, by in sorted(kinds.items(), key=lambda item: -max(row.gain.value for row in item[1].values()))
        ],
        reference=1.0,
    )
    yield Table(
        headings=["answers at once", "configuration", "gain, 95 % interval", "seconds per answer", "plain decoding"],
        rows=[
            [
                str(crowd.answers),
                crowd.configuration.name,
                interval(crowd.gain),
                f"{crowd.seconds:.4g}",
                f"{crowd.baseline_seconds:.4g}",
            ]
            for crowd in sorted(plan.at_once, key=lambda one: (one.answers, -one.gain.value))
        ],
        reference=1.0,
        folded=True,
        summary="Configurations and seconds per answer",
    )


def _timeline(plan: ProfilePlan) -> Iterator[Section]:
    """An answer of the best step-level method; token-level methods have no steps to draw."""
    from specplan.planning.predict import Predictor
    from specplan.show.timeline import draw_timeline

    rows = [row for row in plan.ranking.rows if row.prediction.configuration.spec.drafts_steps]
    if not rows:
        return
    configuration = rows[0].prediction.configuration
    predictor = Predictor(plan.timings.profile, n_answers=2, uncertainty=False)
    picture = Picture(
        svg=draw_timeline(predictor.timeline(configuration, 0)),
        caption=f"Simulated: {configuration.name}. Numbers are steps of the answer. Zoom with the "
        "buttons, or with Ctrl and the wheel; drag to move.",
        zooms=True,
    )
    yield Section(title="One answer, step by step", parts=[picture])


def _explorer(plan: ProfilePlan, trials: Trials) -> Iterator[Section]:
    from specplan.show.explorer import explorer_data, figures_of

    figures = figures_of(plan.timings.profile, trials)
    if figures is None:
        return
    widget = Widget(
        data=explorer_data(figures),
        caption="Dashed: the closed forms f_async and f_sync of Lookahead Reasoning, without the time of verification, "
        "load, and the spread of step lengths. Squares: simulations with this profile's step lengths and cost of a "
        "batch, interpolated linearly. They have step-level speculation with the paper's schedule only: token-level "
        "speculation, other schedules and the correction from published rows are in the table above. The sampling "
        "error of a square is a few per cent; it was not measured.",
    )
    yield Section(title="What if", parts=[widget])


def _running(plan: ProfilePlan) -> Iterator[Part]:
    import json

    advice = plan.advice
    for server in advice.servers:
        yield Code(text=server.command)
    if advice.client is not None:
        yield Text(text="Settings of the step-level client:")
        yield Code(text=json.dumps(advice.client, indent=2, sort_keys=True))
    if advice.notes:
        yield Bullets(items=advice.notes)


def _made(plan: ProfilePlan) -> Iterator[tuple[str, str]]:
    profile, best = plan.timings.profile, plan.best.prediction
    about = profile.provenance
    yield "profile", f"{profile.name}, {profile.source}, {about.created}"
    if about.citation:
        yield "source", about.citation
    yield "timings", plan.timings.latency or about.device or "the profile's own"
    yield "schedule", plan.ranking.rules
    yield "budget M", f"{plan.ranking.max_parallel} target positions in flight"
    yield "answers", f"{best.speedup.n} of the best row"
    yield "seed", "recorded answers" if best.speedup.seed is None else str(best.speedup.seed)
