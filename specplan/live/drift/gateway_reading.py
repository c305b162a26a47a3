"""Readings of a gateway's metrics, at one moment or between two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calibrate.engines.prometheus import Sample, counted, parse_metrics
from theory.errors import SchemaError

__all__ = ["GatewayReading", "read_gateway"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReading:
    """Counts of a gateway's metrics since its start, or between two readings."""

    source: str
    steps: Mapping[str, float]
    """Draft steps by outcome."""
    committed: Mapping[str, float]
    """Committed steps by role."""
    tokens: Mapping[str, float]
    """Committed tokens by role."""
    answers: float

    def since(self, earlier: GatewayReading) -> GatewayReading:
        """Return the counts between an earlier reading and this one.

        Raises
        ------
        SchemaError : a counter decreased.
        """
        where = f"{earlier.source}, {self.source}"

        def grown(now: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
            growth = {key: value - before.get(key, 0.0) for key, value in now.items()}
            if any(value < 0.0 for value in growth.values()):
                rule = "a counter decreased: the gateway was restarted between the readings, or the files are swapped"
                raise SchemaError(f"{where}: {rule}")
            return growth

        return GatewayReading(
            source=where,
            steps=grown(self.steps, earlier.steps),
            committed=grown(self.committed, earlier.committed),
            tokens=grown(self.tokens, earlier.tokens),
            answers=grown({"": self.answers}, {"": earlier.answers})[""],
        )


def read_gateway(text: str, source: str) -> GatewayReading | None:
    """Read a gateway's metrics; None where the text is not of a gateway.

    Raises
    ------
    SchemaError : not Prometheus text, or an invalid count.
    """
    try:
        samples = parse_metrics(text)
    except SchemaError as error:
        raise SchemaError(f"{source}: {error}") from None
    if not any(sample.name.startswith("specplan_") for sample in samples):
        return None
    try:
        return _reading(samples, source)
    except SchemaError as error:
        raise SchemaError(f"{source}: {error}") from None


def _reading(samples: Sequence[Sample], source: str) -> GatewayReading:
    return GatewayReading(
        source=source,
        steps=_by(samples, "specplan_draft_steps_total", "outcome"),
        committed=_by(samples, "specplan_committed_steps_total", "role"),
        tokens=_by(samples, "specplan_committed_tokens_total", "role"),
        answers=math.fsum(counted(s) for s in samples if s.name == "specplan_answers_total"),
    )


def _by(samples: Sequence[Sample], name: str, label: str) -> dict[str, float]:
    return {s.labels[label]: counted(s) for s in samples if s.name == name and label in s.labels}
