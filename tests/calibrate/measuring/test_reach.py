"""Engines are timed at contexts and prompts as long as those of the questions and answers."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("aiohttp")

from openai_server import OpenAIServer, Planted
from virtual_time import on_servers

from calibrate.measuring.calibration import calibrate_models
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.measuring.plan import CalibrationPlan
from calibrate.models.servers import RemoteModels
from calibrate.record.profile import Profile
from calibrate.running.problem import Problem

SHORT = MeasureOptions(batches=(1, 2), iterations=4, repeats=1, k2=1, rounds=3)


def test_short_questions_leave_contexts_as_they_are() -> None:
    options = MeasureOptions()
    assert options.reaching(20, 60, 400) == options
    far = options.reaching(100, 7000, 8192)
    assert far.contexts == (100, 905, 8192)
    assert far.prefills == (4, 16, 48, 128, 512, 2048, 7000)
    assert (8192, 8) in far.cells
    assert (8192, 12) not in far.cells


def test_contexts_of_the_questions_are_timed(tmp_path: Path) -> None:
    words = reached = 3000

    async def calibrated(servers: list[OpenAIServer]) -> Profile:
        models = RemoteModels(target=servers[0].url, draft=servers[1].url, max_step_tokens=20)
        problems = tuple(Problem(name=f"q{i}", prompt=f"q{i} " + "so " * words) for i in range(2))
        plan = CalibrationPlan(models=models, problems=problems, engine=SHORT, reach=True, warm_up_s=0.1)
        return await calibrate_models(plan, tmp_path / "journal")

    kinds = (Planted(iteration_s=0.02, model=name, max_context=16384) for name in ("big", "small"))
    record = on_servers(calibrated, *kinds).engines["target"]
    single = [sample.context for sample in record.decode if sample.batch == 1]
    assert 0.9 * reached < max(single) < 1.2 * reached
    longest = max(sample.tokens for sample in record.prefill)
    assert words / 2 < longest < 2 * words
