"""From the words of a measured row to what was deployed: model, precision, GPUs, engine."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from specplan.check.scoreboard.rows import Loaded, Served
from specplan.worlds.model_files import ModelFacts, shape_of
from theory.errors import ParameterError
from theory.hardware.engines import BLACKWELL
from theory.hardware.formats import FORMATS, Precision
from theory.hardware.work import Parallel

__all__ = ["facts_of", "loaded_parallel", "precision_of", "served_parallel", "with_engines_cache"]

_FORMAT_OF: Final = (
    ("mxfp4", "mxfp4"), ("fp4", "nvfp4"), ("int4", "int4"), ("w4a", "int4"), ("awq", "int4"), ("gptq", "int4"),
    ("block", "fp8-block"), ("fp8", "fp8"), ("float8", "fp8"), ("int8", "int8"), ("w8a8", "int8"), ("sq", "int8"),
    ("bf16", "bf16"), ("bfloat16", "bf16"), ("fp16", "bf16"), ("float16", "bf16"), ("half", "bf16"),
)  # fmt: skip
"""Words in what tables call formats, the first that is part of it counts -> the format."""

_ALWAYS_APART: Final = frozenset({"0.16.0", "0.17.0"})
"""Versions of vLLM for which the scripts of InferenceX served MiniMax-M2.5 with ``--enable-expert-parallel`` whatever
split was named; later ones ask whether it is above 1."""
_PER_NODE: Final = 8  # GPUs


@cache
def facts_of(name: str) -> ModelFacts:
    """Shape and formats of a model (`specplan.worlds.model_files.shape_of`), read once."""
    return shape_of(name)


def precision_of(facts: ModelFacts, weights: str, experts: str = "") -> Precision:
    """Formats that a row names, as published where the published ones are alike: as many bits, same arithmetic.

    So NVFP4 of a checkpoint in int4 is another checkpoint, while a table's "fp4" of one in MXFP4 is that one. Where a
    checkpoint quantises its experts only, so does another one of it.

    Raises
    ------
    ParameterError : a format that is not known, or one with more bits than the published weights have.
    """
    published = facts.precision
    main, routed = _format(weights), _format(experts) or _format(weights)
    if not main:
        return published
    of = published.experts if facts.shape.has_experts and published.experts else published.weights
    said = routed if facts.shape.has_experts else main
    if _bits(said) == _bits(of) and FORMATS[said].arithmetic == FORMATS[of].arithmetic:
        return published
    if _bits(said) > _bits(of) and _bits(of) < _bits("fp8"):
        raise ParameterError("precision", said, f"of {facts.name}, published in {of}: which weights ran is not said")
    if published.experts and published.weights == "bf16":
        return replace(published, experts=routed)
    return replace(published, weights=main, experts=routed if routed != main else None)


def with_engines_cache(precision: Precision, facts: ModelFacts, engine: str, gpu: str) -> Precision:
    """The same with the cache's format that an engine takes where a table says none.

    Checkpoints that NVIDIA quantises say that their cache is in fp8, which vLLM and TensorRT-LLM heed and SGLang does
    not. The settings that InferenceX publishes cache all quantised models in fp8 with TensorRT-LLM, and with SGLang on
    Blackwell. Checkpoints of other publishers do not say it.
    """
    quantised = precision.expert_format.name != "bf16"
    if engine == "sglang":
        return replace(precision, cache="fp8" if quantised and gpu in BLACKWELL else "bf16")
    requantised = precision.expert_format != facts.precision.expert_format
    return replace(precision, cache="fp8") if quantised and (engine == "trtllm" or requantised) else precision


def served_parallel(row: Served) -> Parallel:
    """Return the GPUs of a row of the ML.ENERGY table.

    It gives ``tp = dp = 1`` where vLLM splits experts over the GPUs: attention is split over them too then.
    """
    if row.tp * row.dp == row.num_gpus:
        return Parallel(tp=row.tp, dp=row.dp, ep=row.ep)
    if row.dp == row.num_gpus:
        return Parallel(dp=row.dp, ep=row.ep)
    return Parallel(tp=row.num_gpus, ep=min(row.ep, row.num_gpus))


def loaded_parallel(row: Loaded) -> Parallel:
    """GPUs of a row under load.

    Where tensor and expert parallelism are over the same ``d`` GPUs, the table gives their product: ``d * d`` GPUs.
    A run that stands in it both ways says so, and no such run fits one node otherwise.
    """
    gpus = row.tp_size * row.attention_dp_size
    split = max(row.moe_tp_size, row.moe_ep_size)
    if row.moe_tp_size == row.moe_ep_size and gpus == split**2 and split > 1 and row.attention_dp_size != row.tp_size:
        return Parallel(dp=split, ep=split) if row.attention_dp_size > 1 else Parallel(tp=split, ep=split)
    if row.backend == "vllm" and row.backend_version in _ALWAYS_APART and "MiniMax" in row.model_path:
        return Parallel(tp=row.tp_size, dp=row.attention_dp_size, ep=gpus)
    if row.attention_dp_size == row.tp_size and row.moe_tp_size == 1 and row.moe_ep_size == gpus > 1:
        return Parallel(dp=row.tp_size, ep=row.tp_size)
    if gpus > _PER_NODE:
        raise ParameterError(
            "GPUs", gpus, f"are more than the {_PER_NODE} of a node, between which no link is modelled"
        )
    return Parallel(tp=row.tp_size, dp=row.attention_dp_size, ep=row.moe_ep_size if gpus % row.moe_ep_size == 0 else 1)


def _format(word: str) -> str:
    """The format that a table means; empty where it says none."""
    plain = word.strip().lower()
    if plain in ("", "none", "auto"):
        return ""
    for part, known in _FORMAT_OF:
        if part in plain:
            return known
    raise ParameterError("precision", word, f"must say one of {', '.join(part for part, _ in _FORMAT_OF)}")


def _bits(name: str) -> int:
    return round(8 * FORMATS[name].bytes_per_number - 0.4)
