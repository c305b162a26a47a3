"""What a serving engine spends beyond the operators of a pass, by engine and version.

Two engines differ in these constants and in nothing else. Fitted to served models by
``python -m benchmarks.fit_hardware FOLDER``: ML.ENERGY Benchmark v3 (vLLM 0.11.1) and NVIDIA aiconfigurator's table of
aggregated serving (later versions of vLLM, TensorRT-LLM, SGLang), both Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from theory.errors import ParameterError

__all__ = ["ENGINES", "EngineConstants", "engine_named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConstants:
    """Constants of an engine."""

    name: str
    version: str
    layer_s: float
    """Per layer of a pass beyond its operators (norms, activations, gaps between kernels), s."""
    sequence_s: float
    """Per sequence and iteration (sampling, scheduling, transport), s."""
    round_s: float = 0.0
    """Per round of speculation beyond its passes (rejection, bookkeeping, starting the drafter), s."""


ENGINES: Final[Mapping[tuple[str, str], EngineConstants]] = MappingProxyType(
    {
        (one.name, one.version): one
        for one in (
            EngineConstants(name="vllm", version="0.11.1", layer_s=3.4e-5, sequence_s=5.0e-5, round_s=1.0e-3),
            EngineConstants(name="vllm", version="0.19.0", layer_s=2.3e-5, sequence_s=2.5e-6, round_s=1.0e-3),
            EngineConstants(name="trtllm", version="1.0.0", layer_s=3.2e-5, sequence_s=0.0, round_s=1.0e-3),
            EngineConstants(name="sglang", version="0.5.9", layer_s=2.5e-5, sequence_s=5.0e-6, round_s=1.0e-3),
        )
    }
)
"""Constants by name and version."""


def engine_named(name: str, version: str | None = None) -> EngineConstants:
    """Return the constants of an engine; those of the nearest known version, of the latest if none is said.

    Raises
    ------
    ParameterError : an unknown engine.

    >>> engine_named("vLLM", "0.11.2").version
    '0.11.1'
    """
    plain = "".join(c for c in name.lower() if c.isalnum()).replace("tensorrtllm", "trtllm")
    known = {key[1]: one for key, one in ENGINES.items() if key[0] == plain}
    if not known:
        names = ", ".join(dict.fromkeys(key[0] for key in ENGINES))
        raise ParameterError("engine", name, f"is not known: known are {names}")
    if not version:
        return known[max(known, key=_numbers)]
    wanted = _numbers(version)
    return known[min(known, key=lambda one: _distance(_numbers(one), wanted))]


def _numbers(version: str) -> tuple[int, ...]:
    parts = []
    for part in version.split(".")[:3]:
        digits = "".join(c for c in part if c.isdigit())
        parts.append(int(digits) if digits and part[:1].isdigit() else 0)
    return (*parts, 0, 0, 0)[:3]


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(abs(a - b) for a, b in zip(one, other, strict=True))
