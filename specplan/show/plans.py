"""Plans from a profile: rows, JSON, text and reports."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from specplan.output import SCREEN, between, by_need, narrow, percent, screen
from specplan.show.loads.reports import load_parts
from specplan.show.loads.results import by_load, loads_as_json
from specplan.show.loads.words import beyond_timings, gain_is, named, switch_off
from specplan.show.page import (
    Answer,
    Bullets,
    Code,
    Interval,
    Part,
    Picture,
    Report,
    Section,
    Text,
    filled,
    interval,
)
from specplan.show.rendering import as_text
from specplan.show.result import Result, flat

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sim.configuration import Configuration
    from sim.estimate import Estimate
    from specplan.planning.advice import Advice
    from specplan.planning.latency import Timed
    from specplan.planning.loads.load_plan import LoadPlan
    from specplan.planning.planner import Plan, Row
    from specplan.planning.predict import Prediction

__all__ = ["ProfilePlan", "advised"]

_SHOWN: Final = 12
"""Methods on the first screen, plain decoding besides."""
_WIDEST: Final = {
    "sampling": "sampling of {n} answers",
    "profile": "what the profile does not say about timings and step lengths",
    "model": "the error of earlier predictions of this kind",
}
"""Source of error to its words on the screen."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProfilePlan(Result):
    """The best configuration of each method for the models of a profile."""

    ranking: Plan
    timings: Timed
    loads: LoadPlan | None
    """The best of each kind of configuration at each requested load; None if none was requested."""
    advice: Advice
    """Servers and clients that run the best row."""

    @property
    def best(self) -> Row:
        """The row to choose."""
        return self.ranking.best

    @property
    def speedup(self) -> Estimate:
        """Speedup of the best row over plain decoding at concurrency 1."""
        return self.best.prediction.speedup

    def headline(self) -> str:
        """Return the recommendation, its gain and its cost in two sentences."""
        return f"{self.ranking.verdict} {_costs(self.best.prediction)}".strip()

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each method, best first, then the rows of each load."""
        rows = [_record(row) for row in self.ranking.rows]
        for load, load_rows in () if self.loads is None else self.loads.loads:
            n = load.concurrency
            for row in load_rows:
                fields = {**_knobs(row.option.configuration), "speedup": row.gain}
                place = {"answers_at_once": n} if n else {"load": load.text}
                rows.append({**flat(fields), **place, "seconds_per_answer": row.mean_s})
        return rows

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan plan --json`` prints."""
        return {
            "schema": "specplan.plan",
            "schema_version": 1,
            "profile": self.ranking.profile,
            "max_parallel": self.ranking.max_parallel,
            "rules": self.ranking.rules,
            "verdict": self.ranking.verdict,
            "assumptions": list(self.ranking.assumptions),
            "unknown": {name: list(lacking) for name, lacking in self.ranking.unknown.items()},
            "latency": self.timings.plain(),
            "rows": [{"label": row.label, "why": row.why, **row.prediction.plain()} for row in self.ranking.rows],
            **loads_as_json(self.loads),
            "advice": self.advice.plain(),
        }

    def report(self) -> Report:
        """Return the plan as a report, which simulates an answer for its timeline where it is drawn."""
        profile, ranking = self.timings.profile, self.ranking
        models = {role: model.name for role, model in profile.models.items()}
        pair = ", ".join(f"{role} {name}" for role, name in models.items())
        sections = [Section("All methods", list(_ranking(self)))]
        if self.loads is not None:
            sections.append(Section("By load", list(load_parts(self.loads))))
        sections += [*_timeline(self), Section("To run it", list(advised(self.advice)))]
        notes = dict.fromkeys(
            (
                *self.timings.lines(),
                *ranking.assumptions,
                *(note for row in ranking.rows for note in row.prediction.notes),
            )
        )
        needs = [f"not evaluated: {', '.join(names)}: needs {what}" for what, names in by_need(ranking.unknown).items()]
        return Report(
            title=f"Plan for {ranking.profile}",
            about=pair or "models without names",
            lead=self.headline(),
            answers=list(_answers(self)),
            sections=sections,
            made=list(_made(self)),
            notes=[*notes, *needs],
        )

    def conclude(self) -> None:
        """End as interrupted where an interruption left loads out."""
        if self.loads is not None and self.loads.interrupted:
            raise KeyboardInterrupt

    def text(self, *, verbose: bool = False) -> str:
        """Return the text of ``specplan plan``, with ``verbose`` that of ``specplan plan -v``."""
        return as_text(self.report()) if verbose else _first_screen(self)


def _widest(ranking: Plan) -> tuple[str, str] | None:
    """What the best row's interval is mostly made of, and what to measure next; None where it has no interval."""
    errors = {name: part for name, part in ranking.best.prediction.errors.items() if part > 0.0}
    if not errors:
        return None
    name, part = max(errors.items(), key=lambda error: error[1])
    what = f"Most of the interval, ±{percent(part, 0)}, comes from {_WIDEST[name].format(n=ranking.n_answers)}."
    more = 4 * ranking.n_answers
    if not ranking.measured:
        drawn = f"Draw four times as many (-n {more}), or measure" if name == "sampling" else "Measure"
        return what, f"{drawn} your own models: specplan calibrate"
    if name == "model":
        return what, "Run the row that you choose: specplan validate"
    return what, f"Answer four times as many questions: specplan calibrate -n {more}"


def _first_screen(plan: ProfilePlan) -> str:
    """What fits a terminal of 80 columns: what to do, the best rows with plain decoding, what to measure next."""
    ranking, timings = plan.ranking, plan.timings
    shown = [r for i, r in enumerate(ranking.rows) if i < _SHOWN or not r.prediction.configuration.speculates]
    about = f"{ranking.profile}, one answer at a time, at most {ranking.max_parallel} positions per target pass:"
    loads = []
    if plan.loads is not None:
        beyond = (f"Not planned: {why}." for why in plan.loads.beyond)
        said = filter(None, [*beyond_timings(plan.loads), *beyond, switch_off(plan.loads), f"{gain_is(plan.loads)}."])
        loads = ["\n".join([by_load(plan.loads), *(textwrap.fill(line, SCREEN) for line in said)])]
    below = [*_below(ranking, len(shown)), *timings.lines()[: timings.latency is not None]]
    return screen(plan.headline(), about, _short_table(shown), *loads, below)


def _costs(best: Prediction) -> str:
    """Return what the best row needs: servers, tokens that the target generates, and how many answers are right."""
    if not best.configuration.speculates:
        return ""
    servers = ["target", *(role for role in best.configuration.spec.roles if role in ("draft", "judge"))]
    need = "one server" if len(servers) == 1 else f"{len(servers)} servers"
    roles = " and ".join(filter(None, [", ".join(servers[:-1]), servers[-1]]))
    kept = f"The target generates {1.0 + best.wasted_target:.2f} tokens for every token that it keeps"
    text = f"You need {need}: {roles}. {kept}"
    if best.accuracy is not None and best.baseline_accuracy is not None:
        text += f"; {between(best.accuracy)} of the answers are right, {best.baseline_accuracy.value:.2f} without it"
    return text + "."


def _short_table(rows: Sequence[Row]) -> str:
    """The rows in columns that say something: nothing is there twice, and none is empty."""
    every = [row.prediction for row in rows]
    depths = {name: [str(getattr(p.configuration, name)) for p in every] for name in ("k1", "k2")}
    columns = [
        ("method", [row.label for row in rows]),
        *((name, cells) for name, cells in depths.items() if set(cells) != {"1"}),
        ("speedup", [between(p.speedup) if p.configuration.speculates else f"{p.speedup.value:.2f}" for p in every]),
        ("right", ["–" if p.accuracy is None else f"{p.accuracy.value:.2f}" for p in every]),
        ("target tokens", [f"{1.0 + p.wasted_target:.2f}" for p in every]),
    ]
    return narrow(columns)


def _below(ranking: Plan, n_shown: int) -> Iterator[str]:
    if (hidden := len(ranking.rows) - n_shown) > 0:
        yield f"{hidden} slower rows are not shown."
    if ranking.unknown:
        yield f"Not evaluated, for lack of measurements: {', '.join(ranking.unknown)}."
    if (doubt := _widest(ranking)) is not None:
        yield "{} {}.".format(*doubt)
    yield (
        "speedup: over plain decoding, one answer at a time, [95 % interval]; target tokens: generated per token kept. "
        "All rows, columns and assumptions, and the commands to run it: -v."
    )


def _knobs(c: Configuration) -> dict[str, Any]:
    return {"method": c.method, "token": c.token, "k1": c.k1, "k2": c.k2}


def _record(row: Row) -> dict[str, Any]:
    p = row.prediction
    fields = {**_knobs(p.configuration), "speedup": p.speedup, "why": row.why}
    fields |= {"accuracy": p.accuracy, "false_accepts": p.false_accepts, "peak_sequences": p.peak_sequences}
    fields |= {"wasted_draft": p.wasted_draft, "wasted_target": p.wasted_target}
    return {**flat(fields), "seconds_per_answer": p.seconds_per_answer}


def _answers(plan: ProfilePlan) -> Iterator[Answer]:
    best = plan.best
    p, c = best.prediction, best.prediction.configuration
    yield Answer("Which method?", best.label, best.why)
    knobs = [f"{name} = {value}" for name, value in (("k1", c.k1), ("k2", c.k2))]
    yield Answer(
        "Which k?", ", ".join(knobs), "k1: target steps in flight; k2: tokens that the target verifies in one pass"
    )
    s = p.speedup
    if not c.speculates:
        yield Answer("How sure?", "It is the reference", "no method is expected to be faster")
    else:
        parts = ", ".join(f"{name} ±{percent(value)}" for name, value in p.errors.items())
        yield Answer(
            "How fast, how sure?",
            f"{s.value:.2f} times plain decoding, 95 % interval {s.low:.2f} – {s.high:.2f}",
            f"the interval covers: {parts}",
        )
    yield _at_load(plan)
    device = plan.timings.device or plan.timings.profile.provenance.device
    gpus = f"Timings of: {device}." if device else "The profile does not state the GPUs of its timings."
    yield Answer(
        "At what price?",
        f"{1.0 + p.wasted_target:.2f} target tokens generated per committed token",
        f"{p.peak_sequences} target sequences of {c.k2} tokens per pass at the peak; "
        f"{p.wasted_draft:.2f} discarded draft tokens per committed token. {gpus}",
    )
    if (doubt := _widest(plan.ranking)) is not None:
        yield Answer("What to measure next?", doubt[1], doubt[0])


def _at_load(plan: ProfilePlan) -> Answer:
    question, loads = "At which load?", plan.loads
    if loads is None:
        detail = "for more, give --concurrency 1,8,32, or --rate"
        return Answer(question, "One answer at a time", detail)
    at = {load: f"{load.text} at once" if load.concurrency else load.text for load, _ in loads.loads}
    gains = [f"{at[load]}: {rows[0].gain.value:.2f} times" for load, rows in loads.loads]
    best = dict.fromkeys(named(loads, rows[0].option) for _, rows in loads.loads)
    detail = f"best: {'; '.join(best)}. {switch_off(loads)}"
    return Answer(question, "; ".join(gains), detail.strip())


def _ranking(plan: ProfilePlan) -> Iterator[Part]:
    rows = [(row, row.prediction, row.prediction.configuration) for row in plan.ranking.rows]
    yield filled(
        ("method", [row.label for row, _, _ in rows]),
        ("k1", [str(c.k1) for _, _, c in rows]),
        ("k2", [str(c.k2) for _, _, c in rows]),
        ("speedup, 95 % interval", [interval(p.speedup) if c.speculates else "1.00" for _, p, c in rows]),
        ("accuracy", ["–" if p.accuracy is None else interval(p.accuracy) for _, p, _ in rows]),
        ("false accepts", [_per_answer(p.false_accepts) if c.speculates else "–" for _, p, c in rows]),
        ("in flight", [f"{p.peak_sequences} x {c.k2}" for _, p, c in rows]),
        ("draft waste", [f"{p.wasted_draft:.2f}" for _, p, _ in rows]),
        ("target waste", [f"{p.wasted_target:.2f}" for _, p, _ in rows]),
        ("why", [row.why for row, _, _ in rows]),
        reference=1.0,
        strong=0,
    )
    yield Text(
        "Speedup: time of plain decoding / time of the method, ratio of totals over answers. Accuracy: share of "
        "right answers; false accepts: wrong drafts let stand, per answer. In flight: target sequences x tokens per "
        "pass at the peak. Waste: tokens generated in vain per committed token."
    )


def _per_answer(estimate: Estimate | None) -> str | Interval:
    if estimate is None:
        return "–"
    return Interval(estimate.value, max(estimate.low, 0.0), estimate.high)


def _timeline(plan: ProfilePlan) -> Iterator[Section]:
    """An answer of the best step-level method; token-level methods have no steps to draw."""
    rows = [row for row in plan.ranking.rows if row.prediction.configuration.spec.drafts_steps]
    if not rows:
        return
    configuration = rows[0].prediction.configuration

    def draw() -> Figure:
        from sim.gantt import beginning, figure
        from specplan.planning.predict import Predictor

        timeline = Predictor(plan.timings.profile, n_answers=2, uncertainty=False).timeline(configuration, 0)
        return figure(timeline, until=beginning(timeline))

    caption = f"Simulated: {configuration.name}. Numbers are steps of the answer."
    yield Section("One answer, step by step", [Picture(draw, caption)])


def advised(advice: Advice) -> Iterator[Part]:
    """Yield the commands of servers, and the settings of the step-level client."""
    for server in advice.servers:
        yield Code(server.command, shell=True)
    if advice.client is not None:
        yield Text("Settings of the step-level client:")
        yield Code(json.dumps(advice.client, indent=2, sort_keys=True))
    if advice.notes:
        yield Bullets(advice.notes)


def _made(plan: ProfilePlan) -> Iterator[tuple[str, str]]:
    profile, best = plan.timings.profile, plan.best.prediction
    about = profile.provenance
    yield "profile", f"{profile.name}, {profile.source}, {about.created}"
    if about.citation:
        yield "source", about.citation
    yield "timings", plan.timings.latency or about.device or "the profile's own"
    yield "schedule", plan.ranking.rules
    yield "budget M", f"at most {plan.ranking.max_parallel} positions per target pass"
    yield "answers", f"{best.speedup.n} of the best row"
    yield "seed", "recorded answers" if best.speedup.seed is None else str(best.speedup.seed)
