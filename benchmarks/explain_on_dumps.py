"""Whether ``specplan explain`` tells from one metrics page whether speculation gains: public pages of vLLM servers.

    git clone https://github.com/AltriaSetsuna/speculative-decoding-empirical
    python -m benchmarks.explain_on_dumps speculative-decoding-empirical/vllm

A folder has ``TASK/results/MODEL/METHOD/metrics.txt``, one page of each server after its questions; the method
``autoregressive`` is the one without speculation. Each other page is explained without that baseline and with it.
Measured is the ratio of the times per token of whole answers, until the first token and between tokens. With the
baseline ``explain`` reads the same two times, so that only its interval and its sign are compared; without it, the
page says nothing of plain decoding.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sim.estimate import Estimate
from specplan.api.explaining import explain
from specplan.live.explaining.reading import read_metrics
from specplan.live.explaining.window import since_start
from specplan.output import table

__all__ = ["Row", "main", "rows", "summary"]

PLAIN: Final = "autoregressive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A server, and what is said of it."""

    task: str
    model: str
    method: str
    measured: float
    """Its tokens per second over those without speculation, [-]."""
    without: Estimate
    """The same ratio as explained from its page alone."""
    with_plain: Estimate
    """As explained with the page without speculation as the baseline."""


def rows(folder: Path) -> Iterator[Row]:
    """Explain all servers of a folder that have a page without speculation beside them."""
    for page in sorted(folder.glob("*/results/*/*/metrics.txt")):
        plain, (task, _, model, method) = page.parents[1] / PLAIN / page.name, page.relative_to(folder).parts[:4]
        if method == PLAIN or not plain.exists():
            continue
        each = [since_start(read_metrics(one.read_text(), str(one))).answer_s for one in (plain, page)]
        known = [explain([page], baseline=baseline).explanation.over_plain for baseline in ((), plain)]
        if known[0] is not None and known[1] is not None:
            measured = each[0] / each[1]
            yield Row(task=task, model=model, method=method, measured=measured, without=known[0], with_plain=known[1])


def summary(every: list[Row], name: str) -> str:
    """Signs, intervals and errors of what is explained; ``name``: `Row.without` or `Row.with_plain`."""
    said: list[tuple[Estimate, float]] = [(getattr(row, name), row.measured) for row in every]
    is_open = [one.low <= 1.0 <= one.high for one, _ in said]
    wrong = sum((one.value - 1.0) * (true - 1.0) < 0.0 and not o for (one, true), o in zip(said, is_open, strict=True))
    inside = sum(one.low <= true <= one.high for one, true in said)
    error = statistics.median(abs(math.log(one.value / true)) for one, true in said)
    return (
        f"{sum(is_open)} of {len(said)} open, {wrong} of the others of the wrong sign; measured inside the interval "
        f"{inside}; median error {error:.1%}"
    )


def main() -> None:
    """Print the table of a folder, and its summary."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m benchmarks.explain_on_dumps FOLDER")
    every = list(rows(Path(sys.argv[1])))
    if not every:
        raise SystemExit(f"{sys.argv[1]}: no TASK/results/MODEL/METHOD/metrics.txt beside one of {PLAIN}")

    def shown(one: Estimate) -> str:
        return f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]"

    cells = [
        [row.task, row.model, row.method, f"{row.measured:.2f}", shown(row.without), shown(row.with_plain)]
        for row in every
    ]
    print(table(["task", "model", "method", "measured", "from the page alone", "with the baseline"], cells))
    print(f"from the page alone: {summary(every, 'without')}\nwith the baseline: {summary(every, 'with_plain')}")


if __name__ == "__main__":
    main()
