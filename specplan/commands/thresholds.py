"""``specplan thresholds``: from scored and labelled decisions to a threshold with a guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from specplan.output import refuse_unused
from specplan.ranges import CONFIDENCE, COST, PARALLEL, PROBABILITY, WINDOW, InputName, ListOf, Number
from specplan.show.saving import result_options
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.api.thresholds import Thresholds

__all__ = ["command"]

_NO_USE: Final = {
    "pairs": ("label", "method"),
    "profile": ("c1", "gate_cost", "judge_cost"),
    "gate": ("score", "k1", "c1"),
}
"""Option to the options that have no use with it."""


@click.command(name="thresholds")
@click.option("-p", "--profile", type=InputName(), help="A measured profile whose steps have scores and ground truth.")
@click.option("--pairs", type=click.Path(path_type=Path), help="Decisions, JSONL: score, label, answer.")
@click.option(
    "--gate", is_flag=True, help="Choose gamma of a confidence cascade; --pairs then has gate, judge, answer."
)
@click.option(
    "--bound",
    default="false-accept",
    help="false-accept: P(wrong | accepted); accepted-and-wrong: P(both); accuracy-loss: per answer.",
)
@click.option("--risk", type=PROBABILITY, default=0.05, help="Largest risk allowed.")
@click.option(
    "--confidence", type=CONFIDENCE, default=0.95, help="Confidence with which the bound holds on fresh data."
)
@click.option("--sampling", help="independent, or per-answer-mean: an answer's decisions depend on each other. "
    "Default per-answer-mean where decisions name their answer.")  # fmt: skip
@click.option("--score", default="probability", help="Kind of score: probability, 0-9 or cosine.")
@click.option(
    "--grid",
    type=ListOf(Number(-1e9, 1e9), most=10_000),
    help="Comma-separated thresholds, fixed before the labels were seen. Default by kind of score.",
)
@click.option("--label", default="same-meaning", help="What a label means, with --profile: same-meaning or correct.")
@click.option(
    "--decisions",
    type=PARALLEL,
    help="Most decisions of an answer, for --bound accuracy-loss with independent decisions.",
)
@click.option("--method", default="lr-async", help="Method to replay, with --profile.")
@click.option("--k1", type=WINDOW, default=4, help="Target steps in flight, for the speedup.")
@click.option("--c1", type=PROBABILITY, help="Draft / target step time, for the speedup of --pairs.")
@click.option("--gate-cost", type=COST, help="Cost of a verification by the gate, with --gate.")
@click.option("--judge-cost", type=COST, help="Cost of a verification by the judge, in the same unit.")
@result_options(report=True)
def command(profile: str | None, grid: str | None, **options: Any) -> Thresholds:
    """Choose a verifier's threshold for the most speedup within a bound that holds with stated confidence.

    Every threshold of a grid fixed beforehand is tested from the safest on (learn then test, fixed sequence, exact
    binomial or betting p-values); all certified thresholds hold together with this confidence, on fresh data drawn
    in the same way as the labelled data.

    Exits 3 if no threshold is certified but more labels would suffice at the observed risk, 1 if they would not.
    """
    if (profile is None) == (options["pairs"] is None):
        raise ParameterError("profile", profile, "must be given, or --pairs, and not both")
    for given in filter(click.get_current_context().params.get, _NO_USE):
        refuse_unused(_NO_USE[given], f"with --{given}")
    from specplan.api.thresholds import thresholds

    return thresholds(profile, grid=None if grid is None else [float(part) for part in grid.split(",")], **options)
