"""The speedup of one point of a sweep over plain decoding, to the requested precision."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from calibrate.record.profile import Profile
from sim.algorithms.rules import PAPER
from sim.answers.drawn import SyntheticBehaviour
from sim.answers.lengths import Fixed
from sim.configuration import Configuration
from sim.estimate import ratio_of_totals
from sim.fast.controls import Controlled, controlled_mean, ideal_mean, mean_tokens, ratio_to_known
from sim.fast.draws import blocks_of, shared_by
from sim.fast.recursions import async_seconds, sync_seconds
from sim.gaps.worlds import World, behaviour_of, engines_of
from sim.roles import JUDGE
from sim.trial import trial_seconds, with_plain
from specplan.planning.sweeping.grid import Grid, Point
from theory.checks import positive
from theory.errors import ParameterError, SpecplanError

__all__ = ["RESULTS", "evaluated"]

RESULTS: Final = (
    *("speedup", "stderr", "answers", "seconds", "baseline_seconds", "variance_ratio", "paired_ratio"),
    "error",
)

Array = NDArray[np.float64]

_TOGETHER = 512
"""Answers drawn and simulated together: of all points the same ones, so that they are drawn once (`sim.fast.draws`)."""


def evaluated(point: Point, grid: Grid, profile: Profile | None) -> dict[str, Any]:
    """Return a row of the result: the point, its speedup with standard error, and how it was computed.

    It depends on the point, the seed and the profile only, not on what else is swept, nor where it runs. A point that
    cannot be simulated has the reason in ``error``, and no speedup.
    """
    try:
        results = _in_world(point, grid) if profile is None else _by_profile(point, grid, profile)
    except SpecplanError as error:
        results = {"error": str(error)}
    return {**point.columns, **dict.fromkeys(RESULTS), **results}


def _in_world(point: Point, grid: Grid) -> dict[str, Any]:
    """Evaluate a point for models that parameters describe; times are in target steps."""
    world = _world(dict(point.parameters))
    configuration = point.configuration
    if configuration.token is not None:
        raise ParameterError("k2", configuration.k2, "needs a profile: a world without one knows no tokens below steps")
    behaviour, engines = behaviour_of(world, grid.seed, shared_by(world.steps)), engines_of(world)
    trial, plain = with_plain(configuration.algorithm(), behaviour, engines, meets=configuration.spec.meets)
    known = _Known.of(world, configuration, behaviour)
    parts: list[Array] = []
    n, needed = 0, 1
    while n < min(needed, grid.most_answers):
        more = range(n, min(n + _TOGETHER, grid.most_answers))
        seconds = np.array([trial_seconds(trial, more), trial_seconds(plain, more)])
        parts.append(seconds if known is None else np.concatenate([seconds, known.controls(more)]))
        n = more.stop
        if n < needed:
            continue
        row = _estimate(np.concatenate(parts, axis=1), known)
        needed = n * (row["stderr"] / row["speedup"] / grid.precision) ** 2
    return row


def _world(parameters: dict[str, Any]) -> World:
    defaults = World()
    for name, value in parameters.items():
        whole = isinstance(getattr(defaults, name), int)
        if isinstance(value, (bool, str)) or (whole and not isinstance(value, int)):
            raise ParameterError(name, value, f"must be {'an integer' if whole else 'a number'}")
        if not (math.isfinite(value) and 0 <= value <= 1e6):
            raise ParameterError(name, value, "must be finite and >= 0")
    world = replace(defaults, ends=True, **{"steps": 100, **parameters})
    positive("c1", world.c1)
    return world


_ROUNDING: Final = 1e-12
"""Relative standard errors up to here are rounding: the controls explain all that varies (constant lengths, say)."""


def _estimate(samples: Array, known: _Known | None) -> dict[str, Any]:
    """The speedup, by the controls where there are some; and what they and common answers are worth.

    ``samples`` are seconds by the method, by plain decoding, and controls, shape (2 + controls, answers).
    """
    method_s, plain_s, *controls = samples
    paired = ratio_of_totals(plain_s, method_s)
    n = len(method_s)
    shares = [float(one.var(ddof=1)) / one.mean() ** 2 / n for one in (plain_s, method_s)]
    naive = paired.stderr**2
    row = {
        "speedup": paired.value,
        "stderr": paired.stderr,
        "answers": n,
        "seconds": float(method_s.mean()),
        "baseline_seconds": float(plain_s.mean()),
        "variance_ratio": 1.0,
        "paired_ratio": paired.value**2 * sum(shares) / naive if naive > 0.0 else None,
    }
    if known is None or n < 16:
        return row
    mean: Controlled = controlled_mean(method_s, np.array(controls).T, known.means)
    value, stderr = ratio_to_known(known.plain_s, mean)
    if not stderr < paired.stderr:
        return row
    ratio = naive / stderr**2 if stderr > _ROUNDING * value else None
    seconds = {"seconds": mean.value, "baseline_seconds": known.plain_s}
    return {**row, **seconds, "speedup": value, "stderr": stderr, "variance_ratio": ratio}


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known exactly of a world: plain decoding, and the means of the controls."""

    plain_s: float
    means: Array
    target: float
    draft: float
    verify: float
    k1: int
    method: str
    behaviour: SyntheticBehaviour

    @classmethod
    def of(cls, world: World, configuration: Configuration, behaviour: SyntheticBehaviour) -> _Known | None:
        """None where verdicts depend on each other, or the means are not known."""
        judged = configuration.decider == (JUDGE, None) and configuration.width == 1
        simple = configuration.method in ("lr-async", "lr-sync") and judged
        tokens = mean_tokens(behaviour.lengths.target, behaviour.lengths.limit)
        if not simple or tokens is None or not isinstance(behaviour.steps, Fixed) or world.persistence:
            return None
        if world.sequence:
            return None
        token, n = 1.0 / world.step_tokens, behaviour.steps.n
        target = world.request + token * tokens
        draft, verify = world.request + token * world.c1 * tokens, world.judge + world.request
        sync, k1 = configuration.method == "lr-sync", configuration.k1
        ideal = target * ideal_mean(world.alpha1, draft / target, k1, n, verify=verify / target, sync=sync)
        means = np.array([ideal, n * tokens, n * tokens])
        return cls(n * target, means, target, draft, verify, k1, configuration.method, behaviour)

    def controls(self, indices: range) -> Array:
        """The closed form's time of the same verdicts, and the tokens of both models, shape (3, answers)."""
        blocks = []
        for answers in blocks_of(self.behaviour, indices):
            yes = answers.accepted
            target, draft = np.broadcast_to(self.target, yes.shape), np.broadcast_to(self.draft, yes.shape)
            if self.method == "lr-sync":
                ideal = sync_seconds(target, draft, yes, answers.n_steps, k1=self.k1, verify_s=self.verify)
            else:
                uncut, verify = np.zeros_like(yes), np.float64(self.verify)
                known = async_seconds(
                    *(target, draft, yes, verify, answers.n_steps),
                    k1=self.k1,
                    rules=PAPER,
                    target_cut=uncut,
                    draft_cut=uncut,
                )
                assert known is not None, "rules that wait for drafts know no ties"
                ideal = known
            tokens = (of.sum(axis=1, dtype=np.float64) for of in (answers.target, answers.draft))
            blocks.append([ideal, *tokens])
        return np.concatenate(blocks, axis=1)


def _by_profile(point: Point, grid: Grid, profile: Profile) -> dict[str, Any]:
    """Evaluate a point for a profile with some figures changed."""
    from specplan.planning.predict import Predictor

    changed = _changed(profile, point.parameters)
    if point.concurrency > 1:
        return _at_once(point, grid, changed)
    n, most = 40, grid.most_answers
    while True:
        predictor = Predictor(changed, n_answers=min(n, most), uncertainty=False, sparing=True)
        prediction = predictor.predict(point.configuration)
        stderr = prediction.simulated * prediction.errors["sampling"] / 1.96
        recorded = predictor.trials.system.behaviour.n_answers is not None
        if stderr <= grid.precision * prediction.simulated or n >= most or recorded:
            break
        n = min(math.ceil(n * min(1.2 * (stderr / prediction.simulated / grid.precision) ** 2, 4.0)), most)
    return {
        "speedup": prediction.simulated,
        "stderr": stderr,
        "answers": predictor.n_answers,
        "seconds": prediction.baseline_seconds / prediction.simulated,
        "baseline_seconds": prediction.baseline_seconds,
        "variance_ratio": 1.0,
    }


def _at_once(point: Point, grid: Grid, profile: Profile) -> dict[str, Any]:
    """Evaluate a point with several answers at once, by closed loops in replications until it is precise enough."""
    from calibrate.replay.trials import Trials
    from specplan.planning.loads.from_profile import FromProfile

    simulator = FromProfile(Trials(profile), [])
    gain = simulator.simulated(point.configuration, point.concurrency, grid.precision)
    baseline = simulator.plain_seconds(point.concurrency)
    return {
        "speedup": gain.value,
        "stderr": gain.stderr,
        "seconds": baseline / gain.value,
        "baseline_seconds": baseline,
        "variance_ratio": 1.0,
    }


def _changed(profile: Profile, parameters: tuple[tuple[str, Any], ...]) -> Profile:
    if not parameters:
        return profile
    if profile.published is None:
        rule = f"cannot be changed: profile {profile.name!r} is measured; sweep knobs and concurrency"
        raise ParameterError(*parameters[0], rule)
    figures = profile.published.model_dump()
    for name, value in parameters:
        if isinstance(value, (bool, str)):
            raise ParameterError(name, value, "must be a number")
        figures[name] = {"value": float(value), "half_width": 0.0, "source": "swept"}
    try:
        published = type(profile.published).model_validate(figures)
    except ValidationError as error:
        first = error.errors()[0]
        raise ParameterError(str(first["loc"][0]), figures[str(first["loc"][0])]["value"], first["msg"]) from None
    return profile.model_copy(update={"published": published})
