"""Simulate the table of gaps: ``python -m workshop.gaps_table [--write] [--missing]`` (see `sim.gaps.table`).

A new method is added by an entry in `sim.gaps.forms.CLOSED_FORMS` for the form that its catalogue record names, and,
where it speculates on tokens, by its passes in `workshop.played_passes`; ``--write --missing`` then simulates its cells
only.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from calibrate.record.files import write_atomically
from sim.algorithms import autoregressive
from sim.answers.drawn import Behaviour
from sim.catalogue import Meets
from sim.estimate import ratio_of_totals
from sim.gaps.table import CASES, END_STEPS, Case, Cell, committed_cells
from sim.gaps.worlds import CONDITIONS, World, behaviour_of, engines_of
from sim.trial import Trial, trial_seconds
from specplan.api.methods import gaps_text
from specplan.output import progress
from workshop.played_passes import token_behaviour, token_engines

FILE = Path(__file__).resolve().parent.parent / "sim" / "gaps" / "gaps.json"
SEED: Final = 8
STEPS: Final = 24_000
"""Steps simulated per cell; twice as many where the closed form should hold."""
_TOKEN_CONDITIONS: Final = ("as assumed", "lengths vary", "requests cost", "100 steps an answer", "all of it")
"""Conditions of token-level methods: the other conditions concern drafted steps."""


def is_about(case: Case, condition: str) -> bool:
    """Whether the speedup of a case can depend on a condition."""
    if case.spec.level == "token":
        return condition in _TOKEN_CONDITIONS
    if condition == "siblings correlated":
        return case.settings.get("width", 1) != 1 and not case.is_search
    if condition == "acceptance sticky":
        return not case.is_search
    return not (case.is_finite and condition == "100 steps an answer")


def simulated_cell(case: Case, condition: str, *, n_steps: int = STEPS, seed: int = SEED) -> Cell:
    """Simulate a method in the world of a condition: ratio of totals over answers.

    In a world without ends it is that of the times before the last steps. The steps of a short answer are the first
    steps of the long one (same streams), so that the difference of their times is the time of the steps between.

    Parameters
    ----------
    case : the method with its knobs.
    condition : a name of `CONDITIONS`.
    n_steps : steps to simulate in all; answers are whole, and at least 8.
    seed : of the answers.
    """
    world = case.world(condition)
    n = max(n_steps // world.steps, 8)
    seconds = _seconds(case, world, n, seed)
    if not world.ends:
        seconds = seconds - _seconds(case, replace(world, steps=END_STEPS), n, seed)
    speedup = ratio_of_totals(*seconds, seed=seed)
    return Cell(
        case=case.name,
        condition=condition,
        closed_form=case.closed_form(world),
        simulated=speedup.value,
        stderr=speedup.stderr,
        n=n,
    )


def _seconds(case: Case, world: World, n: int, seed: int) -> NDArray[np.float64]:
    """Seconds of each answer, by plain decoding and by the method, shape (2, n)."""
    behaviour: Behaviour = behaviour_of(world, seed)
    engines = plain = engines_of(world)
    if case.spec.level == "token":
        behaviour = token_behaviour(case.method, world, case.settings, seed)
        engines = token_engines(case.method, world, case.settings)
    meets: Meets = "candidates" if case.spec.level == "beam" else "speculation"
    method = Trial.of(case.spec.build(**case.knobs), behaviour, engines, meets=meets)
    baseline = Trial.of(autoregressive, behaviour, plain, meets="plain")
    return np.array([trial_seconds(one, range(n)) for one in (baseline, method)])


def main() -> None:
    """Simulate and print the table; ``--write`` also renews gaps.json, ``--missing`` simulates only what it lacks."""
    every = [(case, condition) for case in CASES for condition in CONDITIONS if is_about(case, condition)]
    known = {(c.case, c.condition): c for c in committed_cells()} if "--missing" in sys.argv[1:] else {}
    places = [(case, condition) for case, condition in every if (case.name, condition) not in known]
    with progress("simulating", len(places)) as step_done:
        jobs = (
            delayed(simulated_cell)(case, condition, n_steps=STEPS * (2 if condition == "as assumed" else 1))
            for case, condition in places
        )
        for cell in Parallel(n_jobs=-1, return_as="generator")(jobs):
            known[cell.case, cell.condition] = cell
            step_done()
    cells = [known[case.name, condition] for case, condition in every]
    if "--write" in sys.argv[1:]:
        data = {"schema_version": 1, "seed": SEED, "n_steps": STEPS, "cells": [asdict(cell) for cell in cells]}
        write_atomically(FILE, json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    print(gaps_text(cells))


if __name__ == "__main__":
    main()
