"""What validations say about the simulator's own error: ``python -m workshop.fit_model_error SOURCE ... [--write]``.

A SOURCE is a validation (``specplan validate --json -o RUN.json``) or a page with tables of predicted and measured
speedups, a validation for each of its second headings (``VALIDATION.md``; its predictions must be without a model error
in their intervals, as they were until 22 November 2026). Prints the error of each kind of methods, half-widths of 95 %,
and how many measured speedups lie inside their intervals, each with an error fitted to the *other* validations.
``--write`` renews ``model_error.json``, from which `specplan.planning.model_error` reads.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from calibrate.record.files import write_atomically
from sim.configuration import Configuration
from specplan.check.validating.comparison import inside
from specplan.output import table
from specplan.planning.model_error import KINDS, Validated, fit_kinds
from theory.errors import ParameterError

__all__ = ["from_page", "from_run", "read", "report"]

FILE: Final = Path(__file__).resolve().parent.parent / "specplan" / "planning" / "model_error.json"

_NUMBER: Final = r"([\d.]+) \[([\d.]+), ([\d.]+)\]"
_ROW: Final = re.compile(rf"\| (?P<name>[^|]+?) \| {_NUMBER} \| {_NUMBER} \| ")


def read(path: Path) -> list[Validated]:
    """Return the rows of a validation, or of a page.

    Raises
    ------
    ParameterError : a file of another kind, or without rows.
    """
    text = path.read_text(encoding="utf-8")
    found = from_page(text, path.name) if path.suffix == ".md" else from_run(json.loads(text), path.stem)
    if not found:
        raise ParameterError("source", str(path), "must be a JSON of 'specplan validate' or a page with such tables")
    return found


def from_run(run: Mapping[str, Any], source: str) -> list[Validated]:
    """Return the rows of a validation, their predictions without the model error that they had then."""
    if run.get("schema") != "specplan.validation":
        return []
    return [_row(row, source) for row in run["rows"]]


def _row(row: Mapping[str, Any], source: str) -> Validated:
    errors, real, expected = row["prediction"]["errors"], row["measured"]["speedup"], row.get("next_measurement")
    all_errors = math.hypot(*errors.values())
    whole = None if expected is None else math.log(expected["high"] / expected["low"]) / 2.0
    return Validated(
        source=source,
        name=row["name"],
        predicted=row["prediction"]["speedup"]["value"],
        predicted_half=math.hypot(errors["sampling"], errors["profile"]),
        measured=real["value"],
        measured_half=(real["high"] - real["low"]) / 2.0 / real["value"],
        expected_half=None if whole is None else math.sqrt(max(whole**2 - all_errors**2, 0.0)),
    )


def from_page(text: str, source: str) -> list[Validated]:
    """Return the rows of a page's tables that begin with a configuration, a prediction and a measurement."""
    found, heading = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line[3:].strip()
        row = _ROW.match(line)
        if row is None or not _is_configuration(row["name"]):
            continue
        predicted, low, high, measured, measured_low, measured_high = (float(x) for x in row.groups()[1:])
        found.append(
            Validated(
                source=f"{source}: {heading}",
                name=row["name"],
                predicted=predicted,
                predicted_half=math.log(high / low) / 2.0,
                measured=measured,
                measured_half=(measured_high - measured_low) / 2.0 / measured,
            )
        )
    return found


def _is_configuration(name: str) -> bool:
    try:
        Configuration.parse(name)
    except ParameterError:
        return False
    return True


def report(rows: Sequence[Validated]) -> str:
    """The error of each kind, and the coverage of intervals that have it."""
    errors, beyond = fit_kinds(rows), _coverage(rows)
    lines = []
    for kind in (*KINDS, "all"):
        own = [row for row in rows if kind in (row.kind, "all")]
        if own:
            scale = math.sqrt(sum(row.residual**2 for row in own) / len(own))
            chance = math.sqrt(sum(row.variance for row in own) / len(own))
            error = f"{100 * errors[kind].half_width:.1f} %" if kind in errors else "–"
            share = [held for row, held in zip(rows, beyond, strict=True) if kind in (row.kind, "all")]
            cells = [kind, str(len(own)), *(f"{100 * x:.1f} %" for x in (scale, chance)), error]
            lines.append([*cells, _noise(own), _told(share)])
    head = ["kind", "rows", "residual, rms", "chance, rms", "model error, 95 %", "noise, measured / expected"]
    return table([*head, "inside, fitted to other validations"], lines)


def _noise(rows: Sequence[Validated]) -> str:
    """Half-widths of measurements / what was expected of them, root mean squares."""
    known = [(row.measured_half, row.expected_half) for row in rows if row.expected_half]
    return f"{math.hypot(*(m for m, _ in known)) / math.hypot(*(e for _, e in known)):.2f}" if known else "–"


def _coverage(rows: Sequence[Validated]) -> list[bool]:
    """Whether each speedup was measured inside the interval for it, with the model error of the other validations."""
    others = {
        source: fit_kinds([row for row in rows if row.source != source]) for source in {row.source for row in rows}
    }
    return [row.inside(others[row.source].get(row.kind)) for row in rows]


def _told(held: Sequence[bool]) -> str:
    share = inside([0.5] * len(held), [1.5] * len(held), [float(one) for one in held])
    return f"{sum(held)} of {len(held)} [{share.low:.2f}, {share.high:.2f}]"


def main(arguments: Sequence[str]) -> None:
    """Print the report, and write the file if asked to."""
    paths = [Path(one) for one in arguments if one != "--write"]
    rows = [row for path in paths for row in read(path)]
    print(report(rows))
    if "--write" in arguments:
        record = {"schema_version": 1, "rows": [row.plain() for row in rows]}
        write_atomically(FILE, json.dumps(record, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
