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
from specplan.live.gateway.requests import FIELDS

__all__ = ["GatewayMetrics"]

_LATENCIES: Final = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0)
_VERDICTS: Final = {Verdict.GAINS: 1.0, Verdict.UNKNOWN: 0.0, Verdict.LOSES: -1.0}


class GatewayMetrics:
    """Counters of one gateway.

    Parameters
    ----------
    control : counts the answers in flight, and knows what was measured.
    watch : reports drift.
    """

    def __init__(self, control: Control, watch: DriftWatch) -> None:
        self.registry = CollectorRegistry()
        self._by_name: dict[str, Counter] = {}
        self._answers = self._counter("answers", "Answers that ended, by reason.", "finish")
        self._refused = self._counter("requests_refused", "Refused requests, by status.", "status")
        self._counter(
            "draft_steps",
            "Draft steps by outcome: accepted, rejected, late (cancelled before they were complete), "
            "in_vain (complete, then discarded).",
            "outcome",
        )
        self._forwarded = self._counter(
            "requests_forwarded",
            "Requests forwarded to the target's server, by the field that step-level methods cannot serve.",
            "field",
        )
        self._counter("committed_steps", "Committed steps, by the model that generated them.", "role")
        self._counter("committed_tokens", "Committed tokens, by the model that generated them.", "role")
        self._counter(
            "generated_tokens", "Generated tokens by model, discarded ones included unless cancelled unseen.", "role"
        )
        self._fallbacks = self._counter(
            "fallbacks", "Answers that continued with plain decoding, by role and reason.", "role", "reason"
        )
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

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        counter = self._by_name[name] = Counter(f"specplan_{name}", about, labels, registry=self.registry)
        return counter

    def _gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        Gauge(f"specplan_{name}", about, registry=self.registry).set_function(lambda: float(value()))

    def page(self) -> bytes:
        """Return the metrics page."""
        return generate_latest(self.registry)

    def refused(self, status: int) -> None:
        """Count a refused request."""
        self._refused.labels(str(status)).inc()

    def forwarded(self, fields: Sequence[str]) -> None:
        """Count a forwarded request by its first known field, else as ``other``."""
        self._forwarded.labels(next((field for field in fields if field in FIELDS), "other")).inc()

    def fell_back(self, role: str, reason: str) -> None:
        """Count an answer that continues with plain decoding."""
        self._fallbacks.labels(role, reason).inc()

    def ran(self, counts: Mapping[str, Mapping[str, int]], verdicts: Sequence[tuple[str, float]]) -> None:
        """Count the operations and commits of a generator that ended.

        Parameters
        ----------
        counts : counter, without ``specplan_`` -> label -> number.
        verdicts : role and seconds of each verdict, score or choice.
        """
        for name, by_label in counts.items():
            for label, n in by_label.items():
                self._by_name[name].labels(label).inc(n)
        for role, seconds in verdicts:
            self._verified.labels(role).observe(seconds)

    def ended(self, finish: str, seconds: float) -> None:
        """Count an answer that ended."""
        self._answers.labels(finish).inc()
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
