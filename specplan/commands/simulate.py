"""``specplan simulate``: predict a configuration, and draw a timeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specplan.output import refuse_unused
from specplan.ranges import ANSWERS, MICROSECONDS, PROBABILITY, WINDOW, InputName, OutputFile, WholeNumber, pairs
from specplan.show.saving import result_options
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.api.simulating import Simulated

__all__ = ["command"]


@click.command()
@click.option("-p", "--profile", type=InputName(), required=True, help="Name of a bundled profile, or a profile file.")
@click.option("--method", default="lr-async", help="A name that 'specplan methods' lists.")
@click.option("--set", "settings", multiple=True, metavar="KNOB=VALUE", help="A knob of the method; may be repeated.")
@click.option("--k1", type=WINDOW, help="Target steps in flight. Default the method's.")
@click.option("--token", help="Token-level method below a step-level one, see 'specplan methods'.")
@click.option("--token-set", "token_settings", multiple=True, metavar="KNOB=VALUE", help="A knob of --token.")
@click.option("--k2", type=WINDOW, help="Tokens per target pass. Default the token-level method's, else 1.")
@click.option("--width", type=WINDOW, help="Drafts per position. Default the method's.")
@click.option("--rules", help="Schedule of LR: paper, released-code or eager. Default as for plan.")
@click.option("--corruption", type=PROBABILITY, help="Acceptance lost after a wrong step, 0 to 1. Default as measured.")
@click.option(
    "-n", "--answers", "n_answers", type=ANSWERS, help="Answers to simulate. Default all recorded ones, or 40."
)
@click.option(
    "--concurrency", type=WholeNumber(1, 256), help="Also simulate this number of answers at once on the same engines."
)
@click.option(
    "--place",
    "places",
    multiple=True,
    metavar="ROLE=ROLE|own",
    help="Move an engine to the processor of another, or to its own: judge=own, draft=target; repeatable.",
)
@click.option(
    "--timeline",
    type=OutputFile(".png", ".svg", ".pdf", ".json"),
    help="Draw one answer: .png, .svg, .pdf, or .json for Perfetto.",
)
@click.option("--answer", type=WholeNumber(0, ANSWERS.high - 1), default=0, help="Which answer to draw.")
@click.option("--until", type=MICROSECONDS, help="Draw up to this many seconds. Default the first 20 steps.")
@result_options()
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
    places: tuple[str, ...],
    timeline: Path | None,
    answer: int,
    until: float | None,
    **options: Any,
) -> Simulated:
    """Predict a configuration by simulation, and draw a timeline of an answer."""
    if timeline is None:
        refuse_unused(("answer", "until"), "without --timeline")
    from calibrate.record.library import load
    from sim.catalogue import choice
    from sim.configuration import METHOD_NAMES, RULE_NAMES, TOKEN_METHOD_NAMES, Configuration, parse_knobs
    from specplan.api.simulating import save_timeline, simulate
    from specplan.planning.candidates import Request

    chosen = choice("method", method, METHOD_NAMES)
    known = load(profile)
    knobs = parse_knobs(chosen, settings)
    schedule = choice("rules", rules, RULE_NAMES) if rules else None
    if schedule is None and "rules" not in knobs:
        schedule = Request().rules_for(known)
    if token_settings and token is None:
        raise ParameterError("token-set", token_settings[0], "needs --token")
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
    if corruption is not None and not configuration.spec.drafts_steps:
        raise ParameterError("corruption", corruption, f"does not apply to {chosen}, which has no draft steps")
    moved = pairs("place", places, "must be ROLE=ROLE or ROLE=own")
    simulated = simulate(known, configuration, corruption=corruption, places=moved, **options)
    drawn = simulated.timeline(answer) if timeline is not None or answer else None  # refuses a number without an answer
    if timeline is not None and drawn is not None:
        save_timeline(drawn, timeline, until=until)
    return simulated
