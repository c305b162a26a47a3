"""What `specplan plan --profile --concurrency` adds: the methods of the plan for many answers at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from specplan.output import progress, table
from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.record.profile import Profile
    from specplan.planning.at_once import AtOnce
    from specplan.planning.planner import Plan

__all__ = ["beyond_timings", "counts_of", "crowds", "crowds_as_json", "crowds_as_text"]

_MOST_AT_ONCE: Final = 256


def counts_of(concurrency: str | None) -> list[int]:
    """Return the numbers of answers at once in a text with commas between them; none if nothing is asked for.

    Raises
    ------
    ParameterError : no integers.
    """
    from specplan.planning.loads.asked import numbers

    return [] if concurrency is None else numbers("concurrency", concurrency, int)


def crowds(profile: Profile, found: Plan, counts: Sequence[int]) -> list[AtOnce]:
    """Simulate the methods of a plan for answers at once.

    Parameters
    ----------
    profile : of the plan.
    found : the plan for one answer at a time.
    counts : numbers of answers at once, in [1, 256]; none: nothing is simulated.

    Raises
    ------
    ParameterError : a number outside its range.
    """
    if not counts:
        return []
    from calibrate.replay.trials import Trials
    from specplan.planning.at_once import Crowds

    counts = sorted(set(counts))
    if counts[0] < 1 or counts[-1] > _MOST_AT_ONCE:
        asked = ",".join(map(str, counts))
        raise ParameterError("concurrency", asked, f"must be integers in [1, {_MOST_AT_ONCE}]")
    simulated = Crowds(Trials(profile), [row.prediction for row in found.rows])
    rows: list[AtOnce] = []
    with progress("simulating answers at once", len(counts)) as step_done:
        for answers in counts:
            rows += simulated.at_once(answers)
            step_done()
    return rows


def crowds_as_text(rows: list[AtOnce]) -> list[str]:
    """Return a table of gains with a column for each number of answers at once; nothing if none was asked for."""
    if not rows:
        return []
    from specplan.planning.planner import kind, label

    counts = list(dict.fromkeys(row.answers for row in rows))
    cells: dict[str, dict[int, str]] = {}
    names = {}
    for row in rows:
        names[kind(row.configuration)] = label(row.configuration)
        cells.setdefault(kind(row.configuration), {})[row.answers] = _cell(row)
    body = [[names[one], *(by[n] for n in counts)] for one, by in cells.items()]
    lines = ["Tokens per second / those of plain decoding, by answers at once on the same engines (k1, k2):", ""]
    lines.append(table(["method", *map(str, counts)], body))
    lines += beyond_timings(rows)
    off = next((n for n in counts if all(row.gain.value <= 1.0 for row in rows if row.answers == n)), None)
    if off is not None:
        lines += ["", f"Switch speculation off from {off} answers at once."]
    return ["\n".join(lines)]


def beyond_timings(rows: Sequence[AtOnce]) -> list[str]:
    """Return sentences that say up to how many answers at once methods were timed that are planned for more."""
    from specplan.planning.planner import label

    beyond: dict[int, list[str]] = {}
    for row in rows:
        if row.timed is not None and row.answers > row.timed:
            names = beyond.setdefault(row.timed, [])
            names += [name for name in [label(row.configuration)] if name not in names]
    return [
        f"{', '.join(names)}: timed up to {timed} at once; beyond, passes grow by the slope of the largest loads."
        for timed, names in sorted(beyond.items())
    ]


def crowds_as_json(rows: list[AtOnce]) -> list[dict[str, Any]]:
    """Return the rows as plain data."""
    return [row.plain() for row in rows]


def _cell(row: AtOnce) -> str:
    c, gain = row.configuration, row.gain
    depths = ", ".join(str(depth) for depth in (c.k1, c.k2) if depth > 1)
    return f"{gain.value:.2f} [{gain.low:.2f}, {gain.high:.2f}]" + (f" ({depths})" if depths else "")
