"""``specplan plan``: which method, which knobs, what speedup, and how sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specplan.output import InputName, check_output, deliver, json_option, output_options, to_json, verbose_option
from specplan.planning.loads.asking import deployment_options
from specplan.ranges import ANSWERS, PROBABILITY, WholeNumber
from specplan.show.saving import report_option, save

if TYPE_CHECKING:
    from specplan.show.results.plans import GpusPlan, LoadsPlan

__all__ = ["command"]


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
    "--gpu",
    help="With --profile: only timings measured on this GPU are taken. With --target: the GPU, or several to compare "
    "by cost: H100,H200,B200. Default H100.",
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
@click.option(
    "--methods",
    default="",
    help="Comma-separated names of 'specplan methods', or mtp, eagle3, ngram, ... Default all but ablations.",
)
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
@verbose_option
@report_option
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
    verbose: bool,
    report: Path | None,
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
    names = [name.strip() for name in methods.split(",")] if methods.strip() else []
    if asked["target"] is not None:
        from specplan.show.results.plans import LoadsPlan

        planned = _from_names({**asked, "gpu": gpu}, names, max_accuracy_loss)
        deliver(to_json(planned.plain()) if as_json else planned.text(verbose=verbose), output)
        if report is not None:
            from specplan.show.load_plans import gpus_report, load_plan_report

            save(report, load_plan_report(planned) if isinstance(planned, LoadsPlan) else gpus_report(planned))
        if isinstance(planned, LoadsPlan) and planned.asked.plan.interrupted:
            raise KeyboardInterrupt
        return
    assert profile is not None
    picture: Path | None = asked["picture"]
    if picture is not None and asked["concurrency"] is None:
        raise click.UsageError("--picture draws gains by load: say loads, such as --concurrency 1,2,4,8")
    from specplan.api.planning import plan
    from specplan.planning.crowds_text import counts_of

    found = plan(
        profile,
        concurrency=counts_of(asked["concurrency"]),
        methods=names,
        max_parallel=max_parallel,
        k1_max=k1_max,
        k2_max=k2_max,
        rules=rules,
        n_answers=answers,
        max_accuracy_loss=max_accuracy_loss,
        latency=latency,
        gpu=gpu,
        latency_folder=folder,
    )
    deliver(to_json(found.plain()) if as_json else found.text(verbose=verbose), output)
    if picture is not None:
        from calibrate.record.files import replacing
        from specplan.planning.loads.shown.picture import draw_crowds

        with replacing(picture) as temporary:
            draw_crowds(found.at_once, temporary)
    if report is not None:
        from specplan.show.plans import plan_report

        save(report, plan_report(found))


def _from_names(asked: Mapping[str, Any], names: Sequence[str], max_accuracy_loss: float) -> LoadsPlan | GpusPlan:
    """The plan on one type of GPU, or on each of several."""
    from specplan.planning.loads.asked import deployment_plan
    from specplan.planning.loads.gpu_types import gpu_plans, is_several
    from specplan.show.results.plans import GpusPlan, LoadsPlan

    if is_several(asked["gpu"]):
        return GpusPlan(found=gpu_plans(asked, names, max_accuracy_loss))
    return LoadsPlan(asked=deployment_plan(asked, names, max_accuracy_loss))


def _check_kind(profile: str | None, asked: Mapping[str, Any]) -> None:
    """Refuse both kinds of plans at once, and options of the other kind."""
    if profile is None and asked["target"] is None:
        raise click.UsageError("give --profile (models that were measured) or --target (models by name)")
    if profile is not None and asked["target"] is not None:
        raise click.UsageError("give --profile or --target, not both")
    if profile is None:
        _refuse(("max_parallel", "k1_max", "k2_max", "rules", "answers", "latency", "folder"))
    said = [name.replace("_", "-") for name, value in asked.items() if value is not None]
    others = [name for name in said if name not in {"concurrency", "picture"}]
    if profile is not None and others:
        raise click.UsageError(
            f"--{others[0]} needs --target: with --profile, only --concurrency can be said of a load"
        )


def _refuse(names: Sequence[str]) -> None:
    """Refuse options that only a profile has a use for."""
    context = click.get_current_context()
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE
        if option.name in names and given:
            instead = (
                "--k fixes the tokens drafted per round" if option.name == "k2_max" else "plans from names find it out"
            )
            raise click.UsageError(f"{option.opts[-1]} needs --profile: {instead}")
