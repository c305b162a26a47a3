"""Answers that are not timed: many at a time on servers, and none is begun after a given time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("httpx")

from openai_server import OpenAIServer, Planted
from virtual_time import run_virtually

from calibrate.measuring.texts import ON_SERVERS, kept_texts, measure_texts
from calibrate.models.servers import RemoteModels
from calibrate.record.journal import Journal
from calibrate.running.patience import Patience
from calibrate.running.problem import Problem

QUESTIONS = [Problem(name=f"q{i}", prompt=f"{i} apples and {3 * i} pears are how many?") for i in range(48)]


async def written(journal: Path, within_s: float) -> tuple[int, int]:
    """Texts that were kept, and most requests of the target that ran together."""
    target, draft = (
        OpenAIServer(Planted(iteration_s=0.02, model=name, steps=2, step_tokens=(3, 5))) for name in ("big", "small")
    )
    for server in (target, draft):
        await server.start()
    models = RemoteModels(target=f"{target.url}/v1", draft=f"{draft.url}/v1")
    try:
        async with models.open() as (_, clock):
            with Journal(journal, {}) as kept:
                await measure_texts(
                    clock,
                    QUESTIONS,
                    kept,
                    truth=None,
                    inspection=models.inspection(),
                    patiently=Patience(1.0),
                    progress=lambda name: None,
                    within_s=within_s,
                    at_once=ON_SERVERS,
                )
                return len(kept_texts(kept, QUESTIONS)), target.most_in_flight
    finally:
        for server in (target, draft):
            await server.stop()


def test_servers_write_many_at_once_and_begin_none_after_the_time(tmp_path: Path) -> None:
    n, together = run_virtually(written(tmp_path / "one", within_s=0.2))
    assert ON_SERVERS <= n < len(QUESTIONS)  # those that were begun are finished
    assert ON_SERVERS // 2 < together <= 2 * ON_SERVERS
