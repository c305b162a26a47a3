"""A drift from saved metrics as text and as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from specplan.live.drift.offline import Compared, Drift
from specplan.output import table

__all__ = ["drift_as_json", "drift_as_text"]


def drift_as_json(drift: Drift) -> dict[str, Any]:
    """Return the comparison as plain data."""
    return {
        "profile": drift.profile,
        "false_alarm": drift.false_alarm,
        "windows": drift.n_windows,
        "moved": [one.what for one in drift.moved],
        "compared": [asdict(one) for one in drift.compared],
        "notes": list(drift.notes),
    }


def drift_as_text(drift: Drift) -> str:
    """Return the comparison as text, with the drifts first."""
    rows = [
        [
            one.what,
            _shown(one.seen, one),
            f"{_shown(one.predicted.value, one)} [{_shown(one.predicted.low, one)}, {_shown(one.predicted.high, one)}]",
            f"{one.n}",
            f"moved (window {one.at})" if one.at is not None else f"{min(one.evidence, 0.99):.0%} of an alarm",
        ]
        for one in drift.compared
    ]
    moved = ", ".join(one.what for one in drift.moved)
    head = (
        f"Moved from the predictions of {drift.profile}: {moved}."
        if moved
        else f"As {drift.profile} predicts: no alarm."
    )
    coverage = (
        f"Over {drift.n_windows} {'window' if drift.n_windows == 1 else 'windows'}; the probability of any "
        f"alarm while everything is as predicted is at most {drift.false_alarm:.0%}."
    )
    notes = "".join(f"\n- {note}" for note in drift.notes)
    return f"{head} {coverage}\n\n{table(['', 'seen', 'predicted', 'n', ''], rows)}{notes}"


def _shown(value: float, one: Compared) -> str:
    """Format a number in the unit of what is compared."""
    if one.unit == "s":
        return f"{1e3 * value:.2f} ms"
    return f"{value:.1f}" if one.unit else f"{value:.3f}"
