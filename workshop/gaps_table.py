"""Simulate the table of gaps: ``python -m workshop.gaps_table [--write] [--missing]`` (see `sim.gaps.table`)."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from joblib import Parallel, delayed

from calibrate.record.files import write_atomically
from sim.gaps.table import CASES, SEED, STEPS, committed_cells, simulated_cell
from sim.gaps.worlds import CONDITIONS
from specplan.gaps_text import gaps_text
from specplan.output import progress

FILE = Path(__file__).resolve().parent.parent / "sim" / "gaps" / "gaps.json"


def main() -> None:
    """Simulate and print the table; ``--write`` also renews gaps.json, ``--missing`` simulates only what it lacks."""
    every = [(case, condition) for case in CASES for condition in CONDITIONS if case.is_about(condition)]
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
