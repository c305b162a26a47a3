"""Plans from recorded acceptance and fitted times: tables by depth and batch size, and draft trees."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specplan.output import screen, table
from specplan.show.result import Result, flat

if TYPE_CHECKING:
    from specplan.planning.traced import TracedCell, TracedPlan
    from theory.drafting.ranked_trees import FastestTree

__all__ = ["TracesPlan", "TreePlan"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TracesPlan(Result):
    """Speedups of each drafter on recorded requests, by tokens drafted and batch size."""

    plan: TracedPlan

    def headline(self) -> str:
        """Return what is best at the smallest of the batch sizes."""
        return _best(self.plan, self.plan.batches[0])

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan plan --acceptance TRACES --latency FILE`` prints; ``-v`` adds tokens per round."""
        title = f"Speedup over plain decoding on {self.plan.requests} recorded requests, by requests at once:"
        notes = ["any: as many drafted as will be accepted, which no drafter knows."]
        return screen([_best(self.plan, b) for b in self.plan.batches], [title], _table(self.plan, verbose), notes)

    def plain(self) -> dict[str, Any]:
        """Return what it prints with ``--json``."""
        return {
            "schema": "specplan.traced-plan",
            "schema_version": 1,
            "requests": self.plan.requests,
            "cells": [
                _fields(cell) | {"speedup": {end: getattr(cell.speedup, end) for end in ("value", "low", "high")}}
                for cell in self.plan.cells
            ],
        }

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each cell."""
        return [flat(_fields(cell) | {"speedup": cell.speedup}) for cell in self.plan.cells]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TreePlan(Result):
    """The draft tree with which a token takes the least time."""

    fastest: FastestTree

    def headline(self) -> str:
        """Return the tree, what it commits and what a token takes."""
        tree, fastest = self.fastest.tree, self.fastest
        return (
            f"Fastest: a tree of {tree.nodes} positions on {tree.levels} levels, {tree.tokens:.4f} tokens a pass: "
            f"{1e3 * fastest.seconds_per_token:.4f} ms a token, {fastest.speedup:.4f} times as fast as plain decoding."
        )

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan plan --acceptance RANKS --latency FILE`` prints."""
        children = Counter(self.fastest.tree.parents[1:])
        rows = [
            [str(node), "–" if parent < 0 else str(parent), str(children[node])]
            for node, parent in enumerate(self.fastest.tree.parents)
        ]
        return screen([self.headline()], table(["position", "after", "drafts after it"], rows))

    def plain(self) -> dict[str, Any]:
        """Return what it prints with ``--json``."""
        tree = self.fastest.tree
        return {
            "schema": "specplan.tree-plan",
            "schema_version": 1,
            "parents": list(tree.parents),
            "levels": tree.levels,
            "tokens_per_pass": tree.tokens,
            "seconds_per_token": self.fastest.seconds_per_token,
            "speedup": self.fastest.speedup,
        }

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each position of the tree."""
        return [{"position": node, "parent": parent} for node, parent in enumerate(self.fastest.tree.parents)]


def _fields(cell: TracedCell) -> dict[str, Any]:
    names = ("drafter", "k", "batch", "tokens_per_s", "tokens_per_round")
    return {name: getattr(cell, name) for name in names}


def _best(plan: TracedPlan, batch: int) -> str:
    best = plan.best(batch)
    if best is None:
        return f"At {batch} at once: plain decoding; no drafter is faster."
    s = best.speedup
    interval = f" [{s.low:.2f}, {s.high:.2f}]" if plan.requests > 1 else ""
    return f"At {batch} at once: {best.drafter}, k = {best.k}: {s.value:.2f} times plain decoding{interval}."


def _table(plan: TracedPlan, verbose: bool) -> str:
    rows: dict[tuple[str, str], list[str]] = {}
    for cell in plan.cells:
        kind = cell.drafter, "any" if cell.k is None else str(cell.k)
        start = [*kind, *([f"{cell.tokens_per_round:.2f}"] if verbose else [])]
        rows.setdefault(kind, start).append(f"{cell.speedup.value:.2f}")
    names = ["drafter", "k", *(["tokens/round"] if verbose else []), *map(str, plan.batches)]
    return table(names, list(rows.values()))
