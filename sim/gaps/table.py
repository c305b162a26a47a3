"""Table of the errors of the closed forms against the simulator, with and without their assumptions.

``python -m workshop.gaps_table`` simulates every method that has a closed form, first under the form's assumptions
(constant step lengths, independent acceptance, free verification, parallel steps for free, no request overhead, long
answers), then with one of them broken at a time, then with all of them broken; ``--write`` renews ``gaps.json``, which
``specplan methods --gaps`` prints. Broken assumptions have the values measured on real models (`MEASURED`).

A new method is added by an entry in `CLOSED_FORMS` for the form that its catalogue record names;
``--write --missing`` then simulates its cells only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sim.answers.drawn import Behaviour
from sim.catalogue import Meets, Method, method, methods
from sim.engines.protocol import Engine
from sim.estimate import Estimate, ratio_of_totals
from sim.gaps.forms import CLOSED_FORMS, Knobs
from sim.gaps.token_worlds import token_behaviour, token_engines
from sim.gaps.worlds import CONDITIONS, World, behaviour_of, engines_of
from sim.operations import DRAFT, TARGET
from sim.trial import trial_seconds, with_plain

__all__ = [
    "CASES",
    "CLOSED_FORMS",
    "END_STEPS",
    "SEED",
    "STEPS",
    "Case",
    "Cell",
    "committed_cells",
    "simulated_cell",
    "without_closed_form",
]


SEED: Final = 8
STEPS: Final = 24_000
"""Steps simulated per cell; twice as many where the closed form should hold."""
END_STEPS: Final = 20
"""Steps of a short answer whose time is subtracted from that of a long answer, to remove the effect of the end. Also
the steps of an answer of SPECS, whose closed form depends on a number of steps."""

_VARIANTS: Final[Mapping[str, tuple[Knobs, ...]]] = MappingProxyType(
    {
        "confspec": (
            {},
            {"fallback": "regenerate"},
            {"fallback": "none"},
            {"width": 2, "k1": 3},
            {"schedule": "algorithm-1"},
        ),
        "rsd-beams": ({"width": 2},),
        "specs": ({"width": 2}, {"width": 2, "switch": "both-ways"}),
    }
)
"""Knobs to tabulate a method with, where more than its defaults is needed."""


_TOKEN_CONDITIONS: Final = ("as assumed", "lengths vary", "requests cost", "100 steps an answer", "all of it")
"""Conditions of token-level methods: the other conditions concern drafted steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A method at given knobs, with its closed form."""

    method: str
    knobs: Knobs = field(default_factory=dict, hash=False)

    @property
    def spec(self) -> Method:
        """Its record in the catalogue."""
        return method(self.method)

    @property
    def name(self) -> str:
        """The method and the knobs that the closed form depends on."""
        settings = self.spec.settings(self.knobs)
        shown = {"k1": settings["k1"]} if self.spec.has("k1") else {}
        return " ".join([self.method, *(f"{k}={v}" for k, v in {**shown, **self.knobs}.items())])

    @property
    def settings(self) -> dict[str, Any]:
        """Every knob's value, and the role that generates the candidates of a beam search."""
        role = {"role": TARGET if DRAFT not in self.spec.roles else DRAFT} if self.is_search else {}
        return {**self.spec.settings(self.knobs), **role}

    @property
    def is_search(self) -> bool:
        """Whether it is beam search, whose time does not depend on the candidate that is taken."""
        return self.spec.closed_form == "theory.specs.beams.beam_speedup"

    @property
    def is_finite(self) -> bool:
        """Whether its closed form depends on the number of steps of an answer."""
        return self.spec.closed_form == "theory.specs.beams.specs_speedup"

    def world(self, condition: str) -> World:
        """The world of a condition, with as many steps per answer as the closed form assumes."""
        world = CONDITIONS[condition]
        return replace(world, steps=END_STEPS, ends=True) if self.is_finite else world

    def closed_form(self, world: World) -> float:
        """The closed form's speedup, given the parameters of the world that it has terms for."""
        assert self.spec.closed_form is not None
        return CLOSED_FORMS[self.spec.closed_form](world, self.settings)

    def behaviour(self, world: World, seed: int) -> Behaviour:
        """Answers of a world for the method."""
        if self.spec.level == "token":
            return token_behaviour(self.method, world, self.settings, seed)
        return behaviour_of(world, seed)

    def engines(self, world: World) -> dict[str, Engine]:
        """Engines of a world, with the costs of the method's passes."""
        if self.spec.level == "token":
            return token_engines(self.method, world, self.settings)
        return engines_of(world)

    def is_about(self, condition: str) -> bool:
        """Whether the speedup can depend on a condition."""
        if self.spec.level == "token":
            return condition in _TOKEN_CONDITIONS
        if condition == "siblings correlated":
            return self.settings.get("width", 1) != 1 and not self.is_search
        if condition == "acceptance sticky":
            return not self.is_search
        return not (self.is_finite and condition == "100 steps an answer")


def _cases() -> Iterator[Case]:
    for name, one in methods().items():
        if one.closed_form in CLOSED_FORMS and not (one.ablation and one.level == "beam"):  # those share their form
            yield from (Case(method=name, knobs=knobs) for knobs in _VARIANTS.get(name, ({},)))


CASES: Final = tuple(_cases())


def without_closed_form() -> list[str]:
    """Names of the methods that the table leaves out: no form in `CLOSED_FORMS`, or a variant for comparison only."""
    tabulated = {case.method for case in CASES}
    return [name for name, one in methods().items() if name not in tabulated and one.level != "baseline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A method in a world: speedups by the closed form and by the simulator."""

    case: str
    condition: str
    closed_form: float
    """Speedup over plain decoding, [-]."""

    simulated: float
    """Speedup over plain decoding, ratio of totals, [-]."""

    stderr: float
    """Standard error of the simulated speedup."""

    n: int
    """Answers simulated."""

    @property
    def gap(self) -> float:
        """Closed form / simulated - 1, [-]: above 0 where the form overestimates the speedup."""
        return self.closed_form / self.simulated - 1.0

    @property
    def gap_stderr(self) -> float:
        """Standard error of the gap, [-]."""
        return self.closed_form / self.simulated * self.stderr / self.simulated


def simulated_cell(case: Case, condition: str, *, n_steps: int = STEPS, seed: int = SEED) -> Cell:
    """Simulate a method in the world of a condition.

    Parameters
    ----------
    case : the method with its knobs.
    condition : a name of `CONDITIONS`.
    n_steps : steps to simulate in all; answers are whole, and at least 8.
    seed : of the answers.
    """
    world = case.world(condition)
    n = max(n_steps // world.steps, 8)
    estimate = _speedup(case, world, n, seed)
    return Cell(
        case=case.name,
        condition=condition,
        closed_form=case.closed_form(world),
        simulated=estimate.value,
        stderr=estimate.stderr,
        n=n,
    )


def _speedup(case: Case, world: World, n: int, seed: int) -> Estimate:
    """Ratio of totals over answers; for a world without ends, of the times before the last steps.

    The steps of a short answer are the first steps of the long one (same streams), so that the difference of their
    times is the time of the steps between, without the effect of the end.
    """
    make = case.spec.build(**case.knobs)
    meets: Meets = "candidates" if case.spec.level == "beam" else "speculation"

    def run(world: World) -> NDArray[np.float64]:
        plain = engines_of(world)
        behaviour, engines = case.behaviour(world, seed), case.engines(world)
        method, baseline = with_plain(make, behaviour, engines, meets=meets, plain_engines=plain)
        return np.array([trial_seconds(one, range(n)) for one in (baseline, method)])

    seconds = run(world)
    if not world.ends:
        seconds = seconds - run(replace(world, steps=END_STEPS))
    return ratio_of_totals(*seconds, seed=seed)


def _json() -> Any:
    return files("sim.gaps").joinpath("gaps.json")


def committed_cells() -> list[Cell]:
    """The committed table."""
    return [Cell(**cell) for cell in json.loads(_json().read_text(encoding="utf-8"))["cells"]]
