"""An explanation in the 80 columns of a terminal: why it is slow, which k, and what to set."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from sim.estimate import Estimate
from specplan.live.explaining.causes import Cause
from specplan.live.explaining.depth import Depth
from specplan.live.explaining.explanation import Explanation
from specplan.live.explaining.text import next_step
from specplan.output import SCREEN, table

__all__ = ["first_screen", "summary"]


def summary(found: Explanation) -> str:
    """Return two sentences: what makes it slow, and which k would be best, with how sure."""
    return f"{_why(found)} {_which_k(found)}"


def first_screen(found: Explanation) -> str:
    """Return what fits a terminal of 80 columns; `specplan.live.explaining.text` has the rest."""
    window = found.window
    about = (
        f"{window.engine}, {f'k = {found.k}' if found.k else 'k not told'}, {window.rounds:.0f} rounds of "
        f"{window.answers:.0f} answers, {window.batch:.1f} sequences in a pass"
    )
    blocks = [_filled(summary(found)), _filled(f"{about}:" if found.depth is not None else f"{about}.")]
    if found.depth is not None:
        blocks.append(_paces(found.depth))
    if found.causes:
        blocks.append("\n".join(line for cause in found.causes for line in _reason(cause)))
    blocks.append("\n".join(_filled(line) for line in _below(found)))
    return "\n\n".join(blocks)


def _why(found: Explanation) -> str:
    if not found.causes:
        return "Nothing stands out: no cure of what counters show would save 3 % of an answer's time."
    cause = found.causes[0]
    saved = f"a cure would save {_share(cause.saves)} of an answer's time"
    return (
        f"Why it is slow: {cause.name}; {saved}." if cause.sure else f"It may be {cause.name}: {saved}; measure first."
    )


def _which_k(found: Explanation) -> str:
    depth = found.depth
    if depth is None:
        return "Which k would be best cannot be told from these readings."
    best, gain = depth.best, depth.gain
    told = (
        f"The k of now, {depth.now}, is the best at this load [{best.low:.0f}, {best.high:.0f}]."
        if round(best.value) == depth.now
        else f"Best k at this load: {best.value:.0f} [{best.low:.0f}, {best.high:.0f}], {gain.value:.2f} times the "
        f"pace of now [{gain.low:.2f}, {gain.high:.2f}]."
    )
    return f"{told} {next_step(found)}".rstrip()


def _paces(depth: Depth) -> str:
    """The best k and its neighbours, the one that runs, and plain decoding."""
    best = round(depth.best.value)
    near = {0, depth.now, best - 1, best, best + 1, round(depth.best.low), round(depth.best.high)}
    marks = {depth.now: "now", best: "best" if best != depth.now else "now, best"}
    rows = []
    for k in sorted(k for k in near if 0 <= k < len(depth.gains)):
        gain = depth.gains[k]
        rows.append(
            [str(k), f"{gain.value:.2f}", f"{gain.low:.2f} – {gain.high:.2f}", marks.get(k, "" if k else "plain")]
        )
    return table(["k", "pace / now", "95 % interval", ""], rows)


def _reason(cause: Cause) -> Iterator[str]:
    """A cause with its reason, and what to set."""
    doubt = "" if cause.sure else "it may be, measure first: "
    yield _filled(f"- {doubt}{cause.name}, {_share(cause.saves)} of an answer's time: {cause.why}.")
    for flag in cause.flags:
        yield textwrap.fill(
            flag,
            SCREEN,
            initial_indent="    ",
            subsequent_indent="      ",
            break_on_hyphens=False,
            break_long_words=False,
        )


def _below(found: Explanation) -> Iterator[str]:
    if found.missing:
        yield f"To know more, measure {found.missing[0]}."
    yield "What a round and an answer take, acceptance by position, all k, what it rests on: -v."


def _share(saves: Estimate) -> str:
    return f"{100 * saves.value:.0f} % [{100 * max(saves.low, 0.0):.0f} %, {100 * saves.high:.0f} %]"


def _filled(text: str) -> str:
    return textwrap.fill(text, SCREEN, subsequent_indent="  " if text.startswith("- ") else "", break_on_hyphens=False)
