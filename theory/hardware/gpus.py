"""The table of GPUs: fitted constants, and what is expected of GPUs of which the data sheet is known.

Fitted constants are printed by ``python -m benchmarks.fit_hardware FOLDER``, beside what the fit gives again; where
they are not the fit's, a comment says whose they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from theory.errors import ParameterError
from theory.hardware.gpu_records import (
    SHEETS,
    AttentionRates,
    ExpertRates,
    Gpu,
    LatentRates,
    ProductRates,
    SparseRates,
    StateRates,
    StreamRates,
    SumRates,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Rates = TypeVar("_Rates", bound=DataclassInstance)

__all__ = ["GPUS", "gpu_named", "unmeasured"]

_ALIASES: Final[Mapping[str, str]] = {
    "6000pro": "NVIDIA RTX PRO 6000",
    "dgxspark": "NVIDIA GB10",
    "h203e": "NVIDIA H20 141GB",
    "thor": "NVIDIA Jetson Thor",
    "jetsonagxthor": "NVIDIA Jetson Thor",
    "ryzenaimax395": "AMD Strix Halo",
    "8060s": "AMD Strix Halo",
    "7900xtx": "AMD Radeon RX 7900 XTX",
    "w7900": "AMD Radeon PRO W7900",
    "r9700": "AMD Radeon AI PRO R9700",
}

_PRODUCTS: Final = {
    "NVIDIA H100 SXM": {
        "bf16": ProductRates(3.80e-6, 2.96e12, 8.09e14, 2.73),
        "fp8": ProductRates(5.50e-6, 2.74e12, 1.34e15, 2.5, 2.48e-9, 3.65e11),
        "fp8-block": ProductRates(4.42e-6, 2.86e12, 1.45e15, 1.82, 1.02e-9, 5.13e11, 256.0, 256.0),
    },
    "NVIDIA H200 SXM": {
        "bf16": ProductRates(4.10e-6, 4.06e12, 8.02e14, 3.12),
        "fp8": ProductRates(5.55e-6, 3.77e12, 1.49e15, 1.89, 2.47e-9, 3.51e11),
        "fp8-block": ProductRates(4.34e-6, 3.96e12, 1.44e15, 1.57, 1.02e-9, 5.67e11, 256.0, 256.0),
    },
    "NVIDIA B200 SXM": {
        "bf16": ProductRates(3.59e-6, 6.32e12, 1.63e15, 2.44),
        "fp8": ProductRates(5.54e-6, 6.49e12, 4.06e15, 1.34, 1.17e-9, 4.06e11, 512.0, 256.0),
        "fp8-block": ProductRates(5.96e-6, 6.46e12, 3.48e15, 1.93, 7.9e-10, 1.73e12, 256.0, 256.0),
        "fp4": ProductRates(6.66e-6, 6.0e12, 4.94e15, 2.3, 5.97e-10, 2.53e12, 256.0, 256.0),
    },
    "NVIDIA A100 SXM": {"bf16": ProductRates(5.77e-6, 1.55e12, 2.63e14, 1.65)},
    "NVIDIA L40S": {
        "bf16": ProductRates(3.98e-6, 7.04e11, 2.29e14, 2.17),
        "fp8": ProductRates(4.99e-6, 6.23e11, 4.69e14, 3.83, 3.89e-9, 2.57e11, 128.0, 32.0, 1240.0),
    },
    "NVIDIA RTX PRO 6000": {
        "bf16": ProductRates(2.0e-6, 1.53e12, 4.01e14, 1.62),
        "fp8": ProductRates(4.03e-6, 1.47e12, 9.52e14, 3.24, 1.47e-9, 3.04e11, 256.0, 256.0),
        "fp8-block": ProductRates(5.79e-6, 1.76e12, 6.71e14, 1.52, 2.52e-9, 1.87e11, 128.0, 128.0),
        "fp4": ProductRates(5.88e-6, 1.23e12, 1.47e15, 100.0, 3.46e-9, 1.09e12, 256.0, 256.0),
    },
}
_ATTENTION: Final = {
    "NVIDIA H100 SXM": AttentionRates(1.20e-5, 2.30e-8, 3.11e12, 2.03e12, 1.04e15, 1.13, 128.0, packed=True),
    "NVIDIA H200 SXM": AttentionRates(1.20e-5, 2.39e-8, 4.30e12, 2.18e12, 1.01e15, 1.15, 128.0, packed=True),
    "NVIDIA B200 SXM": AttentionRates(9.67e-6, 1.05e-8, 7.28e12, 2.09e12, 3.16e15, 9.5, 256.0, packed=False),
    "NVIDIA A100 SXM": AttentionRates(1.23e-5, 3.29e-8, 1.66e12, 2.14e12, 2.01e14, 1.30, 64.0, False, 2.32e10, 6.03e-6),
    "NVIDIA RTX PRO 6000": AttentionRates(
        8.90e-6, 2.14e-8, 1.93e12, 4.32e12, 3.51e14, 1.39, 64.0, False, 2.65e10, 3.80e-6
    ),
    "NVIDIA L40S": AttentionRates(8.85e-6, 3.09e-8, 7.36e11, 3.84e12, 2.16e14, 2.06, 64.0, False, 3.01e10, 3.11e-6),
}
# Of SGLang 0.5.14, heads of 256 and 512 numbers; Hopper and AMD's are like H200, older and consumer cards RTX PRO 6000.
_GENERAL: Final = {
    name: AttentionRates(*rates, tile=64.0, packed=False, block_bandwidth=1e11, general=True)
    for name, rates in {
        "NVIDIA H200 SXM": (8.5e-6, 6.4e-9, 3.0e12, 1.26e12, 1.11e14, 1.83),
        "NVIDIA B200 SXM": (8.5e-6, 2.0e-9, 3.58e12, 1.93e12, 2.1e14, 2.18),
        "NVIDIA RTX PRO 6000": (7.5e-6, 4.3e-9, 1.83e12, 6.9e11, 1.08e14, 5.2),
    }.items()
}
# The overhead is that of served DeepSeek-R1; operators timed alone took 96, 94 and 30 us.
_LATENT: Final = {
    "NVIDIA H100 SXM": LatentRates(3.5e-5, 2.90e12, 4.65e14, 2.93e12, 1.26e15, 4.1e-6, 1.60e12),
    "NVIDIA H200 SXM": LatentRates(3.0e-5, 4.31e12, 5.05e14, 3.87e12, 1.13e15, 4.6e-6, 1.41e12),
    "NVIDIA B200 SXM": LatentRates(2.46e-5, 4.43e12, 1.39e15, 5.67e12, 2.47e15, 1.19e-5, 5.89e11, 0.4),
}
# Printed by benchmarks.fit_mixers from tables of vLLM 0.24.0, a nightly build (Kimi-K3), of compressed attention by all
# engines. Choosing single tokens was timed from the host: of that the share that R1's servers show of the latter.
_STATES: Final = {
    "NVIDIA H100 SXM": StateRates(5.35e-6, 2.87e12, 1.54e-5, 1.63e13, 51.0),
    "NVIDIA H200 SXM": StateRates(5.66e-6, 3.82e12, 1.52e-5, 1.75e13, 56.0),
    "NVIDIA B200 SXM": StateRates(6.01e-6, 5.63e12, 2.47e-5, 1.97e13, 50.0),
    # prompts of gated delta nets; decoding, timed on states that its large cache holds, as the H100, by the data sheets
    "NVIDIA RTX PRO 6000": StateRates(5.35e-6, 1.54e12, 2.3e-5, 4.62e12, 7.5),
}
_SPARSE: Final = {
    "NVIDIA H100 SXM": SparseRates(4.9e-5, 7.7e-6, 3.06e-5, 3.0e-5, 1.06e-7, 7.1e14, 7.8e14, 2.38e12, 9.2e-8),
    "NVIDIA H200 SXM": SparseRates(4.8e-5, 9.0e-6, 2.8e-5, 2.67e-5, 9.7e-8, 7.1e14, 7.5e14, 3.28e12, 1.19e-7),
    "NVIDIA B200 SXM": SparseRates(5.4e-5, 1.13e-5, 3.35e-5, 3.33e-5, 8.6e-8, 1.37e15, 1.36e15, 4.52e12, 7.6e-8),
}
_STREAMS: Final = {
    "NVIDIA H100 SXM": StreamRates(2.62e-5, 2.84e12),
    "NVIDIA H200 SXM": StreamRates(2.69e-5, 3.89e12),
    "NVIDIA B200 SXM": StreamRates(3.09e-5, 5.80e12),
}
_EXPERTS: Final = {
    "NVIDIA H100 SXM": {
        "bf16": ExpertRates(27.8e-6, 2.99e12, 6.54e14, 1.23e12, 0.97, 0.12),
        "fp8": ExpertRates(38.7e-6, 2.91e12, 8.24e14, 1.06e12, 0.31, 0.09),
        "widened": ExpertRates(34.9e-6, 2.50e12, 5.82e14, 7.91e11, 1.0, 0.83),
    },
    "NVIDIA H200 SXM": {
        "bf16": ExpertRates(30.1e-6, 4.32e12, 8.02e14, 1.12e12, 0.62, 0.17),
        "fp8": ExpertRates(40.4e-6, 4.11e12, 1.44e15, 1.01e12, 0.07, 0.35),
        "widened": ExpertRates(34.3e-6, 2.68e12, 5.63e14, 8.36e11, 1.0, 1.0),
    },
    "NVIDIA B200 SXM": {
        "bf16": ExpertRates(15.4e-6, 7.06e12, 1.17e15, 3.2e12, 0.25, 0.42),
        "fp8": ExpertRates(16.2e-6, 6.92e12, 2.72e15, 3.73e12, 0.23, 0.47),
        "fp8-block": ExpertRates(30.2e-6, 7.21e12, 1.54e15, 1.33e12, 0.36, 1.0),
        "widened": ExpertRates(18.7e-6, 4.16e12, 1.61e15, 8.54e11, 0.27, 1.4),
        # bandwidths from served gpt-oss and MiniMax, the rest from mxfp4 by mxfp8 in TensorRT-LLM 1.3.0rc20: the table
        # of operators timed a kernel that widens to bf16
        "fp4": ExpertRates(15.9e-6, 7.7e12, 4.94e15, 4.0e12),
        "nvfp4": ExpertRates(16.5e-6, 6.75e12, 4.94e15, 3.92e12, 0.33, 0.51),
    },
    "NVIDIA A100 SXM": {
        "bf16": ExpertRates(31.0e-6, 1.71e12, 1.63e14, 1.11e12, 0.0, 0.86),
        "widened": ExpertRates(34.1e-6, 1.59e12, 1.86e14, 5.16e11, 0.0, 1.49),  # int4 by Marlin, SGLang 0.5.10
    },
    "NVIDIA L40S": {
        "bf16": ExpertRates(7.9e-6, 6.93e11, 2.29e14, 5.21e11, 0.71, 0.15),
        "fp8": ExpertRates(9.9e-6, 6.62e11, 4.14e14, 5.71e11, 1.0, 0.09),
        "widened": ExpertRates(22.0e-6, 6.51e11, 2.29e14, 5.63e11, 0.8, 0.04),
    },
    "NVIDIA RTX PRO 6000": {
        "bf16": ExpertRates(24.3e-6, 1.47e12, 2.03e14, 1.15e12, 0.0, 0.07),
        "fp8": ExpertRates(29.4e-6, 1.45e12, 3.82e14, 9.9e11, 0.01, 0.05),
        "fp8-block": ExpertRates(17.8e-6, 1.48e12, 6.16e14, 1.39e12, 0.96, 0.04),
        "widened": ExpertRates(14.2e-6, 1.36e12, 3.39e14, 6.27e11, 0.89, 0.13),
        "fp4": ExpertRates(44.6e-6, 1.41e12, 1.47e15, 8.9e11, 0.02, 0.04),
    },
}
# Three kernels where tables ask for them; on H100 and H200 servers do not (docs/scoreboard.md).
_SUMS: Final = {
    "NVIDIA H100 SXM": {
        2: SumRates(((4.27e-6, 1.31e11), (2.03e-5, 2.74e11))),
        4: SumRates(((4.71e-6, 6.59e10), (2.07e-5, 2.11e11))),
        8: SumRates(((4.96e-6, 3.80e10), (1.79e-5, 1.75e11))),
    },
    "NVIDIA H200 SXM": {
        2: SumRates(((4.40e-6, 1.33e11), (2.00e-5, 2.86e11))),
        4: SumRates(((4.73e-6, 7.10e10), (2.03e-5, 2.16e11))),
        8: SumRates(((4.94e-6, 3.00e10), (1.26e-5, 1.68e11))),
    },
    "NVIDIA B200 SXM": {
        2: SumRates(((7.00e-6, 1.46e11), (2.67e-5, 5.35e11))),
        4: SumRates(((7.12e-6, 6.58e10), (2.56e-5, 3.78e11))),
        8: SumRates(((7.32e-6, 1.44e10), (1.59e-5, 1.91e11), (3.43e-5, 3.29e11))),
    },
    "NVIDIA A100 SXM": {
        2: SumRates(((5.09e-6, 9.40e10), (4.93e-5, 1.86e11))),
        4: SumRates(((5.38e-6, 2.84e10), (1.13e-5, 7.21e10), (8.04e-5, 1.40e11))),
        8: SumRates(((5.92e-6, 1.21e10), (1.49e-5, 7.26e10), (7.85e-5, 1.16e11))),
    },
    "NVIDIA L40S": {
        2: SumRates(((5.40e-6, 1.04e10), (2.56e-5, 2.05e10))),
        # The machine of the table sums at 3.6 and 0.7 GB/s. Those that served models (TensorRT-LLM's performance
        # overview, 0.14) and others' (NVIDIA/nccl#1639) hold a pair's bandwidth in a ring: B n / (2 (n - 1)).
        4: SumRates(((1.10e-5, 2.88e9), (3.14e-5, 1.37e10))),
        8: SumRates(((2.08e-5, 7.28e8), (2.08e-5, 1.17e10))),
    },
    "NVIDIA RTX PRO 6000": {
        2: SumRates(((4.44e-6, 1.97e10), (1.79e-5, 3.71e10))),
        # as on L40S: the machine of the table sums at 9.5 and 11 GB/s
        4: SumRates(((3.64e-5, 1.66e10), (1.28e-5, 2.47e10))),
        8: SumRates(((6.9e-5, 3.4e9), (2.65e-5, 2.12e10))),
    },
}

_FUSED_SUMS: Final = {
    "NVIDIA H100 SXM": {
        2: SumRates(((2.76e-6, 1.29e11), (4.24e-5, 1.58e11))),
        4: SumRates(((3.05e-6, 5.08e10), (2.28e-5, 1.11e11))),
        8: SumRates(((3.28e-6, 2.10e10), (3.36e-5, 1.15e11))),
    },
    "NVIDIA H200 SXM": {
        2: SumRates(((2.70e-6, 1.37e11), (4.36e-5, 1.59e11))),
        4: SumRates(((3.06e-6, 5.53e10), (1.84e-5, 1.11e11))),
        8: SumRates(((3.27e-6, 2.08e10), (2.91e-5, 1.15e11))),
    },
    "NVIDIA B200 SXM": {
        2: SumRates(((4.88e-6, 1.44e11), (4.80e-6, 2.42e11))),
        4: SumRates(((5.05e-6, 1.04e11), (3.18e-5, 1.99e11))),
        8: SumRates(((5.52e-6, 4.47e10), (2.95e-5, 1.64e11))),
    },
}

_LIKE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("NVIDIA B300 SXM", "NVIDIA GB200", "NVIDIA GB300"), "NVIDIA B200 SXM"),
    **dict.fromkeys(("NVIDIA A100 SXM 40GB", "NVIDIA A100 PCIe", "NVIDIA A100 PCIe 40GB"), "NVIDIA A100 SXM"),
    **dict.fromkeys(("NVIDIA A800", "NVIDIA A30", "NVIDIA V100", "NVIDIA V100 16GB", "NVIDIA T4"), "NVIDIA A100 SXM"),
    **dict.fromkeys(
        ("NVIDIA L4", "NVIDIA L20", "NVIDIA L40", "NVIDIA A40", "NVIDIA A10", "NVIDIA A10G"), "NVIDIA L40S"
    ),
    **{name: "NVIDIA L40S" for name in SHEETS if name.startswith(("NVIDIA RTX", "AMD Radeon", "AMD Strix"))},
    **{name: "NVIDIA RTX PRO 6000" for name in SHEETS if name.startswith(("NVIDIA RTX 50", "NVIDIA RTX PRO"))},
    **dict.fromkeys(("NVIDIA GB10", "NVIDIA Jetson Thor"), "NVIDIA RTX PRO 6000"),
}
"""GPU to the fitted one that is built most like it; the H100 for all others. Cards of compute capability 8.6 are like
those of 8.9, which have their multiprocessors, memory and bus, not like the A100."""
_REACHED: Final[Mapping[str, float]] = {
    "NVIDIA H100 SXM": 787, "NVIDIA H200 SXM": 790, "NVIDIA H20": 142, "NVIDIA B200 SXM": 1696, "NVIDIA A100 SXM": 265,
    "NVIDIA V100": 86, "NVIDIA T4": 42, "NVIDIA L40S": 269, "NVIDIA RTX A6000": 123, "NVIDIA RTX PRO 6000": 414,
    "NVIDIA RTX 3090": 77, "NVIDIA RTX 4090": 164, "NVIDIA RTX 4090 D": 149, "NVIDIA RTX 5090": 239,
    "AMD Strix Halo": 36.9,
}  # fmt: skip
"""Arithmetic in 16 bits that large products of torch reach, TFLOP/s: medians of runs that users sent to
zzc0721/torch-performance-test-data (one to seven each; H100, A100 as in stas00/ml-engineering), of Strix Halo by
llm-tracker.info. Cards whose rate is cut below what their power allows reach all of it, others 62 to 86 %."""
_SHARES: Final = {name: rate * 1e12 / SHEETS[name].bf16 for name, rate in _REACHED.items()}
"""The same over the data sheet, [-]."""
_GEFORCE: Final = 1.06
"""The same over the data sheet on other GeForce cards, [-]: 1.00 to 1.14 on six of them."""

_BRIDGED: Final[Mapping[str, float]] = {
    **dict.fromkeys(("NVIDIA A100 PCIe", "NVIDIA A100 PCIe 40GB", "NVIDIA A30"), 64.0),
    **dict.fromkeys(("NVIDIA H100 PCIe", "NVIDIA H100 NVL"), 128.0),
}
"""GPUs whose links join two of them: over more, sums take the bus, of so many GB/s in both directions."""

_ALL_SLOWER: Final[Mapping[str, float]] = dict.fromkeys(("AMD MI300X", "AMD MI325X"), 1.5)
"""All times but those of routed experts over the H100's, scaled by the data sheets, in vLLM and SGLang, [-]: from 32
rates of six dense models on MI300X in six reports (VALIDATION.md), each model counting alike; one by one 1.2 to 1.9."""
_EXPERTS_SLOWER: Final[Mapping[str, float]] = dict.fromkeys(_ALL_SLOWER, 3.0)
"""The same of routed experts, whose kernels are not tuned there: from MiniMax-M2.7, gpt-oss-120b, Ling-3.0-flash and a
mixture that an H200 serves 2.7 times as fast; one by one 2 to 5."""
_SLOWER: Final[Mapping[str, float]] = {**dict.fromkeys(("AMD MI350X", "AMD MI355X"), 1.17), **_ALL_SLOWER}
"""Fixed times of kernels over the H100's, [-]: 1.17 is fitted to DeepSeek-R1 on MI355X, served by ATOM (ten times per
token of ROCm/ATOM#409, off by 9 % with 1 and by 5 % so). DeepSeek-V3.2 there (ROCm/ATOM#750), not fitted, is off by
4 %."""


def unmeasured(gpu: Gpu) -> Gpu:
    """Return a GPU as it would be known had nobody measured it: by the one most like it, scaled by the data sheets.

    >>> unmeasured(GPUS["NVIDIA H200 SXM"]).fitted
    False
    """
    return _gpu(gpu.name, "NVIDIA H200 SXM" if gpu.name == "NVIDIA H100 SXM" else "NVIDIA H100 SXM")


def _gpu(name: str, like: str | None = None) -> Gpu:
    """A GPU, its fitted constants or those of the one most like it, scaled by the data sheets."""
    sheet = SHEETS[name]
    like = like or (name if name in _PRODUCTS else _LIKE.get(name, "NVIDIA H100 SXM"))
    known = SHEETS[like]
    slower, all_slower = _SLOWER.get(name, 1.0), _ALL_SLOWER.get(name, 1.0)
    memory, link = sheet.bandwidth / known.bandwidth / all_slower, sheet.link / known.link / all_slower

    def arithmetic(of: str, than: str = like, slower: float = all_slower) -> float:
        of = of.removesuffix("-block")
        return sheet.rate(of) / SHEETS[than].rate(of) * _share(name, than) / slower

    def multiplies(of: str) -> bool:  # without units for fp8 such weights are widened to bf16, as on A100 (Marlin)
        return sheet.fp8 is not None or not of.startswith("fp8")

    def product(of: str, rates: ProductRates) -> ProductRates:
        # fp4 by what fp8 gains: products on B300 and GB300 are 1.08 and 1.22 times as fast as on B200, not 1.5 and 1.67
        rate = arithmetic("fp8" if of == "fp4" else of)
        scaled = _times(rates, overhead_s=slower, bandwidth=memory, rate=rate, quantising=memory)
        return replace(scaled, input_s=rates.input_s / rate)

    def sums(of: Mapping[int, SumRates]) -> dict[int, SumRates]:
        found = {n: rates.times(slower, link) for n, rates in of.items()}
        if of and name in _BRIDGED:
            bus = _BRIDGED[name] / (SHEETS["NVIDIA L40S"].link / 1e9)
            found |= {n: rates.times(1.0, bus) for n, rates in _SUMS["NVIDIA L40S"].items() if n > 2}
        return found

    untuned = _EXPERTS_SLOWER.get(name, 1.0)
    reached = memory * all_slower / untuned
    of_experts = {"overhead_s": max(slower, untuned), "bandwidth": reached, "activation_bandwidth": reached}
    other = like if like in _LATENT else "NVIDIA H100 SXM"
    states = like if like in _STATES else other
    reading = sheet.bandwidth / SHEETS[other].bandwidth / all_slower
    computing = arithmetic("bf16", other)
    passing = sheet.bandwidth / SHEETS[states].bandwidth / all_slower
    near = like if like in _GENERAL else "NVIDIA H200 SXM" if like.startswith("NVIDIA H") else "NVIDIA RTX PRO 6000"
    moving = sheet.bandwidth / SHEETS[near].bandwidth / all_slower
    attended = dict.fromkeys(("cache_bandwidth", "query_bandwidth"), moving)
    return Gpu(
        name=name,
        sheet=sheet,
        products={of: product(of, rates) for of, rates in _PRODUCTS[like].items() if multiplies(of)},
        attention=_times(
            _ATTENTION[like], overhead_s=slower, cache_bandwidth=memory, query_bandwidth=memory, rate=arithmetic("bf16")
        ),
        general=_times(_GENERAL[near], overhead_s=slower, rate=arithmetic("bf16", near), **attended),
        latent=_times(
            _LATENT[other],
            overhead_s=slower,
            bandwidth=reading,
            rate=computing,
            cache_bandwidth=reading,
            attention_rate=computing,
            quantised_s=slower,
            query_bandwidth=reading,
        ),
        states=_times(_STATES[states], overhead_s=slower, bandwidth=passing, prompt_s=slower, rate=passing),
        sparse=_times(
            _SPARSE[other],
            **dict.fromkeys(("choosing_s", "block_s", "compressed_s", "entries_s"), slower),
            **dict.fromkeys(("token_s", "choice_s"), 1.0 / reading),
            scoring=computing,
            attending=computing,
            bandwidth=reading,
        ),
        streams=_times(_STREAMS[other], overhead_s=slower, bandwidth=reading),
        experts={
            of: _times(rates, rate=arithmetic(of, slower=untuned), **of_experts)
            for of, rates in _EXPERTS[like].items()
            if multiplies(of)
        },
        sums=sums(_SUMS[like]),
        fused_sums=sums(_FUSED_SUMS.get(like, {})),
        fitted=name == like,
    )


def _share(name: str, than: str) -> float:
    """Share of its data sheet's arithmetic that a GPU reaches, over that of a fitted one; 1 where it is not known."""
    kin = name if name in _SHARES else next((one for one in _SHARES if name.startswith(f"{one} ")), than)
    geforce = kin == than and re.search(r"RTX [345]0[6-9]0", name)
    return (_GEFORCE if geforce else _SHARES[kin]) / _SHARES[than]


def _times(rates: _Rates, **factors: float) -> _Rates:
    """Constants, some of them by a factor."""
    return replace(rates, **{name: getattr(rates, name) * factor for name, factor in factors.items()})


GPUS: Final[Mapping[str, Gpu]] = MappingProxyType({name: _gpu(name) for name in SHEETS})

_UNTOLD: Final = re.compile(
    r"nvidia|amd|instinct|radeon|geforce|tesla|rtx|blackwell|generation|(server|workstation) edition"
    r"|hbm\d?e?|sxm\d?(?!\d)"
)
_MEMORY: Final = re.compile(r"(?<!\d)(\d+) ?gi?b(?![a-z\d])")
_NEAR: Final = 0.1
"""Share by which a memory in a name may differ from the driver's: makers count in GB or GiB, the driver keeps some."""


def _plain(name: str) -> str:
    """A name without what people write differently."""
    return "".join(c for c in _UNTOLD.sub("", name.lower()) if c.isalnum())


_BY_NAME: Final = {**{_plain(name): name for name in SHEETS}, **_ALIASES}


def gpu_named(name: str) -> Gpu:
    """Return a GPU by its name, in any case, with or without maker, socket and the memory that it has.

    Raises
    ------
    ParameterError : it is not in the table.

    >>> gpu_named("h100_sxm").name, gpu_named("RTX 4090 24GB").name
    ('NVIDIA H100 SXM', 'NVIDIA RTX 4090')
    """
    found, memory = _BY_NAME.get(_plain(name)), _MEMORY.search(name.lower())
    if found is None and memory is not None:
        short = _plain(_MEMORY.sub("", name.lower()))
        of = _BY_NAME.get(f"{short}{memory[1]}gb", _BY_NAME.get(short))
        found = of if of and abs(float(memory[1]) * 2.0**30 / GPUS[of].memory - 1.0) <= _NEAR else None
    if found is None:
        near = get_close_matches(_plain(name), _BY_NAME, n=1)
        if near:
            like = GPUS[_BY_NAME[near[0]]]
            raise ParameterError("gpu", name, f"is not known; did you mean {like.name!r} ({like.memory / 1e9:.0f} GB)?")
        raise ParameterError("gpu", name, f"is not known: known are {', '.join(GPUS)}")
    return GPUS[found]
