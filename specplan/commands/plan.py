"""``specplan plan``: which method, which knobs, what speedup, and how sure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from specplan.output import is_typed, refuse_unused
from specplan.planning.loads.click_options import DEPLOYMENT, LOADS, deployment_options
from specplan.ranges import ANSWERS, PROBABILITY, InputName, WholeNumber
from specplan.show.saving import result_options
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.show.loads.results import GpusPlan, LoadsPlan
    from specplan.show.loads.traced import TracesPlan, TreePlan
    from specplan.show.result import Result

__all__ = ["command"]

_OF_BOTH: Final = ("concurrency", "rate", "burstiness", "slo-ttft", "slo-tpot")
"""Options about loads that plans from names and from profiles take."""
_OF_FILES: Final = (
    "acceptance",
    "latency",
    "concurrency",
    "k",
    "methods",
    "n_answers",
    "verbose",
    "as_json",
    "output",
    "force",
)
"""Parameters that plans from recorded acceptance take."""
_OF_PROFILES: Final = ("k2_max", "n_answers", "max_accuracy_loss", "latency", "latency_folder", "copies")
"""Parameters that only plans from profiles take."""
_OF_OUTPUT: Final = ("verbose", "report", "as_json", "output", "force", "help")


class _Grouped(click.Command):
    """A command whose help has the options of each kind of plan together."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by kind."""
        of_names = (name for name in (*DEPLOYMENT, *LOADS) if name.replace("_", "-") not in _OF_BOTH)
        title_of = {
            **dict.fromkeys(_OF_OUTPUT, "Output"),
            **dict.fromkeys(of_names, "With --target"),
            **dict.fromkeys(("profile", *_OF_PROFILES), "With --profile"),
        }
        kinds = {
            title: list[tuple[str, str]]() for title in ("With --profile", "With --target", "With either", "Output")
        }
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                kinds[title_of.get(param.name or "", "With either")].append(record)
        for title, rows in kinds.items():
            with formatter.section(title):
                formatter.write_dl(rows)


@click.command(cls=_Grouped)
@click.option("-p", "--profile", type=InputName(), help="Name of a bundled profile, or a profile file.")
@click.option(
    "--latency",
    type=InputName(),
    default="auto",
    help="Name or file of a profile whose timings replace those of the profile; 'auto' takes an installed latency "
    "profile of the same models if there is exactly one, 'none' takes none. Without --profile and --target: fitted "
    "times of passes (JSON), for --acceptance.",
)
@click.option(
    "--gpu",
    help="With --profile: only timings measured on this GPU are taken. With --target: the GPU, or several to compare "
    "by cost: H100,H200,B200. Default H100.",
)
@click.option(
    "--latency-folder",
    type=click.Path(path_type=Path),
    help="Folder of your own latency profiles. Default: the one that the variable SPECPLAN_PROFILES names.",
)
@click.option(
    "-M",
    "--max-parallel",
    type=WholeNumber(1, 4096),
    default=32,
    help="Budget M: target sequences of an answer in flight times tokens per pass, at most. With --target: no bound.",
)
@click.option(
    "--methods",
    default="",
    show_default=False,
    help="Comma-separated names of 'specplan methods', or mtp, eagle3, ngram, ... Default all but ablations.",
)
@click.option("--k1-max", type=WholeNumber(1, 64), default=8, help="Largest k1 (target steps in flight) to try.")
@click.option(
    "--k2-max",
    type=WholeNumber(1, 1024),
    help="Largest k2 (tokens per target pass) to try. Default what the profile knows.",
)
@click.option(
    "--rules",
    help="Schedule of LR: paper, released-code or eager. Default paper for measured profiles, else released-code.",
)
@click.option(
    "-n",
    "--answers",
    "n_answers",
    type=ANSWERS,
    help="Answers to simulate per configuration. Default all recorded ones, or 40.",
)
@click.option(
    "--max-accuracy-loss",
    type=PROBABILITY,
    default=0.05,
    help="Share of right answers that a method may cost; others are ranked last.",
)
@click.option(
    "--copies",
    type=WholeNumber(1, 1024),
    default=1,
    help="Copies of the profile's engines, over which the answers of --concurrency or --rate are distributed.",
)
@deployment_options
@result_options(report=True)
def command(profile: str | None, methods: str, **options: Any) -> Result | Iterator[Result]:
    """Rank methods and their knobs, for the models of a profile or for models by name.

    With --profile: one row per method, best first: the knobs that the budget allows and that are predicted to be
    fastest, the predicted speedup over plain decoding with its 95 % interval, what it keeps in flight and wastes.

    With --target: the best configuration at each load, its gain over plain decoding on the same number of GPUs, the
    load at which to switch it off, and the commands to run it.

    With --acceptance TRACES --latency FILE instead: the speedup by tokens drafted and requests in flight, for requests
    whose acceptance was recorded (JSONL of SpecDecode-Bench). With acceptance by rank: the fastest draft tree.
    """
    names = [name.strip() for name in methods.split(",")] if methods.strip() else []
    if profile is None and options["target"] is None and options["acceptance"] is not None:
        return _from_files(options, names)
    _check_kind(profile, options)
    if profile is None:
        return _from_names(options, names)
    from specplan.api.planning import plan

    return plan(profile, methods=names, **{name: value for name, value in options.items() if value is not None})


def _from_names(options: Mapping[str, Any], names: Sequence[str]) -> LoadsPlan | GpusPlan | Iterator[LoadsPlan]:
    """The plan on one type of GPU, or on each of several; with a budget one plan after the other, each more precise."""
    from specplan.planning.loads.from_options import deployment_plan, deployment_plans
    from specplan.planning.loads.gpu_types import gpu_plans, is_several
    from specplan.show.loads.results import GpusPlan, LoadsPlan

    options = {**options, "max_parallel": options["max_parallel"] if is_typed("max_parallel") else None}
    if is_several(options["gpu"]):
        return GpusPlan(plans=gpu_plans(options, names))
    if options["budget"] is None:
        return LoadsPlan(plan=deployment_plan(options, names))
    return (LoadsPlan(plan=one) for one in deployment_plans(options, names))


def _from_files(options: Mapping[str, Any], names: Sequence[str]) -> TracesPlan | TreePlan:
    """The plan from recorded acceptance and fitted times of passes, see `specplan.readers.traced`."""
    from specplan.planning.traced import BATCHES, DEPTHS, ranked_tree, traced_plan
    from specplan.readers.traced import TracedRequest, read_latency, read_traced
    from specplan.show.loads.traced import TracesPlan, TreePlan

    if not is_typed("latency") or len(options["acceptance"]) != 1:
        raise click.UsageError("give --target, or one --acceptance FILE with --latency FILE (fitted times of passes)")
    params = [one.name or "" for one in click.get_current_context().command.params]
    refuse_unused([name for name in params if name not in _OF_FILES], "without --target or --profile")
    if isinstance(options["k"], str):
        raise click.UsageError("--k must be one number with --latency: tables by batch are for --target")
    k, n_answers, concurrency = options["k"], options["n_answers"], options["concurrency"]
    times, known = read_latency(options["latency"]), read_traced(options["acceptance"][0])
    requests = [one for one in known if isinstance(one, TracedRequest)]
    if requests:
        loads = [int(n) for n in concurrency.split(",")] if concurrency else BATCHES
        depths = DEPTHS if k is None else (k,)
        plan = traced_plan(requests, times, drafters=names, batches=loads, depths=depths, sample=n_answers)
        return TracesPlan(plan=plan)
    for name, value in (("concurrency", concurrency), ("k", k), ("answers", n_answers)):
        if value:
            rule = "has no use with acceptance by rank, which is for one request: leave it out"
            raise ParameterError(name, value, rule)
    return TreePlan(fastest=ranked_tree([one for one in known if isinstance(one, float)], times, names))


def _check_kind(profile: str | None, options: Mapping[str, Any]) -> None:
    """Refuse both kinds of plans at once, and options of the other kind."""
    if profile is None and options["target"] is None:
        raise click.UsageError("give --profile (models that were measured) or --target (models by name)")
    if profile is not None and options["target"] is not None:
        raise click.UsageError("give --profile or --target, not both")
    if profile is None:
        instead = {"k2_max": "--k fixes the tokens drafted per round", "copies": "--gpus says how many GPUs there are"}
        for name in filter(is_typed, _OF_PROFILES):
            option = next(one for one in click.get_current_context().command.params if one.name == name)
            why = instead.get(name, "plans from names need no such option")
            raise click.UsageError(f"{option.opts[-1]} needs --profile: {why}")
    said = [name.replace("_", "-") for name in (*DEPLOYMENT, *LOADS) if options[name] is not None]
    others = [name for name in said if name not in _OF_BOTH]
    if profile is not None and others:
        raise click.UsageError(f"--{others[0]} needs --target; with --profile go --{', --'.join(_OF_BOTH)}")
