"""Prometheus metrics of the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from specplan.live.comparing.comparison import Verdict
from specplan.live.comparing.measured import Measured
from specplan.live.drift.watch import DriftWatch
from specplan.live.gateway.control import Control

__all__ = ["GatewayMetrics"]

_LATENCIES: Final = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0)
_VERDICTS: Final = {Verdict.GAINS: 1.0, Verdict.UNKNOWN: 0.0, Verdict.LOSES: -1.0}
_COUNTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "answers": ("Answers that ended, by reason.", "finish"),
    "requests_refused": ("Refused requests, by status.", "status"),
    "draft_steps": (
        "Draft steps by outcome: accepted, rejected, late (cancelled before they were complete), in_vain (complete, "
        "then discarded).",
        "outcome",
    ),
    "requests_forwarded": (
        "Requests forwarded to the target's server, by the field that step-level methods cannot serve.",
        "field",
    ),
    "committed_steps": ("Committed steps, by the model that generated them.", "role"),
    "committed_tokens": ("Committed tokens, by the model that generated them.", "role"),
    "generated_tokens": ("Generated tokens by model, discarded ones included unless cancelled unseen.", "role"),
    "fallbacks": ("Answers that continued with plain decoding, by role and reason.", "role", "reason"),
}
"""Counters by name, without ``specplan_``: what each counts, and its labels."""


class GatewayMetrics:
    """Counters of one gateway.

    Parameters
    ----------
    control : counts the answers in flight, and knows what was measured.
    watch : reports drift.
    """

    def __init__(self, control: Control, watch: DriftWatch) -> None:
        self.registry = CollectorRegistry()
        self._counters = {
            name: Counter(f"specplan_{name}", about, labels, registry=self.registry)
            for name, (about, *labels) in _COUNTERS.items()
        }
        self._verified = Histogram(
            "specplan_verification_seconds",
            "Seconds of a verdict, score or choice, by role.",
            ["role"],
            buckets=_LATENCIES,
            registry=self.registry,
        )
        self._took = Histogram(
            "specplan_answer_seconds",
            "Seconds of an answer.",
            buckets=tuple(10.0 * bound for bound in _LATENCIES),
            registry=self.registry,
        )
        self._gauge("in_flight", "Answers in flight.", lambda: control.in_flight)
        self._gauge("speculating", "1 if new steps are drafted, 0 if not.", lambda: control.wanted().speculates)
        self._gauge("switches", "Changes of the configuration, but for failures.", lambda: control.n_switches)
        if control.measured is not None:
            self.registry.register(_Comparisons(control.measured))
        drift = Gauge(
            "specplan_drift_evidence",
            "Evidence of drift from the prediction / evidence that raises the alarm, on a log scale; 1: alarm.",
            ["what"],
            registry=self.registry,
        )
        for what in watch.watched:
            drift.labels(what).set_function(partial(watch.evidence, what))

    def _gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        Gauge(f"specplan_{name}", about, registry=self.registry).set_function(lambda: float(value()))

    def page(self) -> bytes:
        """Return the metrics page."""
        return generate_latest(self.registry)

    def count(self, name: str, *labels: str, n: int = 1) -> None:
        """Count so many more of a counter, which is named without ``specplan_``."""
        self._counters[name].labels(*labels).inc(n)

    def ran(self, counts: Mapping[str, Mapping[str, int]], verdicts: Sequence[tuple[str, float]]) -> None:
        """Count the operations and commits of a generator that ended.

        Parameters
        ----------
        counts : counter, without ``specplan_`` -> label -> number.
        verdicts : role and seconds of each verdict, score or choice.
        """
        for name, by_label in counts.items():
            for label, n in by_label.items():
                self.count(name, label, n=n)
        for role, seconds in verdicts:
            self._verified.labels(role).observe(seconds)

    def ended(self, finish: str, seconds: float) -> None:
        """Count an answer that ended."""
        self.count("answers", finish)
        self._took.observe(seconds)


class _Comparisons(Collector):
    """What was measured by load."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges."""
        lost = "The largest loss by speculation of a stretch of up to 220 answers that ends now, in plain answers."
        yield GaugeMetricFamily("specplan_lost_answers", lost, value=self._measured.budget.lost)
        about = "What is known of speculation, by answers in flight: 1 it gains, 0 unknown, -1 it loses."
        verdict = GaugeMetricFamily("specplan_verdict", about, labels=["load", "method"])
        about = "Comparisons with plain decoding since the evidence began, by answers in flight."
        pairs = GaugeMetricFamily("specplan_comparisons", about, labels=["load"])
        about = "Speculation over plain decoding, by answers in flight: the mean and the interval's ends."
        gain = GaugeMetricFamily("specplan_gain", about, labels=["load", "of", "end"])
        for load, one in self._measured.comparisons.items():
            verdict.add_metric([str(load), one.candidate.name], _VERDICTS[one.verdict])
            pairs.add_metric([str(load)], one.n_pairs)
            for of, interval in one.intervals.items():
                for end, value in interval.known.items():
                    gain.add_metric([str(load), of, end], value)
        yield from (verdict, pairs, gain)
