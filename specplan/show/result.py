"""A result as text, JSON, rows, data frame and HTML for notebooks."""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from theory.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

    from specplan.show.page import Report

__all__ = ["Result", "flat"]


class Result(ABC):
    """The result of an analysis."""

    @abstractmethod
    def text(self, *, verbose: bool = False) -> str:
        """Return the text of the command, with ``verbose`` that of its ``-v``."""

    def parts(self, *, verbose: bool = False) -> Iterator[str]:
        """Yield the text in parts with a line between them, each as soon as it is known."""
        yield self.text(verbose=verbose)

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """Return the output of the command with ``--json`` as plain data."""

    @abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """Return the rows of the result; an estimate is three fields: its value, ``_low`` and ``_high``."""

    def headline(self) -> str:
        """Return the recommendation in a sentence or two; empty where there is none."""
        return ""

    def report(self) -> Report:
        """Return the page that ``--report`` writes, of results that have one."""
        raise NotImplementedError

    def conclude(self) -> None:  # noqa: B027 (most commands end with 0)
        """End the command that has printed the result: raise where its exit code is not 0."""

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
        """Return HTML for notebooks: headline and rows, with the full text folded."""
        rows = self.records()
        names = list(dict.fromkeys(name for row in rows for name in row))
        head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_shown(row.get(name)))}</td>" for name in names) + "</tr>"
            for row in rows
        )
        headline = f"<p><b>{html.escape(self.headline())}</b></p>" if self.headline() else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        rest = f"<details><summary>full text</summary><pre>{html.escape(self.text(verbose=True))}</pre></details>"
        return headline + table + rest


def flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with each estimate (an object or a mapping with value, low, high) as three fields."""
    columns: dict[str, Any] = {}
    for name, value in fields.items():
        ends = value if isinstance(value, Mapping) else {k: getattr(value, k, None) for k in ("value", "low", "high")}
        if {"value", "low", "high"} <= ends.keys() and ends["low"] is not None:
            columns |= {name: ends["value"], f"{name}_low": ends["low"], f"{name}_high": ends["high"]}
        else:
            columns[name] = value
    return columns


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
