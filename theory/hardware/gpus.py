"""The table of GPUs: data sheets, fitted constants, and what is expected of GPUs that were not measured.

Sources of the data sheets: the makers' product pages and architecture papers; memory as the driver reports it. Fitted
constants are printed by ``python -m benchmarks.fit_hardware FOLDER``, beside what the fit gives again; where they are
not the fit's, a comment says whose they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from theory.errors import ParameterError
from theory.hardware.formats import FORMATS
from theory.hardware.gpu_records import (
    AttentionRates,
    DataSheet,
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

__all__ = ["AMD", "GPUS", "gpu_named", "unmeasured"]

_MIB: Final = 2.0**20
_T: Final = 1e12
_G: Final = 1e9


def _sheet(
    mib: float, bandwidth: float, bf16: float, fp8: float | None = None, fp4: float | None = None, link: float = 64.0
) -> DataSheet:
    """A data sheet in the units of data sheets: MiB, TB/s, TFLOP/s (dense), GB/s."""
    return DataSheet(
        memory=mib * _MIB,
        bandwidth=bandwidth * _T,
        bf16=bf16 * _T,
        fp8=None if fp8 is None else fp8 * _T,
        fp4=None if fp4 is None else fp4 * _T,
        link=link * _G,
    )


_SHEETS: Final[Mapping[str, DataSheet]] = {
    "NVIDIA H100 SXM": _sheet(81559, 3.35, 989, 1979, link=900),
    "NVIDIA H100 PCIe": _sheet(81559, 2.0, 756, 1513, link=600),
    "NVIDIA H100 NVL": _sheet(95830, 3.9, 835, 1671, link=600),
    "NVIDIA H200 SXM": _sheet(143771, 4.8, 989, 1979, link=900),
    "NVIDIA H800 SXM": _sheet(81559, 3.35, 989, 1979, link=400),
    "NVIDIA H20": _sheet(97871, 4.0, 148, 296, link=900),
    "NVIDIA GH200": _sheet(97871, 4.0, 989, 1979, link=900),
    "NVIDIA B200 SXM": _sheet(183359, 8.0, 2250, 4500, 9000, link=1800),
    "NVIDIA B300 SXM": _sheet(275040, 8.0, 2250, 4500, 13500, link=1800),
    "NVIDIA GB200": _sheet(189471, 8.0, 2500, 5000, 10000, link=1800),
    "NVIDIA GB300": _sheet(284208, 8.0, 2500, 5000, 15000, link=1800),
    "NVIDIA A100 SXM": _sheet(81920, 2.039, 312, link=600),
    "NVIDIA A100 SXM 40GB": _sheet(40960, 1.555, 312, link=600),
    "NVIDIA A100 PCIe": _sheet(81920, 1.935, 312, link=600),
    "NVIDIA A800": _sheet(81920, 2.039, 312, link=400),
    "NVIDIA A30": _sheet(24576, 0.933, 165, link=200),
    "NVIDIA A40": _sheet(46068, 0.696, 149.7),
    "NVIDIA A10": _sheet(23028, 0.6, 125),
    "NVIDIA T4": _sheet(15360, 0.32, 65, link=32),
    "NVIDIA L4": _sheet(23034, 0.3, 121, 242),
    "NVIDIA L20": _sheet(46068, 0.864, 119.5, 239),
    "NVIDIA L40": _sheet(46068, 0.864, 181, 362),
    "NVIDIA L40S": _sheet(46068, 0.864, 362, 733),
    "NVIDIA RTX A6000": _sheet(49140, 0.768, 154.8),
    "NVIDIA RTX 3090": _sheet(24576, 0.936, 71),
    "NVIDIA RTX 4090": _sheet(24564, 1.008, 165, 330),
    "NVIDIA RTX 5090": _sheet(32607, 1.792, 209, 419, 838, link=128),
    "NVIDIA RTX 6000 Ada": _sheet(49140, 0.96, 364, 728),
    "NVIDIA RTX PRO 6000": _sheet(97887, 1.792, 500, 1000, 2000, link=128),
    "NVIDIA GB10": _sheet(122070, 0.273, 125, 250, 500),
    "NVIDIA V100": _sheet(32768, 0.9, 125, link=300),
    "AMD Strix Halo": _sheet(98304, 0.256, 59.4),
    "AMD MI300X": _sheet(196592, 5.3, 1307, 2614, link=896),
    "AMD MI325X": _sheet(262128, 6.0, 1307, 2614, link=896),
    "AMD MI350X": _sheet(294896, 8.0, 2307, 4614, 9228, link=1075),
    "AMD MI355X": _sheet(294896, 8.0, 2500, 5000, 10000, link=1075),
}

_ALIASES: Final[Mapping[str, str]] = {
    "a10g": "NVIDIA A10",
    "6000pro": "NVIDIA RTX PRO 6000",
    "dgxspark": "NVIDIA GB10",
    "ryzenaimax395": "AMD Strix Halo",
    "radeon8060s": "AMD Strix Halo",
}

_PRODUCTS: Final = {
    "NVIDIA H100 SXM": {
        "bf16": ProductRates(3.80e-6, 2.96e12, 8.09e14, 2.73),
        "fp8": ProductRates(5.50e-6, 2.74e12, 1.34e15, 2.5, 2.48e-9, 3.65e11),
        "fp8-block": ProductRates(6.28e-6, 2.95e12, 1.20e15, 1.0),
    },
    "NVIDIA H200 SXM": {
        "bf16": ProductRates(4.10e-6, 4.06e12, 8.02e14, 3.12),
        "fp8": ProductRates(5.55e-6, 3.77e12, 1.49e15, 1.89, 2.47e-9, 3.51e11),
        "fp8-block": ProductRates(6.53e-6, 3.89e12, 1.13e15, 1.0),
    },
    "NVIDIA B200 SXM": {
        "bf16": ProductRates(3.59e-6, 6.32e12, 1.63e15, 2.44),
        "fp8": ProductRates(5.54e-6, 6.49e12, 4.06e15, 1.34, 1.17e-9, 4.06e11, 512.0, 256.0),
        "fp8-block": ProductRates(7.74e-6, 6.36e12, 2.92e15, 1.2),
        "nvfp4": ProductRates(6.25e-6, 5.51e12, 5.41e15, 1.7, 1.77e-9, 1.72e12, 512.0, 256.0),
    },
    "NVIDIA A100 SXM": {"bf16": ProductRates(5.77e-6, 1.55e12, 2.63e14, 1.65)},
    "NVIDIA L40S": {
        "bf16": ProductRates(3.98e-6, 7.04e11, 2.29e14, 2.17),
        "fp8": ProductRates(6.04e-6, 6.33e11, 4.14e14, 3.35, 4.19e-9, 2.83e11),
    },
}
_ATTENTION: Final = {
    "NVIDIA H100 SXM": AttentionRates(1.20e-5, 2.28e-8, 3.12e12, 1.97e12, 9.66e14, 1.12, 128.0, packed=True),
    "NVIDIA H200 SXM": AttentionRates(1.20e-5, 2.37e-8, 4.32e12, 2.11e12, 9.37e14, 1.14, 128.0, packed=True),
    "NVIDIA B200 SXM": AttentionRates(9.66e-6, 1.04e-8, 7.29e12, 2.03e12, 2.70e15, 9.6, 256.0, packed=False),
    "NVIDIA A100 SXM": AttentionRates(1.23e-5, 3.26e-8, 1.66e12, 1.95e12, 1.96e14, 1.31, 64.0, False, 2.32e10, 6.02e-6),
    "NVIDIA L40S": AttentionRates(8.86e-6, 3.04e-8, 7.38e11, 3.02e12, 2.06e14, 2.07, 64.0, False, 3.01e10, 3.10e-6),
}
# The overhead is that of served DeepSeek-R1; operators timed alone took 96, 94 and 30 us.
_LATENT: Final = {
    "NVIDIA H100 SXM": LatentRates(3.5e-5, 2.82e12, 4.52e14, 3.08e12, 1.79e15, 5.2e-6),
    "NVIDIA H200 SXM": LatentRates(3.0e-5, 4.28e12, 4.88e14, 4.32e12, 1.46e15, 6.8e-6),
    "NVIDIA B200 SXM": LatentRates(2.46e-5, 3.95e12, 1.34e15, 5.83e12, 2.71e15, 1.30e-5),
}
# Printed by benchmarks.fit_mixers from tables of vLLM 0.24.0 and a nightly build (Kimi-K3). Choosing single tokens was
# timed from the host, as latent attention was; of it the share is taken that servers of DeepSeek-R1 show of the latter.
# Compressed attention: prompts and decoding, of SGLang 0.5.14 as well.
_STATES: Final = {
    "NVIDIA H100 SXM": StateRates(5.35e-6, 2.87e12, 1.54e-5, 1.63e13, 51.0),
    "NVIDIA H200 SXM": StateRates(5.66e-6, 3.82e12, 1.52e-5, 1.75e13, 56.0),
    "NVIDIA B200 SXM": StateRates(6.01e-6, 5.63e12, 2.47e-5, 1.97e13, 50.0),
}
_SPARSE: Final = {
    "NVIDIA H100 SXM": SparseRates(4.9e-5, 7.7e-6, 5.1e-5, 3.5e-5, 1.4e-8, 5.0e14, 2.38e12),
    "NVIDIA H200 SXM": SparseRates(4.8e-5, 9.0e-6, 4.9e-5, 3.4e-5, 1.9e-8, 4.3e14, 3.28e12),
    "NVIDIA B200 SXM": SparseRates(5.4e-5, 1.13e-5, 4.1e-5, 3.8e-5, 5.9e-8, 7.0e14, 4.52e12),
}
_STREAMS: Final = {
    "NVIDIA H100 SXM": StreamRates(2.62e-5, 2.84e12),
    "NVIDIA H200 SXM": StreamRates(2.69e-5, 3.89e12),
    "NVIDIA B200 SXM": StreamRates(3.09e-5, 5.80e12),
}
_EXPERTS: Final = {
    "NVIDIA H100 SXM": {
        "bf16": ExpertRates(31.6e-6, 3.03e12, 5.62e14, 1.23e12),
        "fp8": ExpertRates(42.4e-6, 3.14e12, 7.03e14, 1.06e12),
        "widened": ExpertRates(35.1e-6, 2.45e12, 4.33e14, 6.5e11),
    },
    "NVIDIA H200 SXM": {
        "bf16": ExpertRates(32.7e-6, 4.41e12, 6.74e14, 1.12e12),
        "fp8": ExpertRates(42.0e-6, 4.67e12, 7.45e14, 1.01e12),
        "widened": ExpertRates(34.5e-6, 2.61e12, 3.97e14, 6.7e11),
    },
    "NVIDIA B200 SXM": {
        "bf16": ExpertRates(16.3e-6, 7.11e12, 1.0e15, 3.2e12),
        "fp8": ExpertRates(17.0e-6, 6.71e12, 1.79e15, 3.73e12),
        "fp8-block": ExpertRates(31.6e-6, 8.17e12, 1.11e15, 1.33e12),
        "widened": ExpertRates(17.9e-6, 3.81e12, 5.7e15, 4.4e11),
        # bandwidths from served gpt-oss and MiniMax: the table of operators timed a kernel that widens to bf16
        "fp4": ExpertRates(18.5e-6, 7.7e12, 2.0e15, 4.0e12),
    },
    "NVIDIA A100 SXM": {"bf16": ExpertRates(26.6e-6, 1.71e12, 1.57e14, 3.22e11)},
    "NVIDIA L40S": {
        "bf16": ExpertRates(10.3e-6, 6.89e11, 2.25e14, 3.74e11),
        "fp8": ExpertRates(16.1e-6, 6.95e11, 4.18e14, 5.29e11),
        "widened": ExpertRates(23.4e-6, 6.73e11, 1.70e14, 4.57e11),
    },
}
_SUMS: Final = {
    "NVIDIA H100 SXM": {
        2: SumRates(4.27e-6, 1.31e11, 2.03e-5, 2.74e11),
        4: SumRates(4.71e-6, 6.59e10, 2.07e-5, 2.11e11),
        8: SumRates(4.96e-6, 3.80e10, 1.79e-5, 1.75e11),
    },
    "NVIDIA H200 SXM": {
        2: SumRates(4.40e-6, 1.33e11, 2.00e-5, 2.86e11),
        4: SumRates(4.73e-6, 7.10e10, 2.03e-5, 2.16e11),
        8: SumRates(4.94e-6, 3.00e10, 1.26e-5, 1.68e11),
    },
    "NVIDIA B200 SXM": {
        2: SumRates(7.00e-6, 1.46e11, 2.67e-5, 5.35e11),
        4: SumRates(7.12e-6, 6.58e10, 2.56e-5, 3.78e11),
        8: SumRates(7.31e-6, 1.40e10, 1.94e-5, 2.77e11),
    },
    "NVIDIA A100 SXM": {
        2: SumRates(5.09e-6, 9.40e10, 4.93e-5, 1.86e11),
        4: SumRates(5.62e-6, 4.00e10, 3.12e-5, 1.19e11),
        8: SumRates(6.99e-6, 3.37e10, 2.91e-5, 9.76e10),
    },
    "NVIDIA L40S": {
        2: SumRates(5.40e-6, 1.04e10, 2.56e-5, 2.05e10),
        # The machine of the table sums at 3.6 and 0.7 GB/s. Those that served models (TensorRT-LLM's performance
        # overview, 0.14) and others' (NVIDIA/nccl#1639) hold a pair's bandwidth in a ring: B n / (2 (n - 1)).
        4: SumRates(1.10e-5, 2.88e9, 3.14e-5, 1.37e10),
        8: SumRates(2.08e-5, 7.28e8, 2.08e-5, 1.17e10),
    },
}

_FUSED_SUMS: Final = {
    "NVIDIA H100 SXM": {
        2: SumRates(2.76e-6, 1.29e11, 4.24e-5, 1.58e11),
        4: SumRates(3.05e-6, 5.08e10, 2.28e-5, 1.11e11),
        8: SumRates(3.28e-6, 2.10e10, 3.36e-5, 1.15e11),
    },
    "NVIDIA H200 SXM": {
        2: SumRates(2.70e-6, 1.37e11, 4.36e-5, 1.59e11),
        4: SumRates(3.06e-6, 5.53e10, 1.84e-5, 1.11e11),
        8: SumRates(3.27e-6, 2.08e10, 2.91e-5, 1.15e11),
    },
    "NVIDIA B200 SXM": {
        2: SumRates(4.88e-6, 1.44e11, 4.80e-6, 2.42e11),
        4: SumRates(5.05e-6, 1.04e11, 3.18e-5, 1.99e11),
        8: SumRates(5.52e-6, 4.47e10, 2.95e-5, 1.64e11),
    },
}

_LIKE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("NVIDIA B300 SXM", "NVIDIA GB200", "NVIDIA GB300"), "NVIDIA B200 SXM"),
    **dict.fromkeys(("NVIDIA RTX 5090", "NVIDIA RTX PRO 6000", "NVIDIA GB10", "AMD Strix Halo"), "NVIDIA L40S"),
    **dict.fromkeys(("NVIDIA L4", "NVIDIA L20", "NVIDIA L40", "NVIDIA RTX 4090", "NVIDIA RTX 6000 Ada"), "NVIDIA L40S"),
    **dict.fromkeys(("NVIDIA A100 SXM 40GB", "NVIDIA A100 PCIe", "NVIDIA A800", "NVIDIA A30"), "NVIDIA A100 SXM"),
    **dict.fromkeys(("NVIDIA A40", "NVIDIA A10", "NVIDIA V100", "NVIDIA T4"), "NVIDIA A100 SXM"),
    **dict.fromkeys(("NVIDIA RTX 3090", "NVIDIA RTX A6000"), "NVIDIA A100 SXM"),
}
"""GPU to the fitted one that is built most like it; the H100 for all others."""


_BRIDGED: Final[Mapping[str, float]] = {
    **dict.fromkeys(("NVIDIA A100 PCIe", "NVIDIA A30"), 64.0),
    **dict.fromkeys(("NVIDIA H100 PCIe", "NVIDIA H100 NVL"), 128.0),
}
"""GPUs whose links join two of them: over more, sums take the bus, of so many GB/s in both directions."""

AMD: Final = frozenset({"AMD MI300X", "AMD MI325X", "AMD MI350X", "AMD MI355X"})
"""AMD's GPUs for data centres."""
_ALL_SLOWER: Final[Mapping[str, float]] = dict.fromkeys(("AMD MI300X", "AMD MI325X"), 1.9)
"""All times over the H100's, scaled by the data sheets, in vLLM and SGLang, [-]: from eleven rates of four models on
MI300X (Qwen3-8B, Gemma-4-31B, gpt-oss-120b, MiniMax-M2.7; VALIDATION.md), each model counting alike."""
_SLOWER: Final[Mapping[str, float]] = {**dict.fromkeys(AMD, 1.17), **_ALL_SLOWER}
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
    sheet = _SHEETS[name]
    like = like or (name if name in _PRODUCTS else _LIKE.get(name, "NVIDIA H100 SXM"))
    known = _SHEETS[like]
    slower, all_slower = _SLOWER.get(name, 1.0), _ALL_SLOWER.get(name, 1.0)
    memory, link = sheet.bandwidth / known.bandwidth / all_slower, sheet.link / known.link / all_slower

    def arithmetic(of: str) -> float:
        kind = FORMATS[of].arithmetic if of in FORMATS else of
        return sheet.rate(kind) / known.rate(kind) / all_slower

    def product(rates: ProductRates, memory: float, rate: float) -> ProductRates:
        scaled = _times(rates, overhead_s=slower, bandwidth=memory, rate=rate, quantising=memory)
        return replace(scaled, input_s=rates.input_s / rate)

    products = {of: product(rates, memory, arithmetic(of)) for of, rates in _PRODUCTS[like].items()}
    if sheet.fp4 is not None and name not in AMD and "nvfp4" not in products:
        others = _SHEETS["NVIDIA B200 SXM"]
        memory_of, rate_of = sheet.bandwidth / others.bandwidth, sheet.fp4 / others.rate("fp4")
        products["nvfp4"] = product(_PRODUCTS["NVIDIA B200 SXM"]["nvfp4"], memory_of, rate_of)

    def sums(of: Mapping[int, SumRates]) -> dict[int, SumRates]:
        factors = {"custom_s": slower, "custom_bandwidth": link, "nccl_s": slower, "nccl_bandwidth": link}
        found = {n: _times(rates, **factors) for n, rates in of.items()}
        if of and name in _BRIDGED:
            bus = _BRIDGED[name] / (_SHEETS["NVIDIA L40S"].link / _G)
            faster = {"custom_bandwidth": bus, "nccl_bandwidth": bus}
            found |= {n: _times(rates, **faster) for n, rates in _SUMS["NVIDIA L40S"].items() if n > 2}
        return found

    of_experts = {"overhead_s": slower, "bandwidth": memory, "activation_bandwidth": memory}
    other = like if like in _LATENT else "NVIDIA H100 SXM"
    reading = sheet.bandwidth / _SHEETS[other].bandwidth / all_slower
    computing = sheet.bf16 / _SHEETS[other].bf16 / all_slower
    return Gpu(
        name=name,
        sheet=sheet,
        products=products,
        attention=_times(
            _ATTENTION[like], overhead_s=slower, cache_bandwidth=memory, query_bandwidth=memory, rate=arithmetic("bf16")
        ),
        latent=_times(
            _LATENT[other],
            overhead_s=slower,
            bandwidth=reading,
            rate=computing,
            cache_bandwidth=reading,
            attention_rate=computing,
            quantised_s=slower,
        ),
        states=_times(_STATES[other], overhead_s=slower, bandwidth=reading, prompt_s=slower, rate=reading),
        sparse=_times(
            _SPARSE[other],
            **dict.fromkeys(("choosing_s", "block_s", "compressed_s", "entries_s"), slower),
            token_s=1.0 / reading,
            scoring=computing,
            bandwidth=reading,
        ),
        streams=_times(_STREAMS[other], overhead_s=slower, bandwidth=reading),
        experts={of: _times(rates, rate=arithmetic(of), **of_experts) for of, rates in _EXPERTS[like].items()},
        sums=sums(_SUMS[like]),
        fused_sums=sums(_FUSED_SUMS.get(like, {})),
        fitted=name == like,
    )


def _times(rates: _Rates, **factors: float) -> _Rates:
    """Constants, some of them by a factor."""
    return replace(rates, **{name: getattr(rates, name) * factor for name, factor in factors.items()})


GPUS: Final[Mapping[str, Gpu]] = MappingProxyType({name: _gpu(name) for name in _SHEETS})


_UNTOLD: Final = re.compile(
    r"nvidia|amd|instinct|geforce|tesla|rtx|blackwell|generation|(server|workstation) edition|hbm\d?e?|sxm\d?(?!\d)"
)
_MEMORY: Final = re.compile(r"(?<!\d)(\d+) ?gi?b(?![a-z\d])")
_NEAR: Final = 0.1
"""Share by which a memory in a name may differ from the driver's: makers count in GB or GiB, the driver keeps some."""


def _plain(name: str) -> str:
    """A name without what people write differently."""
    return "".join(c for c in _UNTOLD.sub("", name.lower()) if c.isalnum())


_BY_NAME: Final = {**{_plain(name): name for name in _SHEETS}, **_ALIASES}


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
        of = _BY_NAME.get(_plain(_MEMORY.sub("", name.lower())))
        found = of if of and abs(float(memory[1]) * 2.0**30 / GPUS[of].memory - 1.0) <= _NEAR else None
    if found is None:
        near = get_close_matches(_plain(name), _BY_NAME, n=1)
        hint = f"did you mean {_BY_NAME[near[0]]!r} ({GPUS[_BY_NAME[near[0]]].memory / 1e9:.0f} GB)? " if near else ""
        raise ParameterError("gpu", name, f"is not known: {hint}known are {', '.join(GPUS)}")
    return GPUS[found]
