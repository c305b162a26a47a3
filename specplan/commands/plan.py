"""``specplan plan``: which method, which knobs, what speedup, and how sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specplan.loads.asking import deployment_options
from specplan.output import (
    InputName,
    by_need,
    check_output,
    deliver,
    json_option,
    output_options,
    progress,
    table,
    to_json,
)
from specplan.ranges import ANSWERS, PROBABILITY, WholeNumber

if TYPE_CHECKING:
    from sim.estimate import Estimate
    from specplan.planning.latency import Timed
    from specplan.planning.planner import Plan, Row

__all__ = ["command", "plan_as_json", "plan_as_text"]


@click.command()
@click.option(
    "-p", "--profile", type=InputName(), help="Name of a bundled profile, or a profile file. Or else: --target."
)
@click.option(
    "--latency",
    type=InputName(),
    default="auto",
    show_default=True,
    help="Name or file of a profile whose timings replace those of the profile; 'auto' takes an installed latency "
    "profile of the same models if there is exactly one, 'none' takes none.",
)
@click.option(
    "--gpu", help="With --profile: only timings measured on this GPU are taken. With --target: the GPU. Default H100."
)
@click.option(
    "--latency-folder",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder of your own latency profiles. Default: the one that the variable SPECPLAN_PROFILES names.",
)
@click.option(
    "-M",
    "--max-parallel",
    type=WholeNumber(1, 4096),
    default=32,
    show_default=True,
    help="Budget M: target sequences in flight times tokens per pass, at most.",
)
@click.option("--methods", default="", help="Comma-separated names, see 'specplan methods'. Default all but ablations.")
@click.option(
    "--k1-max",
    type=WholeNumber(1, 64),
    default=8,
    show_default=True,
    help="Largest k1 (target steps in flight) to try.",
)
@click.option(
    "--k2-max",
    type=WholeNumber(1, 1024),
    help="Largest k2 (tokens per target pass) to try. Default what the profile knows.",
)
@click.option(
    "--rules",
    help="Schedule of LR: paper, released-code or eager. Default released-code for published profiles, else paper.",
)
@click.option("-n", "--answers", type=ANSWERS, help="Answers to simulate per configuration.")
@click.option(
    "--max-accuracy-loss",
    type=PROBABILITY,
    default=0.05,
    show_default=True,
    help="Share of right answers that a method may cost; others are ranked last.",
)
@deployment_options
@json_option
@output_options
def command(
    profile: str | None,
    latency: str,
    gpu: str | None,
    folder: Path | None,
    max_parallel: int,
    methods: str,
    k1_max: int,
    k2_max: int | None,
    rules: str | None,
    answers: int | None,
    max_accuracy_loss: float,
    as_json: bool,
    output: Path | None,
    force: bool,
    **asked: Any,
) -> None:
    """Rank methods and their knobs, for the models of a profile or for models by name.

    With --profile: one row per method, best first: the knobs that the budget allows and that are predicted to be
    fastest, the predicted speedup over plain decoding with its 95 % interval, what it keeps in flight and wastes.

    With --target: the best configuration at each load, its gain over plain decoding on the same number of GPUs, the
    load at which to switch it off, and the commands to run it.
    """
    check_output(output, force=force)
    _check_kind(profile, asked)
    if asked["target"] is not None:
        from specplan.loads.asked import deployment_plan

        text, data = deployment_plan({**asked, "gpu": gpu}, _methods(methods), max_accuracy_loss)
        deliver(to_json(data) if as_json else text, output)
        return
    assert profile is not None
    from calibrate.record.library import load
    from specplan.planning.latency import timed
    from specplan.planning.planner import Request, plan

    timings = timed(load(profile), latency=latency, gpu=gpu, folder=folder)
    known = timings.profile
    request = Request(
        max_parallel=max_parallel,
        methods=_methods(methods),
        k1_max=k1_max,
        k2_max=k2_max,
        rules=_rules(rules),
        n_answers=answers,
        max_accuracy_loss=max_accuracy_loss,
    )
    found = plan(known, request, progress=progress)
    from specplan.planning.advice import advise

    advice = advise(known, found.best.prediction.configuration)
    from specplan.planning.crowds_text import crowds, crowds_as_json, crowds_as_text

    rows = crowds(known, found, asked["concurrency"])
    if as_json:
        data = {**plan_as_json(found, timings), "at_once": crowds_as_json(rows), "advice": advice.plain()}
        deliver(to_json(data), output)
    else:
        deliver("\n\n".join([plan_as_text(found, timings), *crowds_as_text(rows), advice.text()]), output)


def _check_kind(profile: str | None, asked: Mapping[str, Any]) -> None:
    """Refuse both kinds of plans at once, and options of the other kind."""
    if profile is None and asked["target"] is None:
        raise click.UsageError("give --profile (models that were measured) or --target (models by name)")
    if profile is not None and asked["target"] is not None:
        raise click.UsageError("give --profile or --target, not both")
    if profile is None:
        _refuse(("max_parallel", "k1_max", "k2_max", "rules", "answers", "latency", "folder"))
    said = [name.replace("_", "-") for name, value in asked.items() if value is not None]
    if profile is not None and set(said) - {"target", "concurrency"}:
        raise click.UsageError(f"--{said[0]} needs --target: with --profile, only --concurrency can be said of a load")


def _refuse(names: Sequence[str]) -> None:
    """Refuse options that only a profile has a use for."""
    context = click.get_current_context()
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE
        if option.name in names and given:
            raise click.UsageError(f"{option.opts[-1]} needs --profile: plans from names find it out")


def _methods(text: str) -> Any:
    from sim.catalogue import choice
    from specplan.planning.planner import PROPOSED
    from specplan.planning.predict import METHODS

    if not text.strip():
        return PROPOSED
    return tuple(choice("methods", name.strip(), METHODS) for name in text.split(","))


def _rules(text: str | None) -> str | None:
    from sim.catalogue import choice
    from sim.configuration import RULE_NAMES

    return None if text is None else choice("rules", text, RULE_NAMES)


def plan_as_json(found: Plan, timings: Timed | None = None) -> dict[str, Any]:
    """The plan as plain data, with the latency profile that it rests on."""
    return {
        "schema": "specplan.plan",
        "schema_version": 1,
        "profile": found.profile,
        "max_parallel": found.max_parallel,
        "rules": found.rules,
        "verdict": found.verdict,
        "assumptions": list(found.assumptions),
        "unknown": {name: list(lacking) for name, lacking in found.unknown.items()},
        "latency": None if timings is None else timings.plain(),
        "rows": [{"label": row.label, "why": row.why, **row.prediction.plain()} for row in found.rows],
    }


def plan_as_text(found: Plan, timings: Timed | None = None) -> str:
    """The plan for a reader, with the latency profile that it rests on."""
    headings = ["method", "k1", "k2", "speedup", "95 % interval", "accuracy", "false accepts", "in flight"]
    headings += ["draft waste", "target waste", "why"]
    lines = [
        f"Plan for {found.profile}, for one answer at a time, at most {found.max_parallel} target positions in flight",
        "",
        table(headings, [_cells(row) for row in found.rows]),
        "",
        found.verdict,
        "",
        "speedup: time of plain decoding / time of the method, ratio of totals over answers; in flight: target "
        "sequences x tokens per pass at the peak; accuracy: share of right answers; false accepts: wrong drafts let "
        "stand, per answer; waste: tokens generated in vain per committed token.",
    ]
    lines += [f"- not evaluated: {', '.join(names)}: needs {what}" for what, names in by_need(found.unknown).items()]
    about = [] if timings is None else timings.lines()
    notes = dict.fromkeys((*about, *found.assumptions, *(note for row in found.rows for note in row.prediction.notes)))
    lines += [f"- {note}" for note in notes]
    return "\n".join(lines)


def _per_answer(estimate: Estimate | None) -> str:
    return "–" if estimate is None else f"{estimate.value:.2f} [{max(estimate.low, 0.0):.2f}, {estimate.high:.2f}]"


def _cells(row: Row) -> list[str]:
    p = row.prediction
    speculates = p.configuration.speculates
    return [
        row.label,
        str(p.configuration.k1),
        str(p.configuration.k2),
        f"{p.speedup.value:.2f}",
        f"{p.speedup.low:.2f} – {p.speedup.high:.2f}" if speculates else "–",
        "–" if p.accuracy is None else f"{p.accuracy.value:.2f} [{p.accuracy.low:.2f}, {p.accuracy.high:.2f}]",
        _per_answer(p.false_accepts) if speculates else "–",
        f"{p.peak_sequences} x {p.configuration.k2}",
        f"{p.wasted_draft:.2f}",
        f"{p.wasted_target:.2f}",
        row.why,
    ]
