"""Predicted against measured: predictions are made first, then the same configurations run on real engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from calibrate.measure import Problem, Truth
from calibrate.models import ModelSet
from calibrate.profile import Profile
from calibrate.remote import RemoteModels
from calibrate.validate import Measured, Runs, measured, run_interleaved
from sim.timeline import Timeline
from specplan.predict import Configuration, Prediction, Predictor

__all__ = ["TOLERANCE", "Row", "Validation", "draw_timelines", "predict_all", "validate"]

TOLERANCE = 0.10
"""A prediction is good if it is off by at most this share of the measured speedup, or inside its interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One configuration: what was predicted, and what came."""

    name: str
    prediction: Prediction
    measured: Measured

    @property
    def error(self) -> float:
        """Predicted / measured speedup - 1, [-]."""
        return self.prediction.speedup.value / self.measured.speedup.value - 1.0

    @property
    def good(self) -> bool:
        """Whether the prediction is within the tolerance or inside the measured interval."""
        return abs(self.error) <= TOLERANCE or self.measured.speedup.contains(self.prediction.speedup.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The outcome of a validation."""

    profile: str
    rows: tuple[Row, ...]
    baseline: Measured
    runs: Runs


def predict_all(profile: Profile, configurations: Sequence[Configuration]) -> list[Prediction]:
    """Predict the configurations from the profile alone."""
    predictor = Predictor(profile)
    return [predictor.predict(configuration) for configuration in configurations]


async def validate(
    profile: Profile,
    predictions: Sequence[Prediction],
    models: ModelSet | RemoteModels,
    problems: Sequence[Problem],
    *,
    truth: Truth | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda part: None,
) -> Validation:
    """Run what was predicted, interleaved with plain decoding, on fresh problems.

    Raises
    ------
    CalibrationError : an engine failed.
    """
    by_name = {_name(p.configuration): p for p in predictions}
    methods = {name: p.configuration.algorithm() for name, p in by_name.items()}
    async with models.open() as (_, clock):
        runs = await run_interleaved(clock, problems, methods, truth=truth, seed=seed, progress=progress)
    return Validation(
        profile=profile.name,
        rows=tuple(Row(name=name, prediction=p, measured=measured(runs, name)) for name, p in by_name.items()),
        baseline=measured(runs, "autoregressive"),
        runs=runs,
    )


def _name(configuration: Configuration) -> str:
    return configuration.name


def draw_timelines(profile: Profile, validation: Validation, row: Row, path: Path) -> None:
    """Draw one simulated answer above one measured answer of the same configuration, on the same time axis."""
    from sim.gantt import draw

    simulated = Predictor(profile, uncertainty=False).timeline(row.prediction.configuration)
    real = Timeline.of(validation.runs.sessions[row.name], f"measured, {row.name}")
    draw([simulated, real], path)
