"""A drift from saved metrics for a reader, and as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from specplan.live.drift.offline import Compared, Drift
from specplan.output import table

__all__ = ["drift_as_json", "drift_as_text"]


def drift_as_json(found: Drift) -> dict[str, Any]:
    """The comparison as plain data."""
    return {
        "profile": found.profile,
        "false_alarm": found.false_alarm,
        "windows": found.n_windows,
        "moved": [one.what for one in found.moved],
        "compared": [asdict(one) for one in found.compared],
        "notes": list(found.notes),
    }


def drift_as_text(found: Drift) -> str:
    """The comparison for a reader: what moved first."""
    rows = [
        [
            one.what,
            _shown(one.seen, one),
            f"{_shown(one.predicted.value, one)} [{_shown(one.predicted.low, one)}, {_shown(one.predicted.high, one)}]",
            f"{one.n}",
            f"moved (window {one.at})" if one.at is not None else f"{min(one.evidence, 0.99):.0%} of an alarm",
        ]
        for one in found.compared
    ]
    moved = ", ".join(one.what for one in found.moved)
    head = f"Moved from what {found.profile} predicts: {moved}." if moved else f"As {found.profile} predicts: no alarm."
    told = (
        f"Over {found.n_windows} {'window' if found.n_windows == 1 else 'windows'}; while all is as predicted an alarm "
        f"comes with a probability of at most {found.false_alarm:.0%}."
    )
    notes = "".join(f"\n- {note}" for note in found.notes)
    return f"{head} {told}\n\n{table(['', 'seen', 'predicted', 'of', ''], rows)}{notes}"


def _shown(value: float, one: Compared) -> str:
    """A number in the unit of what is compared."""
    if one.unit == "s":
        return f"{1e3 * value:.2f} ms"
    return f"{value:.1f}" if one.unit else f"{value:.3f}"
