"""What a serving engine spends beyond the operators of a pass, by engine and version.

Two engines differ in these constants and in nothing else. vLLM 0.11.1 is fitted to the ML.ENERGY Benchmark v3 by
``python -m benchmarks.fit_hardware FOLDER``, the others to NVIDIA aiconfigurator's table of aggregated serving by
``python -m benchmarks.fit_serving FOLDER``, both Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from theory.errors import ParameterError

__all__ = ["ENGINES", "UNTUNED", "EngineConstants", "engine_named"]


UNTUNED: Final = frozenset({"NVIDIA B200 SXM", "NVIDIA B300 SXM", "NVIDIA GB200", "NVIDIA GB300"})
"""GPUs newer than the engines' tables of tuned kernels for experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConstants:
    """Constants of an engine."""

    name: str
    version: str
    norm_s: float
    """Per normalisation of a layer, with what else stands between operators (activations, gaps between kernels), s."""
    sequence_s: float
    """Per sequence and iteration (sampling, scheduling, transport), s."""
    untuned: float = 0.0
    """What routed experts take more on a GPU for which the engine has no tuned kernels, as a share of their time, [-]:
    where whole experts are dealt out and an iteration has more tokens than a GPU has experts, so that the general
    kernel goes on in larger tiles."""
    untuned_small: float = 0.0
    """The same with no more tokens than a GPU has experts, in smaller tiles, [-]."""
    padding: float = 0.0
    """Rows that are moved with block-wise fp8 experts beside those of tokens, for each expert that a GPU holds: a
    kernel that lays each expert's rows out in blocks of 128 leaves room for 127 more, and passes over all of it."""
    round_s: float = 0.0
    """Per round of speculation beyond its passes (rejection, bookkeeping, starting the drafter), s. Fitted to SGLang;
    taken for the others too."""


ENGINES: Final[Mapping[tuple[str, str], EngineConstants]] = MappingProxyType(
    {
        (one.name, one.version): one
        for one in (
            EngineConstants(
                name="vllm",
                version="0.11.1",
                norm_s=8.1e-6,
                sequence_s=5.69e-5,
                round_s=8.4e-4,
                untuned=0.72,
                untuned_small=0.38,
                padding=127.0,
            ),
            # Fitted to 0.15.1 (as 0.12.0), and to 0.18.0, 0.19.0 and a nightly together. 0.16.0 and 0.17.0 were
            # measured with MiniMax-M2.5 only, which 0.18.0 made faster.
            EngineConstants(name="vllm", version="0.12.0", norm_s=1.07e-5, sequence_s=8.1e-6, round_s=8.4e-4),
            EngineConstants(name="vllm", version="0.16.0", norm_s=2.10e-5, sequence_s=1.01e-5, round_s=8.4e-4),
            EngineConstants(name="vllm", version="0.17.0", norm_s=1.42e-5, sequence_s=1.94e-5, round_s=8.4e-4),
            EngineConstants(name="vllm", version="0.18.0", norm_s=7.8e-6, sequence_s=6.6e-6, round_s=8.4e-4),
            # development versions of 2025
            EngineConstants(name="trtllm", version="0.21.0", norm_s=1.93e-5, sequence_s=0.0, round_s=8.4e-4),
            EngineConstants(name="trtllm", version="1.0.0", norm_s=1.00e-5, sequence_s=3.13e-5, round_s=8.4e-4),
            EngineConstants(name="trtllm", version="1.2.0", norm_s=1.9e-6, sequence_s=3.1e-6, round_s=8.4e-4),
            EngineConstants(name="sglang", version="0.5.6", norm_s=0.0, sequence_s=1.61e-5, round_s=8.4e-4),
        )
    }
)
"""Constants by name and version."""


def engine_named(name: str, version: str | None = None) -> EngineConstants:
    """Return the constants of an engine: of the latest known version up to the one said, or of the earliest.

    Where no version is said, or a nightly build, those of the latest; those of the earliest for other names without
    numbers (development branches).

    Raises
    ------
    ParameterError : an unknown engine.

    >>> engine_named("vLLM", "0.11.2").version, engine_named("vllm", "0.15.1").version
    ('0.11.1', '0.12.0')
    """
    plain = "".join(c for c in name.lower() if c.isalnum()).replace("tensorrtllm", "trtllm")
    known = {_numbers(key[1]): one for key, one in ENGINES.items() if key[0] == plain}
    if not known:
        names = ", ".join(dict.fromkeys(key[0] for key in ENGINES))
        raise ParameterError("engine", name, f"is not known: known are {names}")
    if not version or version.startswith("nightly"):
        return known[max(known)]
    return known[max((one for one in known if one <= _numbers(version)), default=min(known))]


def _numbers(version: str) -> tuple[int, ...]:
    parts = []
    for part in version.split(".")[:3]:
        digits = "".join(c for c in part if c.isdigit())
        parts.append(int(digits) if digits and part[:1].isdigit() else 0)
    return (*parts, 0, 0, 0)[:3]
