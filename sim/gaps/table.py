"""Table of the errors of the closed forms against the simulator, with and without their assumptions.

``python -m workshop.gaps_table`` simulates every method that has a closed form, first under the form's assumptions
(constant step lengths, independent acceptance, free verification, parallel steps for free, no request overhead, long
answers), then with one of them broken at a time, then with all of them broken; ``specplan methods --gaps`` prints it.
Broken assumptions have the values measured on real models (`MEASURED`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from sim.catalogue import Method, method, methods
from sim.gaps.forms import CLOSED_FORMS, Knobs
from sim.gaps.worlds import CONDITIONS, World
from sim.roles import DRAFT, TARGET

__all__ = ["CASES", "CLOSED_FORMS", "END_STEPS", "Case", "Cell", "committed_cells", "without_closed_form"]

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


def committed_cells() -> list[Cell]:
    """The committed table."""
    text = files("sim.gaps").joinpath("gaps.json").read_text(encoding="utf-8")
    return [Cell(**cell) for cell in json.loads(text)["cells"]]
