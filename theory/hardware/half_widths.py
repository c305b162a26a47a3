"""How sure predictions of passes, loads and gains are: 95 % half-widths of their logarithms, by quantity and regime.

Each is the conformal quantile of what was wrong on families of models left out of the fit, each family counting alike;
``python -m benchmarks.fit_serving FOLDER`` prints what the public rows ask for and what is committed here. A gain is
judged by errors of measured gains: those of its two times have much in common, and their sum would be too wide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from theory.hardware.engines import BLACKWELL
from theory.hardware.formats import Format
from theory.hardware.gpu_records import Gpu
from theory.hardware.operators import is_timed
from theory.hardware.passes import PassModel
from theory.hardware.work import Work

__all__ = [
    "FIRST_TOKEN",
    "GAIN",
    "HALF_WIDTHS",
    "ITERATION",
    "ROUND",
    "THROUGHPUT",
    "TIME_PER_TOKEN",
    "around",
    "conformal",
    "half_width",
    "regime",
]

ITERATION: Final = "iteration"
TIME_PER_TOKEN: Final = "time per token"
FIRST_TOKEN: Final = "time to first token"
ROUND: Final = "round"
THROUGHPUT: Final = "throughput"
GAIN: Final = "gain"

HALF_WIDTHS: Final[Mapping[tuple[str, str], float]] = MappingProxyType(
    {
        # ML.ENERGY, vLLM 0.11.1, and single iterations of two dense models in later versions
        (ITERATION, "dense"): 0.08,
        (ITERATION, "dense, Blackwell"): 0.15,
        (ITERATION, "dense, Blackwell, waiting"): 0.70,
        (ITERATION, "experts"): 0.17,
        (ITERATION, "experts, Blackwell"): 0.25,
        # aggregated serving; no dense model was measured on Blackwell
        (TIME_PER_TOKEN, "dense"): 0.17,
        (TIME_PER_TOKEN, "dense, Blackwell"): 0.23,
        (TIME_PER_TOKEN, "experts"): 0.20,
        (TIME_PER_TOKEN, "experts, Blackwell"): 0.22,
        (FIRST_TOKEN, "any"): 1.2,
        # one dense model on A100, cells left out, and not less than of iterations and times per token, models left out
        (ROUND, "dense"): 0.15,
        (ROUND, "experts"): 0.25,
        (THROUGHPUT, "dense"): 0.17,
        (THROUGHPUT, "experts"): 0.26,
        # SpecBundle, batches up to 8; under more load the dense model on A100 with the other engine's constants
        (GAIN, "dense"): 0.10,
        (GAIN, "experts"): 0.17,
        (GAIN, "dense, loaded"): 0.15,
        (GAIN, "experts, loaded"): 0.21,
    }
)

_LEFT_OUT: Final[Mapping[str, float]] = MappingProxyType(
    {"attention": 0.0, "states": 0.22, "sparse": 0.24, "compressed": 1.0}
)
"""What layers that were hardly served add in squares, by `theory.hardware.shapes.Shape.mixing`, [-].

Of states: 0.37, the 95 % error of Kimi's delta attention by constants of gated delta nets (benchmarks.fit_mixers),
times 0.6, the most of an iteration that states take; one of two served hybrids by the other errs by 0.20. Of sparse
attention: with it the interval holds all rows of served GLM-5 that do not queue, to which nothing was fitted. Of
compressed attention: 21 of 22 rates of DeepSeek-V4 in SGLang, not fitted, are within it (VALIDATION.md)."""
_MOST_OF_GAINS: Final = 0.4
"""What such layers add to the width of a gain at most, [-]: target and drafter read prompts alike. DeepSeek-V4-Flash
with DSpark on two H200, 1 to 128 at once, is off by 0.05 to 0.38 (`benchmarks.gains`)."""
_SPLIT_OVER_PCIE: Final = 0.63
"""The least of gains where a target is split over GPUs without NVLink: 15 cells of four servers on RTX PRO 6000, L40S
and A10G, to which nothing was fitted, are off by so much at most (`benchmarks.gains`)."""
_PCIE: Final = 128e9
"""Bytes per second of a GPU's link up to which it is PCIe, of the fifth generation at most, both ways."""
_UNTIMED: Final = 0.4
"""What weights in a format add in squares whose operators gave the GPU no constants, [-]: products in int4, in a table
of aiconfigurator-core that nothing was fitted to, err by 1.14 (95 %, A100), and in nvfp4, before they had constants, by
0.29 to 0.76; 0.65 times 0.6, the most of an iteration that products take."""
_UNSERVED: Final = 1.5
"""Factor where only operators were measured on the GPU: of times per token with a GPU left out, 0.30 to 0.37."""
_TIMED: Final = 0.31
"""The least there, gains apart, and of tokens per second on all fitted GPUs: 22 rates on RTX PRO 6000 and four on L40S,
not fitted, are off by so much at most, one by more with two GPUs without NVLink; of 119 others' rates on the served
GPUs, each model counting alike, 95 % are off by at most 0.27 (dense) and 0.32 (VALIDATION.md)."""
_UNKNOWN: Final = 0.5
"""The least where no measured row tells: of layers that `theory.hardware.shapes.Shape.unmeasured` names, and over
several machines; over slow links speculation was reported to lose (vllm-project/vllm#44697)."""
_SCALED: Final = 0.4
"""The least on GPUs known by their data sheets, gains apart: 0.30 holds 95 % of 97 rates of eleven of NVIDIA's that
others measured, each GPU counting alike (VALIDATION.md, "From names"); Kimi-K3 on B300 is off by 0.39."""
_VOLTA: Final = 0.8
"""The same before Ampere, whose attention is another kernel's: four rates on one V100 are off by 0.07 to 0.71."""
_AMD: Final = 0.8
"""The least on AMD's GPUs: of the rates that `gpus` has factors from, one is off by 0.77, the others by 0.36 at most;
MiniMax-M3 on MI355X in SGLang, not fitted, takes twice the time that is predicted."""
_SOFTWARE: Final = 1.0
"""The same where they widen weights in fp4 by software: gpt-oss on MI300X and Strix Halo is off by up to 0.97."""
_NEW: Final = 0.72
"""The least of times and rates of mixtures whose architecture is new to the engine: what SGLang fuses, and which
kernels experts have, is a matter of each. Of 20 such models on NVIDIA's GPUs 17 are within it at every load."""
_SERVED: Final = frozenset({"NVIDIA H100 SXM", "NVIDIA H200 SXM", "NVIDIA B200 SXM", "NVIDIA A100 SXM"})
_WAITING: Final = 0.15
"""Share of an iteration that the engine takes for its sequences, above which a small model on Blackwell waits for the
host: three of eighteen measured iterations take 1.5 to 2.1 times as long as predicted."""
_SMALL_BATCH: Final = 8.0


def half_width(quantity: str, model: PassModel, work: Work | None = None) -> float:
    """Return the 95 % half-width of the logarithm of a quantity, [-].

    Parameters
    ----------
    model : what is served; of a gain the target.
    work : an iteration, where its load matters (an iteration, a gain); None: under any load.
    """
    experts = model.shape.has_experts
    weights = model.precision.expert_format if experts else model.precision.weight_format
    timed = quantity == GAIN or model.measured is not None or is_timed(model.gpu, weights, experts=experts)
    untimed = 0.0 if timed else _UNTIMED
    mixing = _LEFT_OUT[model.shape.mixing]
    mixing = min(mixing, _MOST_OF_GAINS) if quantity == GAIN else mixing
    known = math.hypot(HALF_WIDTHS[quantity, _usual(quantity, model, work)], mixing, untimed)
    unknown = _UNKNOWN if model.parallel.pp > 1 or model.shape.unmeasured else 0.0
    new = _NEW if model.is_new and experts and quantity != GAIN else 0.0
    if quantity == GAIN and model.parallel.tp > 1 and model.gpu.sheet.link <= _PCIE:
        unknown = max(unknown, _SPLIT_OVER_PCIE)
    scaled = not model.gpu.fitted and model.measured is None
    if unknown or scaled:
        least = 0.0 if quantity == GAIN or not scaled else _scaled(model.gpu, weights)
        return max(known * (2.0 if quantity == GAIN else 1.0), unknown, least, new)
    served = model.gpu.name in _SERVED
    timed = quantity == THROUGHPUT or not (served or quantity == GAIN)
    return max(known if served else _UNSERVED * known, _TIMED if timed else 0.0, new)


def _scaled(gpu: Gpu, weights: Format) -> float:
    """The least half-width of times on a GPU that is known by its data sheet."""
    if gpu.name.startswith("AMD"):
        return _SOFTWARE if weights.arithmetic == "fp4" and gpu.sheet.fp4 is None else _AMD
    return _VOLTA if gpu.name.startswith(("NVIDIA V100", "NVIDIA T4")) else _SCALED


def around(value: float, half: float) -> tuple[float, float]:
    """Return the interval of a value whose logarithm is known to a half-width."""
    return value * math.exp(-half), value * math.exp(half)


def regime(quantity: str, model: PassModel, work: Work | None = None) -> str:
    """Return which rows tell about a quantity of a model; see `half_width`."""
    usual, mixing = _usual(quantity, model, work), model.shape.mixing
    return usual if mixing == "attention" else f"{usual}, {mixing}"


def _usual(quantity: str, model: PassModel, work: Work | None) -> str:
    """The regime of a model whose layers all attend."""
    if quantity == FIRST_TOKEN:
        return "any"
    layers = "experts" if model.shape.has_experts else "dense"
    if quantity == GAIN:
        return layers if work is not None and work.sequences <= _SMALL_BATCH else f"{layers}, loaded"
    if quantity in (ROUND, THROUGHPUT) or model.gpu.name not in BLACKWELL:
        return layers
    if quantity == ITERATION and layers == "dense" and work is not None:
        parts = model.parts(work)
        if parts.sequences > _WAITING * parts.seconds:
            return f"{layers}, Blackwell, waiting"
    return f"{layers}, Blackwell"


def conformal(errors: Sequence[float], groups: Sequence[str], coverage: float = 0.95) -> float:
    """Return the half-width that covers a share of errors of groups not seen, each group counting alike.

    Parameters
    ----------
    errors : sizes of errors on groups that were left out, >= 0.
    groups : the group of each.
    coverage : wanted, in (0, 1).

    The quantile of split conformal prediction (arXiv 2107.07511, 1), with weights one over the size of a group: rows of
    one model err alike.

    >>> conformal([0.1, 0.2, 0.3, 0.4], ["a", "a", "b", "b"], 0.5)
    0.3
    """
    sizes = Counter(groups)
    weighted = sorted((error, 1.0 / sizes[group]) for error, group in zip(errors, groups, strict=True))
    wanted, reached = coverage * (len(sizes) + 1.0 / len(groups)), 0.0
    for error, weight in weighted:
        reached += weight
        if reached >= wanted - 1e-12:
            return error
    return weighted[-1][0]
