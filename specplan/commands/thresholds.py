"""``specplan thresholds``: from scored and labelled decisions to a threshold with a guarantee."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from specplan.output import InputName, OutputFile, check_output, deliver, json_option, output_options, table, to_json
from specplan.ranges import CONFIDENCE, COST, PARALLEL, PROBABILITY, SEED, WINDOW, ListOf, Number
from specplan.reports.saving import report_option, save
from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.thresholds.frontier import Cascade, Frontier
    from calibrate.thresholds.labelled_decisions import LabelledDecisions
    from calibrate.thresholds.risk import Bound, TestedThreshold

__all__ = ["command"]

_RISK_OF = {
    "false-accept": "wrong-given-accepted",
    "accepted-and-wrong": "accepted-and-wrong",
    "accuracy-loss": "accuracy-loss",
}


@click.command(name="thresholds")
@click.option("-p", "--profile", type=InputName(), help="A measured profile whose steps have scores and ground truth.")
@click.option("--pairs", "pairs_path", type=click.Path(path_type=Path), help="Decisions, JSONL: score, label, answer.")
@click.option("--gate", is_flag=True, help="Choose gamma of a confidence cascade; the file holds gate, judge, answer.")
@click.option(
    "--bound",
    default="false-accept",
    show_default=True,
    help="false-accept: P(wrong | accepted); accepted-and-wrong: P(both); accuracy-loss: per answer.",
)
@click.option("--risk", type=PROBABILITY, default=0.05, show_default=True, help="Largest risk allowed.")
@click.option(
    "--confidence", type=CONFIDENCE, default=0.95, show_default=True, help="With which it holds on fresh data."
)
@click.option("--sampling", help="independent, one-per-answer or per-answer-mean. Default by what is known of answers.")
@click.option("--score", default="probability", show_default=True, help="Kind of score: probability, 0-9 or cosine.")
@click.option(
    "--grid",
    type=ListOf(Number(-1e9, 1e9), most=10_000),
    help="Comma-separated thresholds, fixed before the labels were seen. Default by kind of score.",
)
@click.option("--label", default="same-meaning", show_default=True, help="Of a profile: same-meaning or correct.")
@click.option(
    "--decisions", type=PARALLEL, help="Decisions of an answer at most, for accuracy-loss of independent ones."
)
@click.option("--method", default="lr-async", show_default=True, help="Of a profile: what to replay.")
@click.option("--k1", type=WINDOW, default=4, show_default=True, help="Target steps in flight, for the speedup.")
@click.option("--c1", type=PROBABILITY, help="Draft / target step time, for the speedup of --pairs.")
@click.option("--gate-cost", type=COST, help="Cost of a verification by the gate, with --gate.")
@click.option("--judge-cost", type=COST, help="Cost of a verification by the judge, in the same unit.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of drawing one decision per answer.")
@click.option("--plot", type=OutputFile(".png", ".svg", ".pdf"), help="PNG, SVG or PDF of risk against speedup.")
@report_option
@json_option
@output_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Choose a verifier's threshold for the most speedup within a bound that holds with stated confidence.

    Every threshold of a grid fixed beforehand is tested from the safest on (learn then test, fixed sequence, exact
    binomial or betting p-values); all certified thresholds hold at once with the confidence, on fresh data that is
    drawn as the labelled was.

    Exits 3 if no threshold is certified but more labels would do at the observed risk, 1 if they would not.
    """
    check_output(options["output"], force=options["force"])
    if (options["profile"] is None) == (options["pairs_path"] is None):
        raise ParameterError("profile", options["profile"], "must be given, or --pairs, and not both")
    _refuse_unused(ctx, options)
    found, labelled = _gate(options) if options["gate"] else _frontier(options)
    if options["report"] is not None:
        from specplan.reports.thresholds import thresholds_report

        save(options["report"], thresholds_report(found, labelled))
    text = to_json(_plain(found, labelled)) if options["as_json"] else _as_text(found, labelled, options)
    deliver(text, options["output"])
    if found.chosen is None:
        ctx.exit(1 if found.labels_needed is None else 3)


_NO_USE: Final = {
    "pairs_path": ("label", "method"),
    "profile": ("c1", "gate_cost", "judge_cost"),
    "gate": ("score", "k1", "c1", "plot"),
}
"""Options without a use beside another one."""


def _refuse_unused(context: click.Context, options: dict[str, Any]) -> None:
    """Refuse options that would change nothing: whoever gave them expects otherwise."""
    by_name = {one.name: max(one.opts, key=len) for one in context.command.params}
    for beside, names in _NO_USE.items():
        for name in names if options[beside] else ():
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                value = str(options[name])
                raise ParameterError(name, value, f"has no use with {by_name[beside]}: leave it out")
    for name in ("gate_cost", "judge_cost"):
        if options[name] is not None and not options["gate"]:
            raise ParameterError(name, options[name], "needs --gate")


def _frontier(options: dict[str, Any]) -> tuple[Frontier, LabelledDecisions]:
    from calibrate.record.library import load
    from calibrate.thresholds.frontier import frontier
    from calibrate.thresholds.labelled_decisions import (
        LABELS,
        SCORES,
        check_scores,
        decisions_of_profile,
        default_grid,
        read_decisions,
    )
    from sim.catalogue import choice
    from specplan.planning.threshold_speedup import check_plot, closed_form_speedup, draw_frontier, replayed_speedup

    check_plot(options["plot"])

    kind = choice("score", options["score"], SCORES)
    if options["profile"] is not None:
        profile = load(options["profile"])
        labelled = decisions_of_profile(profile, choice("label", options["label"], LABELS))
        speedup = replayed_speedup(profile, _configuration(options))
    else:
        labelled = read_decisions(options["pairs_path"])
        if options["c1"] is None:
            raise ParameterError("c1", None, "must be given with --pairs: draft / target step time")
        speedup = closed_form_speedup(labelled, c1=options["c1"], k1=options["k1"])
    grid = _grid(options["grid"])
    if grid is None:
        check_scores(labelled, kind)
    found = frontier(
        labelled.decisions, default_grid(kind) if grid is None else grid, _bound(options, labelled), speedup
    )
    if options["plot"] is not None:
        from calibrate.record.files import replacing

        with replacing(options["plot"]) as temporary:
            draw_frontier(found, temporary, title=f"{labelled.source}: {options['method']}, k1 = {options['k1']}")
    return found, labelled


def _gate(options: dict[str, Any]) -> tuple[Cascade, LabelledDecisions]:
    from calibrate.thresholds.frontier import cascade
    from calibrate.thresholds.labelled_decisions import read_decisions

    if options["pairs_path"] is None:
        raise ParameterError("pairs", None, "must be given with --gate: a file with gate, judge and answer")
    if options["plot"] is not None:
        raise ParameterError("plot", str(options["plot"]), "is for thresholds; a gate has a table only")
    for name in ("gate_cost", "judge_cost"):
        if options[name] is None:
            raise ParameterError(name, None, "must be given with --gate: cost of one verification")
    labelled = read_decisions(options["pairs_path"], gate=True)
    found = cascade(
        labelled.decisions,
        _bound(options, labelled),
        gate_cost=options["gate_cost"],
        judge_cost=options["judge_cost"],
        grid=_grid(options["grid"]),
    )
    return found, labelled


def _configuration(options: dict[str, Any]) -> Any:
    from sim.catalogue import choice
    from sim.configuration import Configuration

    if options["k1"] < 2:
        raise ParameterError("k1", options["k1"], "must be at least 2: with one step in flight nothing is accepted")
    return Configuration(method=choice("method", options["method"], ("lr-async", "lr-sync")), k1=options["k1"])


def _bound(options: dict[str, Any], labelled: LabelledDecisions) -> Bound:
    from calibrate.thresholds.risk import SAMPLINGS, Bound
    from sim.catalogue import choice

    risk: Any = _RISK_OF[choice("bound", options["bound"], tuple(_RISK_OF))]
    default = "per-answer-mean" if labelled.clustered else "independent"
    sampling = choice("sampling", options["sampling"] or default, SAMPLINGS)
    if sampling != "independent" and not labelled.clustered:
        raise ParameterError("sampling", sampling, "needs decisions that name their answer")
    decisions = options["decisions"]
    if decisions is None and risk == "accuracy-loss" and sampling == "independent":
        if not labelled.clustered:
            raise ParameterError("decisions", None, "must be given: decisions of an answer at most")
        decisions = labelled.decisions.largest_answer
    return Bound(
        level=options["risk"],
        risk=risk,
        confidence=options["confidence"],
        sampling=sampling,
        decisions_per_answer=decisions or 1,
        seed=options["seed"],
    )


def _grid(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError("grid", text, "must be comma-separated numbers, e.g. 0.5,0.8,0.9") from None


def _plain(found: Frontier | Cascade, labelled: LabelledDecisions) -> dict[str, Any]:
    """The result as plain data."""
    about = {
        "schema_version": 1,
        "source": labelled.source,
        "n_decisions": labelled.decisions.n,
        "n_answers": labelled.decisions.n_answers if labelled.clustered else None,
        "n_unlabelled": labelled.n_unlabelled,
        "n_unscored": labelled.n_unscored,
        "clustered": labelled.clustered,
    }
    schema = "specplan.thresholds" if hasattr(found, "points") else "specplan.gate"
    return {"schema": schema, **about, **dataclasses.asdict(found)}


def _as_text(found: Frontier | Cascade, labelled: LabelledDecisions, options: dict[str, Any]) -> str:
    bound = found.bound
    known = f"{labelled.decisions.n} labelled decisions"
    if labelled.clustered:
        known += f" of {labelled.decisions.n_answers} answers"
    left = f"; left out: {labelled.n_unscored} without a score, {labelled.n_unlabelled} without a label"
    rows: list[tuple[TestedThreshold, str, str]]
    if hasattr(found, "points"):
        value = "speedup"
        rows = [(p.row, f"{p.speedup.value:.2f}", f"{p.speedup.low:.2f} – {p.speedup.high:.2f}") for p in found.points]
        headings = ["threshold", "accepted"]
    else:
        value = "cost"
        rows = [(row, f"{cost:.4g}", "") for row, cost in zip(found.rows, found.costs, strict=True)]
        headings = ["gamma", "kept"]
    headings += ["failures", "risk", "one-sided limits", "p-value", value, "95 %", f"{bound.unit} needed", "status"]
    cells = [_cells(row, first, second) for row, first, second in _shown(rows, found.chosen)]
    if found.chosen is not None:
        kept = _shown(rows, found.chosen)
        cells[kept.index(rows[found.chosen])][-1] = "CHOSEN"
    return "\n".join(
        [
            f"{labelled.source}: {known}{left if labelled.n_unscored or labelled.n_unlabelled else ''}",
            "",
            table(headings, cells),
            "",
            found.verdict,
            found.advice,
            "",
            *_notes(found, options),
        ]
    )


def _shown(rows: list[tuple[TestedThreshold, str, str]], chosen: int | None) -> list[tuple[TestedThreshold, str, str]]:
    """Neighbouring thresholds that decide alike are one line: the lowest of them, or the one chosen."""
    kept: list[tuple[TestedThreshold, str, str]] = []
    for i, item in enumerate(rows):
        row = item[0]
        alike = kept and (kept[-1][0].accepted, kept[-1][0].status) == (row.accepted, row.status)
        if alike and (chosen is None or kept[-1] is not rows[chosen]):
            kept[-1] = item
        elif not alike or i == chosen:
            kept.append(item)
    return kept


def _cells(row: TestedThreshold, first: str, second: str) -> list[str]:
    return [
        f"{row.threshold:.5g}",
        f"{100 * row.accepted:.1f} %",
        f"{row.failures} of {row.trials}",
        f"{row.risk:.4f}" if row.trials else "–",
        f"{row.low:.4f} – {row.high:.4f}",
        f"{row.p_value:.2g}",
        first,
        second,
        "–" if row.units_needed is None else f"{row.units_needed:,}",
        row.status,
    ]


_SAMPLING_NOTES = {
    "independent": "decisions taken as independent of each other (right if each answer gave one)",
    "one-per-answer": "answers independent, one decision of each drawn with the seed; answers weigh the same",
    "per-answer-mean": "answers independent, mean loss of each answer, betting p-values; answers weigh the same",
}


def _notes(found: Frontier | Cascade, options: dict[str, Any]) -> list[str]:
    bound = found.bound
    notes = [
        f"- sampling: {_SAMPLING_NOTES[bound.sampling]}",
        "- the guarantee is for fresh decisions drawn as these were, by the same models, prompts and temperature",
    ]
    if bound.risk == "wrong-given-accepted":
        notes.append(
            "- two walks, each with half of the failure probability, start where enough is accepted to be certified; "
            "exact if P(wrong | score) does not rise with the score"
        )
    if bound.risk == "accuracy-loss":
        way = (
            f"union bound 1 - (1 - d)^n over n = {bound.decisions_per_answer} decisions of an answer"
            if bound.union
            else "an answer with any false accept counts as lost"
        )
        notes.append(f"- accuracy loss: {way}")
    if options["gate"]:
        return notes
    if options["profile"] is not None:
        notes.append(
            f"- speedup: recorded answers replayed with changed verdicts ({options['method']}, k1 = {options['k1']}); "
            "after a changed verdict a real run would go on from another step"
        )
    else:
        notes.append(f"- speedup: closed form f_async(share accepted, c1 = {options['c1']:g}, k1 = {options['k1']})")
    return notes
