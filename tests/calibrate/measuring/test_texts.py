"""Answers that are not timed: many at a time on servers, and none is begun after a given time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("aiohttp")

from openai_server import OpenAIServer, Planted
from virtual_time import on_servers

from calibrate.measuring.answers import ON_SERVERS, kept_texts, measure_texts
from calibrate.models.servers import RemoteModels
from calibrate.record.journal import Journal
from calibrate.running.patience import Patience
from calibrate.running.problem import Problem

QUESTIONS = [Problem(name=f"q{i}", prompt=f"{i} apples and {3 * i} pears are how many?") for i in range(48)]


def test_servers_write_many_at_once_and_begin_none_after_the_time(tmp_path: Path) -> None:
    async def written(servers: list[OpenAIServer]) -> int:
        models = RemoteModels(target=servers[0].url, draft=servers[1].url)
        async with models.open() as (_, clock):
            with Journal(tmp_path / "j", {}) as kept:
                await measure_texts(
                    clock,
                    QUESTIONS,
                    kept,
                    truth=None,
                    inspection=models.inspection(),
                    patiently=Patience(1.0),
                    progress=lambda name: None,
                    within_s=0.2,
                    on_servers=True,
                )
                # those that were begun are finished
                assert ON_SERVERS <= len(kept_texts(kept, QUESTIONS)) < len(QUESTIONS)
                return servers[0].most_in_flight

    kinds = (Planted(iteration_s=0.02, model=name, steps=2, step_tokens=(3, 5)) for name in ("big", "small"))
    assert ON_SERVERS // 2 < on_servers(written, *kinds) <= 2 * ON_SERVERS
