"""Files that hold one curve of token acceptance: what ``specplan acceptance`` writes (JSON, CSV)."""

from __future__ import annotations

import csv
from typing import Any, Final

from calibrate.token_acceptance.curves import CONVENTIONS, AcceptanceCurve
from calibrate.token_acceptance.text import load_json, number
from theory.errors import ParameterError, SchemaError

__all__ = ["SCHEMA", "curve_as_csv", "curve_in_text"]

SCHEMA: Final = "specplan.acceptance"


def curve_in_text(text: str, where: str) -> tuple[AcceptanceCurve, str] | None:
    """Return the curve of a JSON or CSV text of ``specplan acceptance``, and the method by its engines' name.

    None where the text is neither JSON nor such CSV; an empty name where it does not tell the method.

    Raises
    ------
    SchemaError : JSON of another kind, or rates that are no numbers.
    """
    if text.lstrip().startswith("{"):
        data = load_json(text, where)
        if data.get("schema") != SCHEMA:
            raise SchemaError(f"{where}: schema: must be {SCHEMA}, as 'specplan acceptance --json' writes it")
        return _of_json(data, where), str(data.get("method") or "")
    first = text.lstrip().partition("\n")[0]
    convention = next((one for one in CONVENTIONS if one in [cell.strip() for cell in first.split(",")]), None)
    if convention is None:
        return None
    rows = list(csv.DictReader(text.strip().splitlines(), skipinitialspace=True))
    rates = [_cell(row[convention], f"{where}: line {line}") for line, row in enumerate(rows, 2)]
    return AcceptanceCurve.of(rates, convention), ""


def curve_as_csv(curve: AcceptanceCurve) -> str:
    """Return a curve as CSV: k, unconditional, conditional."""
    rows = zip(curve.unconditional, curve.conditional(), strict=True)
    lines = [f"{k},{u!r},{'' if c is None else repr(c)}" for k, (u, c) in enumerate(rows, 1)]
    return "\n".join(["k,unconditional,conditional", *lines])


def _of_json(data: dict[str, Any], where: str) -> AcceptanceCurve:
    rates = data.get("unconditional")
    if not isinstance(rates, list) or not rates:
        raise SchemaError(f"{where}: unconditional: must be a list of rates by position")
    values = [number(rate, f"{where}: unconditional[{j}]") for j, rate in enumerate(rates)]
    hit = data.get("hit_rate")
    return AcceptanceCurve.of(values, "unconditional", None if hit is None else number(hit, f"{where}: hit_rate"))


def _cell(text: str | None, where: str) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise ParameterError("acceptance", text, f"must be a rate in [0, 1] ({where})") from None
