"""Validations on engines that only say what they are: their runs are made up by a test."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from calibrate.models.local import TorchModels
from calibrate.running.wall_clock import WallClock
from sim.roles import DRAFT, JUDGE, TARGET

RECORDED = Path(__file__).parents[1] / "data" / "recorded.json"
"""The profile of the engines that only tell."""


class Told:
    """An engine that only says what it is."""

    tokenizer_id = None

    def __init__(self, name: str, core: int) -> None:
        self.name = name
        self.core = core

    def describe(self) -> Mapping[str, Any]:
        return {
            "engine": "torch",
            "name": self.name,
            "model": Path("folder") / self.name,
            "architecture": "Toy",
            "n_layers": 2,
            "n_parameters": 10,
            "dtype": "float32",
            "max_batch": 4,
            "device": "cpu",
            "cores": [self.core],
            "pid": 7,
            "versions": {"torch": "9.9.0"},
        }


@asynccontextmanager
async def _opened(models: TorchModels) -> AsyncIterator[tuple[dict[str, Any], WallClock]]:
    roles: dict[str, Any] = {TARGET: Told("target", 0), DRAFT: Told("draft", 1)}
    roles[JUDGE] = roles[TARGET]
    yield roles, models.clock(roles)


def runs_are(monkeypatch: pytest.MonkeyPatch, where: str, made_up: Callable[..., Awaitable[Any]]) -> None:
    """Have ``specplan validate`` open engines that only tell, and take made-up runs for those of a function."""
    monkeypatch.setattr(TorchModels, "open", _opened)
    monkeypatch.setattr(f"specplan.check.validating.{where}", made_up)
    monkeypatch.setattr("calibrate.measuring.noise._CPU_TIMES", Path("/nowhere"))  # they differ from run to run
