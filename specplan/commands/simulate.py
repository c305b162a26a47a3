"""``specplan simulate``: predict one configuration, and draw what happens when."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specplan.output import (
    InputName,
    OutputFile,
    check_output,
    deliver,
    json_option,
    output_options,
    progress,
    table,
    to_json,
)
from specplan.ranges import ANSWERS, MICROSECONDS, PROBABILITY, WINDOW, WholeNumber
from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.replay.trials import Trials
    from sim.configuration import Configuration
    from sim.timeline import Timeline
    from specplan.planning.at_once import AtOnce
    from specplan.planning.overshoot import Overshoot
    from specplan.planning.predict import Prediction, Predictor

__all__ = ["command", "save_timeline"]

_SHOWN_STEPS = 20


_EXPLAINED = 12
"""Drawn answers of 100 steps simulated to explain why two speedups do not multiply: each is run 32 times."""


@click.command()
@click.option("-p", "--profile", type=InputName(), required=True, help="Name of a bundled profile, or a profile file.")
@click.option("--method", default="lr-async", show_default=True, help="A name that 'specplan methods' lists.")
@click.option("--set", "settings", multiple=True, metavar="KNOB=VALUE", help="A knob of the method; may be repeated.")
@click.option("--k1", type=WINDOW, help="Target steps in flight. Default the method's.")
@click.option("--token", help="Token-level method below a step-level one, see 'specplan methods'.")
@click.option("--token-set", "token_settings", multiple=True, metavar="KNOB=VALUE", help="A knob of --token.")
@click.option("--k2", type=WINDOW, help="Tokens per target pass. Default the token-level method's, else 1.")
@click.option("--width", type=WINDOW, help="Drafts per position. Default the method's.")
@click.option("--rules", help="Schedule of LR: paper, released-code or eager. Default as for plan.")
@click.option("--corruption", type=PROBABILITY, help="Acceptance lost after a wrong step, 0 to 1. Default as measured.")
@click.option("-n", "--answers", type=ANSWERS, help="Answers to simulate. Default all recorded ones, or 40.")
@click.option(
    "--concurrency", type=WholeNumber(1, 256), help="Simulate so many answers at once on the same engines as well."
)
@click.option(
    "--timeline",
    type=OutputFile(".png", ".svg", ".pdf", ".json"),
    help="Draw one answer: .png, .svg, .pdf, or .json for Perfetto.",
)
@click.option(
    "--answer", type=WholeNumber(0, ANSWERS.high - 1), default=0, show_default=True, help="Which answer to draw."
)
@click.option(
    "--until", type=MICROSECONDS, help=f"Draw up to this many seconds. Default the first {_SHOWN_STEPS} steps."
)
@json_option
@output_options
def command(
    profile: str,
    method: str,
    settings: tuple[str, ...],
    k1: int | None,
    token: str | None,
    token_settings: tuple[str, ...],
    k2: int | None,
    width: int | None,
    rules: str | None,
    corruption: float | None,
    answers: int | None,
    concurrency: int | None,
    timeline: Path | None,
    answer: int,
    until: float | None,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Predict one configuration by simulation, and draw a timeline of one answer."""
    check_output(output, force=force)
    from calibrate.record.library import load
    from sim.catalogue import choice
    from sim.configuration import METHOD_NAMES, RULE_NAMES, TOKEN_METHOD_NAMES, Configuration, parse_knobs
    from specplan.planning.planner import Request
    from specplan.planning.predict import Predictor

    chosen = choice("method", method, METHOD_NAMES)
    known = load(profile)
    knobs = parse_knobs(chosen, settings)
    schedule = choice("rules", rules, RULE_NAMES) if rules else None
    if schedule is None and "rules" not in knobs:
        schedule = Request().rules_for(known)
    if token_settings and token is None:
        raise ParameterError("token-set", token_settings, "needs --token")
    configuration = Configuration(
        method=chosen,
        k1=k1,
        k2=k2,
        width=width,
        rules=schedule,
        knobs=knobs,
        token=None if token is None else choice("token", token, TOKEN_METHOD_NAMES),
        token_knobs=parse_knobs(token, token_settings) if token is not None else {},
    )
    predictor = Predictor(known, n_answers=answers, corruption=corruption)
    if answer >= predictor.n_answers:
        raise ParameterError("answer", answer, f"must be below {predictor.n_answers}, the number of answers")
    prediction = predictor.predict(configuration)
    crowd = None if concurrency is None else _at_once(predictor.trials, prediction, concurrency)
    loss = _overshoot(predictor, configuration)
    if timeline is not None:
        save_timeline(predictor.timeline(configuration, answer), timeline, until=until)
    shown = (
        to_json(_as_json(known.name, prediction, loss, crowd))
        if as_json
        else _as_text(known.name, prediction, loss, crowd)
    )
    deliver(shown, output)


def _overshoot(predictor: Predictor, configuration: Configuration) -> Overshoot | None:
    """Why the speedups of steps and of tokens do not multiply; None where only one of the two speculates."""
    from specplan.planning.overshoot import overshoot

    if not configuration.is_hybrid:
        return None
    n = predictor.n_answers
    n_explained = n if predictor.profile.published is None else min(_EXPLAINED, n)
    return overshoot(predictor.trials, configuration, n_answers=n, n_explained=n_explained)


def _at_once(trials: Trials, prediction: Prediction, concurrency: int) -> AtOnce:
    """Simulate answers that share engines, so many at any time, under the method and under plain decoding."""
    from specplan.planning.at_once import Crowds

    with progress(f"simulating {concurrency} answers at once", 1) as step_done:
        found = Crowds(trials, [prediction]).of(prediction, concurrency)
        step_done()
    return found


def save_timeline(timeline: Timeline, path: Path, *, until: float | None = None) -> None:
    """Draw a timeline, or write it as a trace for Perfetto where the name ends in .json."""
    from calibrate.record.files import replacing, write_atomically

    if path.suffix.lower() == ".json":
        from sim.timeline import perfetto

        write_atomically(path, json.dumps(perfetto(timeline), sort_keys=True) + "\n")
        return
    from sim.gantt import draw

    if until is None and len(timeline.commits) > _SHOWN_STEPS:
        until = timeline.commits[_SHOWN_STEPS - 1].time
    with replacing(path) as temporary:
        draw(timeline, temporary, until=until)


def _as_json(profile: str, prediction: Prediction, loss: Overshoot | None, crowd: AtOnce | None) -> dict[str, object]:
    found = {"schema": "specplan.prediction", "schema_version": 1, "profile": profile, **prediction.plain()}
    found["at_once"] = None if crowd is None else crowd.plain()
    return {**found, "overshoot": None if loss is None else {**asdict(loss), "total": loss.total}}


def _as_text(profile: str, p: Prediction, loss: Overshoot | None, crowd: AtOnce | None) -> str:
    from specplan.planning.planner import label

    c, s = p.configuration, p.speedup
    rows = [
        ["speedup over plain decoding", f"{s.value:.3f}", f"95 % interval {s.low:.3f} – {s.high:.3f}"],
        ["seconds per answer", f"{p.seconds_per_answer:.4g}", f"plain decoding {p.baseline_seconds:.4g}"],
        ["steps written by the draft", f"{100 * p.accepted:.1f} %", ""],
        ["target sequences in flight", f"{p.peak_sequences}", "at the peak"],
        ["tokens per target pass", f"{p.tokens_per_pass:.3f}", ""],
        ["draft tokens in vain", f"{p.wasted_draft:.3f}", "per committed token"],
        ["target tokens in vain", f"{p.wasted_target:.3f}", "per committed token"],
    ]
    rows += [] if crowd is None else _crowd_rows(crowd)
    rows += _accuracy(p)
    parts = ", ".join(f"{name} ±{100 * value:.1f} %" for name, value in p.errors.items())
    every = {**c.knobs, **c.token_knobs, "k2": c.k2}
    knobs = ", ".join(f"{name} = {value}" for name, value in every.items() if value is not None)
    lines = [f"{label(c)} on {profile}: {knobs}; {p.speedup.n} answers", "", table(["quantity", "value", ""], rows)]
    lines += ["", f"The interval covers: {parts}.", *(f"- {note}" for note in p.notes)]
    lines += [] if loss is None else [f"- {loss.text}"]
    return "\n".join(lines)


def _crowd_rows(crowd: AtOnce) -> list[list[str]]:
    s, n = crowd.gain, crowd.answers
    busiest = max(crowd.busy, key=crowd.busy.__getitem__)
    return [
        [
            f"speedup with {n} answers at once",
            f"{s.value:.3f}",
            f"95 % interval {s.low:.3f} – {s.high:.3f}",
        ],
        [
            f"seconds per answer, {n} at once",
            f"{crowd.seconds:.4g}",
            f"plain decoding {crowd.baseline_seconds:.4g}; {busiest} busy {100 * crowd.busy[busiest]:.0f} %",
        ],
    ]


def _accuracy(p: Prediction) -> list[list[str]]:
    """Rows about accuracy, where the profile's task has ground truth."""
    rows = []
    if p.false_accepts is not None:
        f = p.false_accepts
        rows.append(["wrong draft steps let stand", f"{f.value:.3f}", f"per answer, {f.low:.3f} – {f.high:.3f}"])
    for name, a in (("right answers", p.accuracy), ("right answers, target alone", p.baseline_accuracy)):
        if a is not None:
            rows.append([name, f"{a.value:.3f}", f"95 % interval {a.low:.3f} – {a.high:.3f}"])
    return rows
