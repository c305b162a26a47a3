"""Plans as results: of a profile, and of models by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specplan.show.results.result import Result, flat

if TYPE_CHECKING:
    from sim.estimate import Estimate
    from specplan.planning.advice import Advice
    from specplan.planning.at_once import AtOnce
    from specplan.planning.latency import Timed
    from specplan.planning.loads.asked import AskedPlan
    from specplan.planning.loads.gpu_types import GpuPlans
    from specplan.planning.planner import Plan, Row

__all__ = ["GpusPlan", "LoadsPlan", "ProfilePlan"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProfilePlan(Result):
    """The best configuration of each method for the models of a profile."""

    ranking: Plan
    timings: Timed
    at_once: tuple[AtOnce, ...]
    """The best of each kind of configuration at each requested number of answers at once."""
    advice: Advice
    """Servers and clients that run the best row."""

    @property
    def best(self) -> Row:
        """The row to choose."""
        return self.ranking.best

    @property
    def speedup(self) -> Estimate:
        """Speedup of the best row over plain decoding at concurrency 1."""
        return self.best.prediction.speedup

    def headline(self) -> str:
        """Return the recommendation, its gain and its cost in two sentences."""
        from specplan.show.texts.plan import summary

        return summary(self.ranking)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each method, best first, then a row for each number of answers at once."""
        rows = [_record(row) for row in self.ranking.rows]
        for crowd in self.at_once:
            c = crowd.configuration
            fields = {"method": c.method, "token": c.token, "k1": c.k1, "k2": c.k2, "speedup": crowd.gain}
            rows.append({**flat(fields), "answers_at_once": crowd.answers, "seconds_per_answer": crowd.seconds})
        return rows

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan plan --json`` prints."""
        from specplan.planning.crowds_text import crowds_as_json

        return {
            "schema": "specplan.plan",
            "schema_version": 1,
            "profile": self.ranking.profile,
            "max_parallel": self.ranking.max_parallel,
            "rules": self.ranking.rules,
            "verdict": self.ranking.verdict,
            "assumptions": list(self.ranking.assumptions),
            "unknown": {name: list(lacking) for name, lacking in self.ranking.unknown.items()},
            "latency": self.timings.plain(),
            "rows": [{"label": row.label, "why": row.why, **row.prediction.plain()} for row in self.ranking.rows],
            "at_once": crowds_as_json(list(self.at_once)),
            "advice": self.advice.plain(),
        }

    def text(self, *, verbose: bool = False) -> str:
        """Return the text of ``specplan plan``, with ``verbose`` that of ``specplan plan -v``."""
        from specplan.show.texts.plan import first_screen, plan_as_text

        if verbose:
            return plan_as_text(self.ranking, self.timings, self.at_once, self.advice)
        return first_screen(self.ranking, self.timings, self.at_once)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadsPlan(Result):
    """The best configuration at each load, for models by name on GPUs."""

    asked: AskedPlan

    def headline(self) -> str:
        """Return what to do at the first of the loads."""
        from specplan.planning.loads.shown.words import verdict

        return verdict(self.asked.plan.deployment, *self.asked.plan.loads[0])

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan plan --target`` prints, with ``verbose`` what it prints with ``-v``."""
        from specplan.planning.loads.shown.first_screen import first_screen
        from specplan.planning.loads.shown.verbose import plan_as_text

        return plan_as_text(self.asked.plan, self.asked.settings) if verbose else first_screen(self.asked.plan)

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan plan --target --json`` prints."""
        from specplan.planning.loads.shown.plain import plan_as_json

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

    def headline(self) -> str:
        """Return the cheapest type at the first of the loads."""
        from specplan.planning.loads.shown.gpu_types import cheapest

        return cheapest(self.found, self.found.loads[0])

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan plan --target --gpu A,B`` prints, with ``verbose`` what it prints with ``-v``."""
        from specplan.planning.loads.shown.gpu_types import gpus_as_text, gpus_first_screen

        return gpus_as_text(self.found) if verbose else gpus_first_screen(self.found)

    def plain(self) -> dict[str, Any]:
        """Return what it prints with ``--json``."""
        from specplan.planning.loads.shown.gpu_types import gpus_as_json

        return gpus_as_json(self.found)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each load and type, the cheapest of a load first."""
        return [{"load": load["load"], **flat(row)} for load in self.plain()["loads"] for row in load["gpus"]]


def _record(row: Row) -> dict[str, Any]:
    p = row.prediction
    c = p.configuration
    fields: dict[str, Any] = {"method": c.method, "token": c.token, "k1": c.k1, "k2": c.k2, "speedup": p.speedup}
    fields |= {"why": row.why}
    fields |= {"accuracy": p.accuracy, "false_accepts": p.false_accepts, "peak_sequences": p.peak_sequences}
    fields |= {"wasted_draft": p.wasted_draft, "wasted_target": p.wasted_target}
    return {**flat(fields), "seconds_per_answer": p.seconds_per_answer}
