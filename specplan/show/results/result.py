"""A result: as the command's text, as its JSON, as rows, as a data frame, and in a notebook."""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from theory.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Result", "flat"]


class Result(ABC):
    """What an analysis found."""

    @abstractmethod
    def text(self, *, verbose: bool = False) -> str:
        """Return what the command prints, with ``verbose`` what it prints with ``-v``."""

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """Return what the command prints with ``--json``, as plain data."""

    @abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """Return the rows of the result; an estimate is three fields: its value, ``_low`` and ``_high``."""

    def headline(self) -> str:
        """Return what to do, in a sentence or two; empty where there is nothing to do."""
        return ""

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a data frame.

        Raises
        ------
        ParameterError : pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ParameterError(
                "to_frame", "pandas", "is not installed: pip install pandas, or use records()"
            ) from None
        return pd.DataFrame.from_records(self.records())

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """As notebooks show it: the headline above the rows, and the rest folded."""
        rows = self.records()
        names = list(dict.fromkeys(name for row in rows for name in row))
        head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_shown(row.get(name)))}</td>" for name in names) + "</tr>"
            for row in rows
        )
        headline = f"<p><b>{html.escape(self.headline())}</b></p>" if self.headline() else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        rest = f"<details><summary>all of it</summary><pre>{html.escape(self.text(verbose=True))}</pre></details>"
        return headline + table + rest


def flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with each estimate (an object or a mapping with value, low, high) as three fields."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        ends = value if isinstance(value, Mapping) else {k: getattr(value, k, None) for k in ("value", "low", "high")}
        if {"value", "low", "high"} <= ends.keys() and ends["low"] is not None:
            found |= {name: ends["value"], f"{name}_low": ends["low"], f"{name}_high": ends["high"]}
        else:
            found[name] = value
    return found


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
