"""Data for the sliders of a plan's report: the page computes closed forms, this module simulates a grid.

The grid varies the profile's acceptance and costs, with its step lengths and costs of a batch, without token-level
speculation. A point is the speedup at concurrency 1 on engines of its own, times the effect of sharing the target. That
effect is simulated with the profile's own time of a verdict: of one answer at a time on the same answers as the
speedup, of more in closed loops (`sim.serving.load_run`). It depends on acceptance about linearly, and on the draft's
cost by a factor that acceptance does not change, both within 3 %, so that the ends of acceptance, and three costs, do.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from sim.configuration import Configuration
from sim.gaps.worlds import World, behaviour_of, engines_of
from sim.serving.load_run import LoadRun, Window, gain, until_known
from sim.trial import Trial, trial_seconds, with_plain
from specplan.output import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrate.record.profile import Profile
    from calibrate.replay.trials import Trials

__all__ = ["explorer_data", "world_of"]

_SLIDERS: Final = (
    ("alpha1", "acceptance of a draft step, alpha1", (0.3, 0.5, 0.7, 0.8, 0.9, 0.97)),
    ("c1", "draft step / target step, c1", (0.03, 0.1, 0.2, 0.4)),
    ("verify", "verification, in target steps", (0.0, 0.1, 0.3)),
)
"""Name, title and axis, which is extended to contain the profile's value."""
_K1S: Final = (2, 4, 8)
_AT_ONCE: Final = (1, 8, 32)
_METHODS: Final = (("async", "lr-async", "LR async"), ("sync", "lr-sync", "LR sync"))
_ANSWERS: Final = 256
_FEW: Final = 4
"""Answers for the cost of sharing at concurrency 1: the same ones with and without it."""
_PRECISION: Final = 0.03
"""Standard error of a gain in closed loops, as a share: a quarter of what a plan's interval is wide."""
_CACHED: Final = 2000.0
"""Tokens of context at which the costs of a batch are compared."""
_SEED: Final = 0
_WORLD: Final = World(lag1=0.37, correlation=0.6, steps=100, ends=True)
"""What no profile has."""

Array = NDArray[np.float64]


def world_of(profile: Profile, trials: Trials) -> World | None:
    """Return a profile's acceptance, costs and spread of lengths as a world; None without judged draft steps."""
    cost = trials.system.costs[trials.system.placement["target"]]
    one = cost.iteration(1, _CACHED)
    sequence = max(cost.iteration(2, 2.0 * _CACHED) / one - 1.0, 1e-6)
    published = profile.published
    if published is not None:
        verify = 0.0 if published.verify_s is None else published.verify_s.value / published.target_step_s.value
        cv = 1.2 if published.step_length_cv is None else published.step_length_cv.value
        return replace(
            _WORLD, alpha1=published.alpha1.value, c1=published.c1.value, judge=verify, cv=cv, sequence=sequence
        )
    steps = [step for answer in profile.answers for step in answer.steps]
    target_s = sum(step.target.seconds for step in steps)
    if not steps or not target_s > 0.0:
        return None
    lengths = [step.target.tokens for step in steps]
    return replace(
        _WORLD,
        alpha1=sum(step.verdict.accepted for step in steps) / len(steps),
        c1=min(sum(step.draft.seconds for step in steps) / target_s, 1.0),
        judge=sum(step.verdict.seconds for step in steps) / target_s,
        cv=pstdev(lengths) / fmean(lengths),
        sequence=sequence,
    )


def explorer_data(world: World) -> dict[str, Any]:
    """Return the data of the page: sliders that start at the world's parameters, and the simulated grid."""
    axes, sliders = [], []
    for (name, title, axis), start in zip(_SLIDERS, (world.alpha1, max(world.c1, 0.01), world.judge), strict=True):
        axes.append(list(axis) if axis[0] <= start <= axis[-1] else sorted({*axis, start}))
        ends = {"low": axes[-1][0], "high": axes[-1][-1], "step": 0.005}
        sliders.append({"name": name, "title": title, "start": round(start, 4), **ends})
    axes.append([float(count) for count in _AT_ONCE])
    at_once = {"name": "at_once", "title": "answers at once", "start": 1, "values": [1, 2, 4, 8, 16, 32]}
    loops = len(_METHODS) * len(_K1S) * len(_coarse(axes)) * len(axes[3])
    with progress("simulating for the sliders", loops) as step_done:
        values = [_grid(world, name, axes, step_done) for _, name, _ in _METHODS]
    return {
        "title": "speedup by k1: closed forms and simulations",
        "k1_most": 12,
        "sliders": [*sliders, at_once],
        "series": [
            {"title": title, "form": form, "values": array.tolist()}
            for (form, _, title), array in zip(_METHODS, values, strict=True)
        ],
        "grid": {"k1": list(_K1S), "axes": axes, "log": [False, False, False, True]},
    }


def _grid(world: World, name: str, axes: Sequence[Sequence[float]], step_done: Any) -> Array:
    """Speedups, shape (k1, alpha1 x c1 x verification x answers at once), the last running fastest."""
    grid = []
    for k1 in _K1S:
        ideal = [_ideal(_at(world, *at), name, k1) for at in itertools.product(*axes[:3])]
        shape = tuple(len(axis) for axis in axes)
        changed = _changes(world, name, k1, axes, step_done)
        grid.append((np.array(ideal).reshape(shape[:3])[..., None] * changed[:, :, None, :]).ravel())
    return np.asarray(np.round(np.array(grid), 3), dtype=np.float64)


def _at(world: World, alpha1: float, c1: float, verify: float, sequence: float = 0.0) -> World:
    return replace(world, alpha1=alpha1, c1=c1, judge=verify, sequence=sequence)


def _trials(world: World, name: str, k1: int) -> tuple[Trial, Trial]:
    configuration = Configuration(method=name, k1=k1)
    behaviour, engines = behaviour_of(world, _SEED), engines_of(world)
    return with_plain(configuration.algorithm(), behaviour, engines, meets=configuration.spec.meets)


def _ideal(world: World, name: str, k1: int, n: int = _ANSWERS) -> float:
    """The speedup of one answer at a time, by so many answers."""
    trial, plain = _trials(world, name, k1)
    every = range(n)
    return float(trial_seconds(plain, every).sum() / trial_seconds(trial, every).sum())


def _coarse(axes: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Pairs of alpha1 and c1 at which the effect of sharing is simulated: three c1 at the highest alpha1, one below."""
    (low, *_, high), c1s = axes[:2]
    middle = c1s[len(c1s) // 2]
    return [(high, c1s[0]), (high, middle), (high, c1s[-1]), (low, middle)]


def _changes(world: World, name: str, k1: int, axes: Sequence[Sequence[float]], step_done: Any) -> Array:
    """Ratio of speedups with and without a shared target, shape (alpha1, c1, answers at once)."""
    coarse = _coarse(axes)
    *by_c1, low = (_change(world, name, k1, at, axes[3], step_done) for at in coarse)
    costs, ends = [c1 for _, c1 in coarse[:3]], [coarse[3][0], coarse[0][0]]
    factors = np.array([low / by_c1[1], np.ones_like(low)])
    of_alpha = np.array([np.interp(axes[0], ends, one) for one in factors.T])
    of_c1 = np.array([np.interp(axes[1], costs, one) for one in np.array(by_c1).T])
    return np.moveaxis(of_alpha[:, :, None] * of_c1[:, None, :], 0, -1)


def _change(
    world: World, name: str, k1: int, at: tuple[float, float], counts: Sequence[float], step_done: Any
) -> Array:
    """Ratio of speedups with and without a shared target, by answers at once."""
    ideal, shared = (_at(world, *at, world.judge, sequence) for sequence in (0.0, world.sequence))
    unshared = _ideal(ideal, name, k1)
    ratios = []
    for count in counts:
        if count == 1.0:
            ratios.append(_ideal(shared, name, k1, _FEW) / _ideal(ideal, name, k1, _FEW))
        else:
            ratios.append(_gain(shared, name, k1, int(count)) / unshared)
        step_done()
    return np.array(ratios)


def _gain(world: World, name: str, k1: int, count: int) -> float:
    """Tokens per second over those of plain decoding, in closed loops on the same answers."""
    trial, _ = _trials(world, name, k1)
    own = LoadRun(trial, count, Window.of_steps(count))
    plain = _plain(replace(world, alpha1=1.0, c1=1.0, judge=0.0), count)  # which asks no draft and no judge
    return until_known(gain(own.throughputs, plain.throughputs), precision=_PRECISION)[0].value


@lru_cache(maxsize=64)
def _plain(world: World, count: int) -> LoadRun:
    return LoadRun(_trials(world, _METHODS[0][1], _K1S[0])[1], count, Window.of_steps(count))
