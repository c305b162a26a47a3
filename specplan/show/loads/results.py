"""Plans from names as results: at each load, and on each of several types of GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specplan.show.loads.first_screen import first_screen
from specplan.show.loads.gpu_types import cheapest, gpus_as_json, gpus_first_screen
from specplan.show.loads.plain import plan_as_json
from specplan.show.loads.reports import gpus_report, load_plan_report
from specplan.show.loads.words import verdict
from specplan.show.rendering import as_text
from specplan.show.result import Result, flat

if TYPE_CHECKING:
    from specplan.planning.loads.asked import AskedPlan
    from specplan.planning.loads.gpu_types import GpuPlans
    from specplan.show.page import Report

__all__ = ["GpusPlan", "LoadsPlan"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadsPlan(Result):
    """The best configuration at each load, for models by name on GPUs."""

    asked: AskedPlan

    def conclude(self) -> None:
        """End as interrupted where an interruption left loads out."""
        if self.asked.plan.interrupted:
            raise KeyboardInterrupt

    def report(self) -> Report:
        """Return the plan as a report."""
        return load_plan_report(self.asked)

    def headline(self) -> str:
        """Return what to do at the first of the loads."""
        return verdict(self.asked.plan, *self.asked.plan.loads[0])

    def parts(self, *, verbose: bool = False) -> Iterator[str]:
        """Yield what ``specplan plan --target`` prints, with ``verbose`` what it prints with ``-v``."""
        if verbose:
            yield as_text(self.report())
        else:
            yield from first_screen(self.asked.plan)

    def text(self, *, verbose: bool = False) -> str:
        """Return the parts as one text."""
        return "\n\n".join(self.parts(verbose=verbose))

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan plan --target --json`` prints."""
        return plan_as_json(self.asked.plan, self.asked.settings)

    def records(self) -> list[dict[str, Any]]:
        """Return the configurations of each load, best first."""
        kept = ("configuration", "method", "k", "gain", "tokens_per_s", "answers_per_s", "gpu_s_per_answer", "limit")
        return [
            {"load": load["load"], **flat({name: row[name] for name in kept})}
            for load in self.plain()["loads"]
            for row in load["rows"]
        ]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GpusPlan(Result):
    """The best configuration at each load on each of several types of GPUs, and what it costs."""

    found: GpuPlans

    def report(self) -> Report:
        """Return the plans as a report."""
        return gpus_report(self.found)

    def headline(self) -> str:
        """Return the cheapest type at the first of the loads."""
        return cheapest(self.found, self.found.loads[0])

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan plan --target --gpu A,B`` prints, with ``verbose`` what it prints with ``-v``."""
        return as_text(self.report()) if verbose else gpus_first_screen(self.found)

    def plain(self) -> dict[str, Any]:
        """Return what it prints with ``--json``."""
        return gpus_as_json(self.found)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each load and type, the cheapest of a load first."""
        return [{"load": load["load"], **flat(row)} for load in self.plain()["loads"] for row in load["gpus"]]
