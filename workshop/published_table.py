"""Predict Lookahead Reasoning's Table 1 from its acceptance column: ``python -m workshop.published_table [--write]``.

Prints predicted beside published, row by row; ``--write`` renews ``table1.json``, from which
`specplan.planning.model_error` reads.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from calibrate.record.files import write_atomically
from calibrate.record.library import bundled
from sim.configuration import RULE_NAMES
from specplan.check.reproducing.lookahead_reasoning import DATASETS, PAIRS, simulated_row
from specplan.output import table
from specplan.planning.model_error import Row, compared, fit_error

__all__ = ["report", "simulated_rows"]

FILE = Path(__file__).resolve().parent.parent / "specplan" / "planning" / "table1.json"


def simulated_rows(rules: str, n_answers: int = 60) -> list[Row]:
    """Simulate every row of the table at its published k1 and k2."""
    return [simulated_row(bundled(f"lr-{pair}-{dataset}"), rules, n_answers) for pair in PAIRS for dataset in DATASETS]


def report(found: list[Row]) -> str:
    """The table, predicted beside published, with the mean errors below it."""
    lines = []
    for row in found:
        step, both = (_left_out(found, row, combined) for combined in (False, True))
        cells = [row.closed_form, row.step_simulated, step, row.step_published]
        cells += [row.combined_simulated, both, row.combined_published]
        lines.append([row.name, *(f"{cell:.2f}" for cell in cells)])
    head = ["profile", "closed form", "LR: simulated", "corrected", "published"]
    head += ["LR+SD: simulated", "corrected", "published"]
    return table(head, lines) + "\n\n" + "\n".join(_summary(found))


def _left_out(found: list[Row], row: Row, combined: bool) -> float:
    """The prediction for a row, corrected by what the other rows say."""
    pairs = [compared(other, combined) for other in found if other.name != row.name]
    error = fit_error([math.log(x) for x, _ in pairs], [math.log(y) for _, y in pairs])
    return error.corrected(compared(row, combined)[0])


def _summary(found: list[Row]) -> list[str]:
    def mean_error(predicted: list[float], published: list[float]) -> str:
        return f"{100 * fmean(abs(p / q - 1.0) for p, q in zip(predicted, published, strict=True)):.1f} %"

    step = [row.step_published for row in found]
    both = [row.combined_published for row in found]
    product = [100 * (row.step_published * row.token_published / row.combined_published - 1.0) for row in found]
    return [
        f"Mean error over {len(found)} rows, schedule {found[0].rules!r}, at k1 = 6:",
        f"  LR alone: closed form {mean_error([row.closed_form for row in found], step)}, "
        f"simulated {mean_error([row.step_simulated for row in found], step)}, "
        f"corrected by the other rows {mean_error([_left_out(found, row, False) for row in found], step)}",
        f"  LR with token speculation: simulated {mean_error([row.combined_simulated for row in found], both)}, "
        f"corrected by the other rows {mean_error([_left_out(found, row, True) for row in found], both)}",
        f"  The product of the published separate speedups overshoots the published combined one by "
        f"{min(product):.0f} to {max(product):.0f} %",
    ]


def main() -> None:
    """Print the comparison; ``--write`` also renews table1.json."""
    by_rules = {rules: simulated_rows(rules) for rules in RULE_NAMES}
    if "--write" in sys.argv[1:]:
        records = [asdict(row) for found in by_rules.values() for row in found]
        text = json.dumps({"schema_version": 1, "rows": records}, indent=1, sort_keys=True) + "\n"
        write_atomically(FILE, text)
    print("\n\n".join(report(found) for found in by_rules.values()))


if __name__ == "__main__":
    main()
