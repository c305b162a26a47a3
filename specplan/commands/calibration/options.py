"""Options that the ``specplan calibrate`` commands share: the models, how they sample, where the profile goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from specplan.output import all_of
from specplan.ranges import (
    PARALLEL,
    PROBABILITY,
    SEED,
    TEMPERATURE,
    TOP_P,
    InputName,
    ListOf,
    OutputFile,
    WholeNumber,
)

__all__ = [
    "ROLES",
    "load_options",
    "loads",
    "local_models",
    "on_gpus",
    "output_file",
    "sampling",
    "timing_options",
    "timings",
]

if TYPE_CHECKING:
    from calibrate.loads.levels import LoadOptions

ROLES: Final = ("target", "draft", "judge")


local_models = all_of(
    click.option("--target", type=InputName(), default="bundled", help="Folder of the target model, or 'bundled'."),
    click.option("--draft", type=InputName(), default="bundled", help="Folder of the draft model, or 'bundled'."),
    click.option(
        "--judge",
        type=InputName(),
        help="Folder of the judge, or 'target' or 'draft'. Default: the bundled pair's, or the target.",
    ),
    click.option(
        "--embedding",
        type=InputName(),
        metavar="PATH",
        help="Folder of a sentence-transformers model: a further verifier.",
    ),
    click.option(
        "--eagle",
        type=InputName(),
        metavar="PATH",
        help="Folder of an EAGLE head of the target, or 'none'. Default: the bundled target's own.",
    ),
)
"""Options that name models in folders of this machine."""

loads = click.option(
    "--concurrency",
    type=ListOf(PARALLEL),
    help="Answers in flight at which the target is measured, plain and speculating. Default: 1, 2, 4, ... up to the "
    "server's limit, for a third of the time at most.",
)
"""Option that names the loads at which servers are measured; see `load_options`."""

timings = click.option(
    "--contexts",
    type=ListOf(WholeNumber(1, 10_000_000)),
    help="Context lengths at which decoding is timed, tokens; prompts are timed up to the longest. Default: 32, 256, "
    "and up to the lengths of questions and answers if those are longer.",
)
"""Option that names the contexts at which engines are timed; see `timing_options`."""

sampling = all_of(
    click.option("--temperature", type=TEMPERATURE, default=0.6, help="Sampling temperature; 0 is greedy."),
    click.option("--top-p", type=TOP_P, default=0.95, help="Nucleus sampling, in (0, 1]."),
    click.option(
        "--max-step-tokens", type=WholeNumber(1, 100_000), default=100, help="Longest step, tokens; it is cut there."
    ),
    click.option("--judge-threshold", type=PROBABILITY, default=0.5, help="Least P(yes) to accept a draft."),
    click.option("--seed", type=SEED, default=0, help="Seed of questions and sampling."),
)

output_file = all_of(
    click.option("--name", default="", show_default=False, help="Name of the profile. Default: the file's."),
    click.option("-o", "--output", type=OutputFile(), required=True, help="The profile to write."),
    click.option("--force", is_flag=True, help="Overwrite the profile if there is one."),
)
"""Options of the profile that a command writes."""


def on_gpus(what: str) -> Callable[[Any], Any]:
    """Return what gives a command the options that place the models; ``what`` runs a model there, for the help."""
    gpus = ListOf(WholeNumber(0, 1023))
    about = f"{what}: 0,1. Default: 0."
    return all_of(*(click.option(f"--{role}-gpus", type=gpus, help=f"GPUs of the {role}'s {about}") for role in ROLES))


def load_options(concurrency: str | None) -> LoadOptions:
    """Return the loads that the option `loads` names."""
    from calibrate.loads.levels import LoadOptions

    return LoadOptions() if concurrency is None else LoadOptions(levels=_integers(concurrency))


def timing_options(contexts: str | None, **more: Any) -> dict[str, Any]:
    """Return the fields of a `CalibrationPlan` that the option `timings` sets; ``more`` go to `MeasureOptions`."""
    from calibrate.measuring.engine_timings import MeasureOptions

    options = MeasureOptions(**more)
    if contexts is None:
        return {"engine": options, "reach": True}
    named = _integers(contexts)
    return {"engine": replace(options.reaching(1, max(named), 0), contexts=named)}


def _integers(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(part) for part in text.split(",")))
