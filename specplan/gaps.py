"""Where the closed forms hold, and by how much they miss where they do not: each against the simulator.

``python -m specplan.gaps`` simulates every method that has a closed form, first under the assumptions of that form
(constant step lengths, independent acceptance, free verification, parallel steps for free, no request overhead, long
answers), then with one of them broken at a time, then with all of them broken; ``--write`` renews ``gaps.json``, which
``specplan methods --gaps`` prints. How badly an assumption is broken is what was measured on real models (`MEASURED`).

A new method joins the table by an entry in `CLOSED_FORMS` for the form that its catalogue record names;
``--write --missing`` then simulates its cells only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from sim.behaviours import Behaviour
from sim.catalogue import Method, method, methods
from sim.engines import Engine
from sim.estimate import Estimate, ratio_of_totals
from sim.operations import DRAFT, TARGET
from sim.replicate import Simulation, simulate
from specplan.gap_forms import CLOSED_FORMS, Knobs
from specplan.gap_tokens import token_behaviour, token_engines
from specplan.gap_worlds import CONDITIONS, IDEAL, LIMIT, MEASURED, World, behaviour_of, engines_of

__all__ = [
    "CASES",
    "CLOSED_FORMS",
    "Case",
    "Cell",
    "as_text",
    "committed_cells",
    "simulated_cell",
    "without_closed_form",
]


_SEED: Final = 8
_STEPS: Final = 24_000
"""Steps simulated per cell; twice as many where the closed form should hold."""
_END: Final = 20
"""Steps of an answer that is all end: what it takes is taken off a longer one, and with it the effect of the end. Also
the steps of an answer of SPECS, whose form is about a number of steps."""
_ROUNDING: Final = 1e-9
"""Relative error of sums of times over an answer, at most."""

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
"""Knobs to tabulate a method with, where its defaults alone would not do."""


_TOKEN_CONDITIONS: Final = ("as assumed", "lengths vary", "requests cost", "100 steps an answer", "all of it")
"""What is broken for token-level methods: all the rest is about drafted steps."""


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
        """The method and the knobs that matter."""
        settings = self.spec.settings(self.knobs)
        shown = {"k1": settings["k1"]} if self.spec.has("k1") else {}
        return " ".join([self.method, *(f"{k}={v}" for k, v in {**shown, **self.knobs}.items())])

    @property
    def settings(self) -> dict[str, Any]:
        """Every knob's value, and who generates the candidates of a beam search."""
        role = {"role": TARGET if DRAFT not in self.spec.roles else DRAFT} if self.is_search else {}
        return {**self.spec.settings(self.knobs), **role}

    @property
    def is_search(self) -> bool:
        """Whether it is beam search: which candidate is taken is nothing to its time."""
        return self.spec.closed_form == "theory.beams.beam_speedup"

    @property
    def is_finite(self) -> bool:
        """Whether its closed form is about a number of steps."""
        return self.spec.closed_form == "theory.beams.specs_speedup"

    def world(self, condition: str) -> World:
        """The world of a condition, its answers as long as the closed form is told."""
        found = CONDITIONS[condition]
        return replace(found, steps=_END, ends=True) if self.is_finite else found

    def closed_form(self, world: World) -> float:
        """What the closed form says, given what of the world it has terms for."""
        assert self.spec.closed_form is not None
        return CLOSED_FORMS[self.spec.closed_form](world, self.settings)

    def behaviour(self, world: World, seed: int) -> Behaviour:
        """Answers of a world, as the method meets them."""
        if self.spec.level == "token":
            return token_behaviour(self.method, world, self.settings, seed)
        return behaviour_of(world, seed)

    def engines(self, world: World) -> dict[str, Engine]:
        """Engines of a world, with what the method's passes cost."""
        if self.spec.level == "token":
            return token_engines(self.method, world, self.settings)
        return engines_of(world)

    def is_about(self, condition: str) -> bool:
        """Whether a condition can make a difference to it."""
        if self.spec.level == "token":
            return condition in _TOKEN_CONDITIONS
        if condition == "siblings correlated":
            return self.settings.get("width", 1) != 1 and not self.is_search
        if condition == "acceptance sticky":
            return not self.is_search
        return not (self.is_finite and condition == "100 steps an answer")


def _cases() -> Iterator[Case]:
    for name, one in methods().items():
        if one.closed_form in CLOSED_FORMS and not one.ablation:
            yield from (Case(method=name, knobs=knobs) for knobs in _VARIANTS.get(name, ({},)))


CASES: Final = tuple(_cases())


def without_closed_form() -> list[str]:
    """Names of the methods that the table leaves out: no form in `CLOSED_FORMS`, or a variant for comparison only."""
    tabulated = {case.method for case in CASES}
    return [name for name, one in methods().items() if name not in tabulated and one.level != "baseline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A method in a world: what the closed form says, and what the simulator does."""

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
        """Closed form / simulated - 1, [-]: above 0 where the form promises too much."""
        return self.closed_form / self.simulated - 1.0

    @property
    def gap_stderr(self) -> float:
        """Standard error of the gap, [-]."""
        return self.closed_form / self.simulated * self.stderr / self.simulated

    @property
    def z(self) -> float:
        """Closed form less simulation, in standard errors; rounding counts as one where no chance enters."""
        return (self.closed_form - self.simulated) / max(self.stderr, _ROUNDING * self.simulated)


def simulated_cell(case: Case, condition: str, *, n_steps: int = _STEPS, seed: int = _SEED) -> Cell:
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
    found = _speedup(case, world, n, seed)
    return Cell(
        case=case.name,
        condition=condition,
        closed_form=case.closed_form(world),
        simulated=found.value,
        stderr=found.stderr,
        n=n,
    )


def _speedup(case: Case, world: World, n: int, seed: int) -> Estimate:
    """Ratio of totals over answers; of endless ones, over what lies before the last steps.

    The first steps of a short answer are those of the long one (same streams), so that the difference of their times is
    that of the steps between, without end.
    """
    make = case.spec.build(**case.knobs)

    def run(world: World) -> Simulation:
        alone = engines_of(world)
        return simulate(make, case.behaviour(world, seed), case.engines(world), n=n, baseline_engines=alone)

    whole = run(world)
    if world.ends:
        return whole.speedup
    end = run(replace(world, steps=_END))
    pairs = list(zip(whole.records, end.records, strict=True))
    return ratio_of_totals([a.baseline_s - b.baseline_s for a, b in pairs], [a.method_s - b.method_s for a, b in pairs])


def _json() -> Any:
    return files("specplan").joinpath("gaps.json")


def committed_cells() -> list[Cell]:
    """The table as it is committed."""
    return [Cell(**cell) for cell in json.loads(_json().read_text(encoding="utf-8"))["cells"]]


_SHORT: Final = (
    "as assumed",
    "lengths",
    "+ lag 1",
    "+ draft",
    "verdicts",
    "sticky",
    "siblings",
    "parallel",
    "requests",
)
_HEADINGS: Final = dict(zip(CONDITIONS, (*_SHORT, "ends", "all"), strict=True))


def as_text(cells: Sequence[Cell]) -> str:
    """The table for a reader: a row per method, a column per broken assumption."""
    from specplan.output import table

    by_place = {(cell.case, cell.condition): cell for cell in cells}
    rows = []
    for case in dict.fromkeys(cell.case for cell in cells):
        found = [by_place.get((case, condition)) for condition in CONDITIONS]
        assert found[0] is not None
        exact = f"{100.0 * found[0].gap:+.1f} ± {100.0 * found[0].gap_stderr:.1f}"
        rows.append([case, f"{found[0].closed_form:.3f}", exact, *map(_shown, found[1:])])
    worst = max(cell.gap_stderr for cell in cells)
    lines = [
        f"Closed form / simulated speedup - 1, in %, ± at most {100.0 * worst:.1f}; > 0: the form promises too much",
        "",
        table(["method", "closed form", *_HEADINGS.values()], rows),
        "",
        *_legend(),
    ]
    return "\n".join(lines)


def _legend() -> list[str]:
    world = MEASURED
    lines = [
        f"At alpha1 = {IDEAL.alpha1:g}, c1 = {IDEAL.c1:.3f}, escalation {IDEAL.escalation:g}. Broken, one at a time:",
        f"lengths: of steps have CV {world.cv:g}, cut at {LIMIT} tokens; + lag 1: and correlation {world.lag1:g} along",
        f"an answer; + draft: and correlation {world.correlation:g} between draft and target",
        f"verdicts: {world.judge:.3f} target steps by the target, {world.gate:.3f} by the draft (forms with a term for",
        "it are given it)",
        "sticky: P(accept | accepted) = .9, P(accept | rejected) = .3",
        f"siblings: verdicts on drafts of one position correlated {world.siblings:g}",
        f"parallel: 8 target steps side by side take {1.0 + 7 * world.sequence:.2f} times as long as one",
        f"requests: each costs {world.request:.3f} target steps besides its tokens",
        f"ends: answers have {world.steps} steps; elsewhere they are endless (of SPECS, they have {_END} everywhere)",
        "Token-level methods decode one endless text; in lengths, requests and all, each step is a request of its own.",
        "Beams: the form is given mean lengths, where it is the longest candidate that counts (theory.beams).",
    ]
    others = without_closed_form()
    return [*lines, *([f"Not tabulated: {', '.join(others)}."] if others else [])]


def _shown(cell: Cell | None) -> str:
    return "–" if cell is None else f"{100.0 * cell.gap:+.1f}"


def main() -> None:
    """Simulate and print the table; ``--write`` also renews gaps.json, ``--missing`` simulates only what it lacks."""
    import sys
    from pathlib import Path

    from joblib import Parallel, delayed

    from calibrate.profile import write_atomically
    from specplan.output import progress

    every = [(case, condition) for case in CASES for condition in CONDITIONS if case.is_about(condition)]
    known = {(c.case, c.condition): c for c in committed_cells()} if "--missing" in sys.argv[1:] else {}
    places = [(case, condition) for case, condition in every if (case.name, condition) not in known]
    with progress("simulating", len(places)) as step_done:
        jobs = (
            delayed(simulated_cell)(case, condition, n_steps=_STEPS * (2 if condition == "as assumed" else 1))
            for case, condition in places
        )
        for cell in Parallel(n_jobs=-1, return_as="generator")(jobs):
            known[cell.case, cell.condition] = cell
            step_done()
    cells = [known[case.name, condition] for case, condition in every]
    if "--write" in sys.argv[1:]:
        data = {"schema_version": 1, "seed": _SEED, "n_steps": _STEPS, "cells": [asdict(cell) for cell in cells]}
        write_atomically(
            Path(__file__).with_name("gaps.json"), json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        )
    print(as_text(cells))  # noqa: T201 - a script


if __name__ == "__main__":
    main()
