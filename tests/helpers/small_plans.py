"""The command that calibrates servers, with little to measure: in this process, or in one of its own."""

import math
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from calibrate.engines.http.wire import HttpConfig
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.measuring.plan import CalibrationPlan
from calibrate.models.servers import RemoteModels
from calibrate.running.problem import Problem

OPTIONS = MeasureOptions(batches=(1, 2), contexts=(8,), iterations=4, prefills=(4, 32), repeats=2, rounds=1)
"""Timings of a round."""


def remote_plan(models: RemoteModels, n: int = 2, n_texts: int = 0, **options: Any) -> CalibrationPlan:
    """A small calibration of servers, with so many answers and texts."""
    problems = tuple(Problem(name=f"q{i}", prompt=f"Question {i} is?") for i in range(n + n_texts))
    known = {"engine": OPTIONS, "warm_up_s": 0.02, "patience_s": 0.0, "name": "remote"}
    return CalibrationPlan(models=models, problems=problems[:n], texts=problems[n:], **known | options)


class _Small(CalibrationPlan):
    """Makes plans with timings of the batches asked for, a short warm-up, and no patience with servers."""

    def __new__(cls, engine: MeasureOptions, **options: Any) -> CalibrationPlan:  # type: ignore[misc]
        timings = replace(OPTIONS, batches=engine.batches)
        return CalibrationPlan(engine=timings, warm_up_s=0.02, **{**options, "patience_s": 0.0})


PATCHES = {
    "calibrate.measuring.plan.CalibrationPlan": _Small,
    "calibrate.measuring.from_outside.tolerated": lambda seconds: math.inf,  # nothing is measured again for being late
    "calibrate.loads.levels._SECONDS": (0.2, 6.0),
    "calibrate.models.servers.HttpConfig.of": partial(HttpConfig.of, backoff_s=0.001),
}
"""What stands in for what, by name."""

SPECPLAN = (
    sys.executable,
    "-c",
    f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import small_plans; small_plans.main()",
)
"""The command line in a process of its own; its words follow."""


def main() -> None:
    """Run the command line with little to measure."""
    from specplan.cli import main as specplan

    with ExitStack() as patched:
        for name, value in PATCHES.items():
            patched.enter_context(mock.patch(name, value))
        specplan()
