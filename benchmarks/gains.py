"""Gains of speculation that others measured, beside plans from names: ``python -m benchmarks.gains [--servers WORD]``.

Each row of ``gains.json`` is a server that somebody ran with and without speculation, with what its source says. Where
that has the tokens per round, a plan is made with them and one without. What was mended with these cells in view is in
VALIDATION.md ("From names"); rows marked ``later`` were found after it.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field

from calibrate.record.fields import Record
from sim.configuration import PLAIN
from specplan.api.planning import plan_models
from specplan.output import table
from specplan.planning.loads.load_plan import LoadRow

__all__ = ["Predicted", "Server", "predicted", "servers"]

FILE: Final = Path(__file__).with_name("gains.json")


class Server(Record):
    """A server with one drafter."""

    target: str
    gpu: str
    engine: str
    method: str
    k: int | None = None
    """Drafted tokens per round; None: not published, and the best is planned."""
    per_round: float | None = None
    """Tokens that a round commits; None: not published."""
    prompt: int
    answer: int
    options: dict[str, Any] = Field(default_factory=dict)
    """Further ones of `specplan.api.planning.plan_models`."""
    cells: Mapping[int, Annotated[float, Field(gt=0)]]
    """Answers at once to gain over plain decoding on the same GPUs."""
    source: str
    later: bool = False
    admitted: int | None = None
    """Answers that the speculating server runs at once, others wait: SGLang's default is 48 where it speculates
    (srt/arg_groups/speculative_hook.py), and commands of plans say another; None: all."""


class Predicted(NamedTuple):
    """A cell: a gain with its interval, and the measured one."""

    server: Server
    at_once: int
    given: bool
    """Whether the tokens per round were."""
    gain: float
    low: float
    high: float
    measured: float

    @property
    def inside(self) -> bool:
        """Whether the measured gain is in the interval."""
        return self.low <= self.measured <= self.high

    @property
    def promised(self) -> bool:
        """Whether a gain was promised where a loss was measured."""
        return self.low > 1.0 > 1.01 * self.measured


def servers() -> list[Server]:
    """Return the rows."""
    return [Server.model_validate(row) for row in json.loads(FILE.read_text(encoding="utf-8"))]


def predicted(server: Server, *, given: bool) -> Iterator[Predicted]:
    """Plan a server at the answers at once of its cells, with its tokens per round or by the prior.

    What is 20 % behind plain decoding is left out by plans, and here.
    """
    for n, measured in server.cells.items():  # each by itself: what is far behind at one load is left out at later ones
        within = min(n, server.admitted or n)
        rows = _planned(server, within, given=given)
        kept = 1.0 if within == n else _plain(rows) / _plain(_planned(server, n, given=given))
        for row in rows:
            if row.option.configuration != PLAIN:
                gain, low, high = (kept * each for each in (row.gain.value, row.gain.low, row.gain.high))
                yield Predicted(server, n, given, gain, low, high, measured)


def _planned(server: Server, answers: int, *, given: bool) -> Sequence[LoadRow]:
    """The rows of a plan at so many answers at once."""
    result = plan_models(
        server.target,
        gpu=server.gpu,
        methods=[server.method],
        engine=server.engine,
        concurrency=answers,
        context=server.prompt + server.answer,
        answer_tokens=server.answer,
        acceptance=[f"{server.method}={server.per_round}/round@{server.k}"] if given else (),
        no_curve=True,
        **({} if server.k is None else {"k": str(server.k)}),
        **server.options,
    )
    ((_, rows),) = result.plan.loads
    return rows


def _plain(rows: Sequence[LoadRow]) -> float:
    """Tokens per second of plain decoding."""
    (plain,) = (row.tokens_per_s for row in rows if row.option.configuration == PLAIN)
    return plain


def main() -> None:
    """Print the cells, and what they say of widths."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gains", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--servers", default="", metavar="WORD", help="only those with it in target, GPU or source")
    word = parser.parse_args().servers.lower()
    found: list[Predicted] = []
    for server in servers():
        if word in f"{server.target} {server.gpu} {server.engine} {server.source}".lower():
            for given in (True, False) if server.per_round is not None else (False,):
                found += predicted(server, given=given)
    print(table(["server", "at once", "per round", "predicted", "measured", "ratio", ""], list(map(_row, found))))
    groups: dict[str, list[Predicted]] = defaultdict(list)
    for cell in found:
        how = "given" if cell.given else "prior"
        for name in ("later",) if cell.server.later else (how, f"{how}, {cell.server.method}"):
            groups[name].append(cell)
    for name, cells in groups.items():
        print(_summary(name, cells))


def _row(cell: Predicted) -> list[str]:
    server = cell.server
    name = f"{server.target.rpartition('/')[2]}, {server.gpu}, {server.engine}, {server.method} k={server.k}"
    said = "" if cell.inside else "promised" if cell.promised else "outside"
    given = f"{server.per_round}" if cell.given else "prior"
    gain = f"{cell.gain:.2f} [{cell.low:.2f}, {cell.high:.2f}]"
    return [name, str(cell.at_once), given, gain, f"{cell.measured:.2f}", f"{cell.gain / cell.measured:.2f}", said]


def _summary(name: str, cells: Sequence[Predicted]) -> str:
    logs = [math.log(cell.gain / cell.measured) for cell in cells]
    inside = sum(cell.inside for cell in cells)
    right = sum((cell.gain > 1.0) == (cell.measured > 1.0) for cell in cells)
    promised = sum(cell.promised for cell in cells)
    return (
        f"{name}: {len(cells)} cells, size of the logarithm {fmean(map(abs, logs)):.3f}, bias {fmean(logs):+.3f}, "
        f"inside {inside}, sign right {right}, gains promised and lost {promised}"
    )


if __name__ == "__main__":
    main()
