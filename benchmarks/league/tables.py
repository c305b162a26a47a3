"""The league as text for a terminal, and as a page of Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.fit_coverage import Coverage
from benchmarks.league.predictors import LEFT_OUT, PREDICTORS, TABLES
from benchmarks.league.standings import Entry, Gains, Standing, gains, standings, unfitted
from specplan.check.scoreboard.board import Board
from specplan.output import table

__all__ = ["as_markdown", "as_text"]

Lines = Sequence[Sequence[str]]

_SCORES: Final = ("rows of", "predictor", "n", "error", "median", "p90", "bias", "inside", "specplan there")
_ADVICE: Final = ("predictor", "n", "wrong signs", "losses", "promised gains", "choices", "regret", "p95", "max")
_UNFITTED: Final = ("quantity", "family", "n", LEFT_OUT, "its bias", TABLES, "their bias")
_COVERED: Final = ("quantity", "left out", "n", "inside", "median half-width", "error")
_LEGEND: Final = (
    "error: mean of |predicted / measured - 1|, then its median and 90th percentile; bias: mean of predicted / "
    "measured - 1; inside: share of rows in the stated 95 % interval; specplan there: its error on the same rows.",
    "wrong signs: gains predicted as losses, and the reverse; losses: measured speedups of at most 0.95; promised "
    "gains: those of them for which more than 1.02 was predicted; regret: what the option that a predictor chooses "
    "loses against the best measured one, mean, 95th percentile and largest.",
)
_PAGE: Final = """# League

Public measurements, each predicted by {predictors} predictors; `python -m benchmarks.league FOLDER --markdown FILE`
writes this page, in one to two minutes of one core. The measurements are not part of the project:
[the scoreboard](../scoreboard.md) names their sources and licences. Rows that its rules do not trust, whatever is
predicted, count nowhere.

specplan's constants are fitted to most of these rows, so that its errors here are those of a fit; its errors on
models, versions and targets that were left out of the fit are on the scoreboard. *{left_out}* and *{tables}* share its
constants of engines. The authors of aiconfigurator-core calibrated its time to first token on the corpus that the rows
under load are a part of; its operators and everything else have not seen these rows.

`--operators auto` takes measured operators on GPUs that are not fitted, by the last of the tables: on the same rows
they are nearer than scaled constants, or hardly farther, except in times to first token of mixtures of experts, and
their intervals are narrower.
"""


def as_text(entries: Sequence[Entry], boards: Sequence[Board], covered: Sequence[Coverage] = ()) -> str:
    """Return all tables in plain text, what was assumed, and the rows that were not predicted."""
    parts = [f"{title}:\n\n{table(heads, lines)}" for title, heads, lines in _tables(entries, covered)]
    refused = "\n".join(["not predicted:", *_refused(boards)])
    return "\n\n".join([*parts, *_LEGEND, *_losses(entries), *_assumed(boards), refused])


def as_markdown(entries: Sequence[Entry], boards: Sequence[Board], covered: Sequence[Coverage] = ()) -> str:
    """Return the page for the documentation."""
    parts = [_PAGE.format(predictors=len(PREDICTORS), left_out=LEFT_OUT, tables=TABLES), "## How each was run\n"]
    parts.append("\n".join(f"- *{predictor.name}*: {predictor.how}" for predictor in PREDICTORS) + "\n")
    for title, heads, lines in _tables(entries, covered):
        parts.append(f"## {title[0].upper()}{title[1:]}\n\n{_pipes(heads, lines)}\n")
    parts += [f"{one}\n" for one in (*_LEGEND, *_losses(entries), *_assumed(boards))]
    parts.append("## Rows that are not predicted\n\n" + "\n".join(f"- {one.strip()}" for one in _refused(boards)))
    return "\n".join(parts) + "\n"


def _tables(entries: Sequence[Entry], covered: Sequence[Coverage]) -> Iterator[tuple[str, Sequence[str], Lines]]:
    advice = gains(entries)
    for quantity, rows in standings(entries).items():
        yield quantity, _SCORES, [_standing(one) for one in rows]
        if quantity in advice:
            yield f"{quantity} as advice", _ADVICE, [line for one in advice[quantity] for line in _gain(one)]
    both = [
        [quantity, family, str(left_out.n), f"{left_out.mean:.1%}", f"{left_out.signed:+.1%}",
         f"{tables.mean:.1%}", f"{tables.signed:+.1%}"]
        for quantity, family, left_out, tables in unfitted(entries)
    ]  # fmt: skip
    if covered:
        yield "95 % intervals on rows left out of the fits", _COVERED, [_cover(one) for one in covered]
    if both:
        yield "which operators are nearer on a GPU that is not fitted", _UNFITTED, both


def _standing(one: Standing) -> list[str]:
    result = one.score
    return [
        one.group, one.predictor, str(result.n), f"{result.mean:.1%}", f"{result.median:.1%}", f"{result.p90:.1%}",
        f"{result.signed:+.1%}", f"{result.coverage:.0%}" if one.intervals else "-", f"{one.own.mean:.1%}",
    ]  # fmt: skip


def _cover(one: Coverage) -> list[str]:
    return [one.quantity, one.left_out, str(one.n), f"{one.inside:.0%}", f"{one.half_width:.2f}", f"{one.error:.1%}"]


def _gain(one: Gains) -> Iterator[list[str]]:
    head = [one.predictor, str(one.n), str(one.wrong), str(one.losses), str(one.promised)]
    if not one.regret:
        yield [*head, "-", "-", "-", "-"]
    for goal, (n, mean, high, largest) in one.regret.items():
        yield [*head, f"{n} of {goal.rstrip(',')}", f"{mean:.1%}", f"{high:.1%}", f"{largest:.1%}"]
        head = [""] * len(head)


def _losses(entries: Sequence[Entry]) -> Iterator[str]:
    """Whether there is a measured loss that a promised gain could be told by."""
    advice = [one for of in gains(entries).values() for one in of]
    if advice and not any(one.losses for one in advice):
        yield (
            "No measured speedup here is 0.95 or less, so that these rows cannot tell promised gains; "
            "`tests/theory/hardware/test_rounds.py` holds that no gain is predicted where arithmetic is saturated."
        )


def _assumed(boards: Sequence[Board]) -> list[str]:
    """What was assumed in reading the rows."""
    return [f"assumed: {note}" for note in dict.fromkeys(note for board in boards for note in board.notes)]


def _refused(boards: Sequence[Board]) -> list[str]:
    """Lines about rows without prediction, by reason; a reason that stands once names its row."""
    refused = [one for board in boards for one in board.refused]
    reasons = Counter(one.reason for one in refused)
    named = {one.reason: one.where for one in refused}
    return [
        f"{n:>5}  {reason}" if n > 1 or reason.startswith(named[reason]) else f"{n:>5}  {named[reason]}: {reason}"
        for reason, n in reasons.most_common()
    ] or ["    none"]


def _pipes(heads: Sequence[str], lines: Lines) -> str:
    rule = ["---", "---", *("---:" for _ in heads[2:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rule, *lines))
