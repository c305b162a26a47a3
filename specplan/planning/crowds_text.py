"""What `specplan plan --profile --concurrency` adds: the methods of the plan for many answers at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from specplan.output import progress, table
from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.record.profile import Profile
    from specplan.planning.at_once import AtOnce
    from specplan.planning.planner import Plan

__all__ = ["crowds", "crowds_as_json", "crowds_as_text"]

_MOST_AT_ONCE: Final = 256


def crowds(profile: Profile, found: Plan, concurrency: str | None) -> list[AtOnce]:
    """Simulate the methods of a plan for answers at once, if that is asked for.

    Parameters
    ----------
    profile : of the plan.
    found : the plan for one answer at a time.
    concurrency : numbers with commas between them; None: not asked for.

    Raises
    ------
    ParameterError : no numbers, or too large ones.
    """
    if concurrency is None:
        return []
    from calibrate.replay.trials import Trials
    from specplan.loads.asked import numbers
    from specplan.planning.at_once import Crowds

    counts = numbers("concurrency", concurrency, int)
    if counts[0] < 1 or counts[-1] > _MOST_AT_ONCE:
        raise ParameterError("concurrency", concurrency, f"must be integers in [1, {_MOST_AT_ONCE}]")
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
    off = next((n for n in counts if all(row.gain.value <= 1.0 for row in rows if row.answers == n)), None)
    if off is not None:
        lines += ["", f"Switch speculation off from {off} answers at once."]
    return ["\n".join(lines)]


def crowds_as_json(rows: list[AtOnce]) -> list[dict[str, Any]]:
    """Return the rows as plain data."""
    return [row.plain() for row in rows]


def _cell(row: AtOnce) -> str:
    c, gain = row.configuration, row.gain
    depths = ", ".join(str(depth) for depth in (c.k1, c.k2) if depth > 1)
    return f"{gain.value:.2f} [{gain.low:.2f}, {gain.high:.2f}]" + (f" ({depths})" if depths else "")
