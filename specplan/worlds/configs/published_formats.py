"""In which formats a model's weights are published, from the ``quantization_config`` of its configuration."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from theory.errors import SchemaError
from theory.hardware.formats import Precision

__all__ = ["published_precision"]

_ATTENTION: Final = re.compile(r"(self_attn|linear_attn|attention)(\W*$|.*(q_proj|qkv|q_a))")
_SHARED: Final = re.compile(r"shared_experts?(\W*$|.*(gate_proj|up_proj|gate_up))")
_WHOLE: Final = re.compile(r"(mlp|feed_forward)\W*$")
_DENSE: Final = re.compile(r"(mlp|feed_forward)(\W*$|.*(gate_proj|gate\||up_proj|gate_up))")
_NUMBER: Final = re.compile(r"layers\.(\d+)\.")


def published_precision(config: Mapping[str, Any], cache: str = "bf16") -> Precision:
    """Return the formats of published weights: bf16 where nothing is quantised.

    Parameters
    ----------
    cache : format of the cache where the file does not say it.

    Raises
    ------
    SchemaError : a way of quantising that is not known; the text names it.
    """
    quantisation = config.get("quantization_config") or config.get("compression_config")
    found = _published(quantisation, config)
    said = quantisation if isinstance(quantisation, dict) else {}
    told = (config.get("expert_dtype"), said.get("expert_dtype"), said.get("store_dtype"))
    if algorithm := said.get("moe_quant_algo"):  # NVIDIA's copies of DeepSeek-V4, the rest as published
        found = replace(found, experts=_algorithm(algorithm))
    elif "fp4" in told or "mxfp4" in told:  # DeepSeek-V4, MiMo-V2.6: MXFP4 beside the rest in fp8
        found = replace(found, experts="mxfp4" if found.experts is None else found.experts)
    return replace(found, cache=cache) if found.cache == "bf16" else found


def _published(quantisation: object, config: Mapping[str, Any]) -> Precision:
    if quantisation is None:
        return Precision()
    if not isinstance(quantisation, dict):
        raise SchemaError("quantization_config: must be an object")
    producer = quantisation.get("producer")
    inner = quantisation.get("quantization")
    if isinstance(inner, dict):  # hf_quant_config.json of ModelOpt
        quantisation = {"quant_method": _producer(producer) or "modelopt", **inner}
    method = str(quantisation.get("quant_method") or _producer(producer)).lower()
    n = config.get("num_hidden_layers")
    for known, precision_of in _METHODS.items():
        if method == known or (known == "modelopt" and method.startswith(known)):
            return precision_of(quantisation, n if isinstance(n, int) else 0)
    raise SchemaError(f"quantization_config: quant_method {method[:40]!r} is not modelled; give --precision")


def _producer(said: object) -> str | None:
    """Name of the tool that quantised, where its files name no method."""
    return str(said.get("name")) if isinstance(said, dict) else None


def _integer(bits: object, group_size: object) -> str:
    if bits == 4:
        return "int4-group32" if group_size == 32 else "int4"
    if bits == 8:
        return "int8"
    raise SchemaError(f"quantization_config: {str(bits)[:20]} bits are not modelled, 4 and 8 are; give --precision")


def _names(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else []


def _spared(weights: str, ignored: Sequence[str], n_layers: int, cache: str = "bf16") -> Precision:
    """Return the precision where modules of these names, or patterns of names, stay in bf16.

    What is spared in a few layers only (the first and the last, say) is not told apart.
    """
    attention = _in_most(ignored, n_layers, lambda name: _ATTENTION.search(name) is not None)
    dense = _in_most(ignored, n_layers, lambda name: _DENSE.search(name) is not None and "expert" not in name)
    if dense or _in_most(ignored, n_layers, lambda name: _SHARED.search(name) is not None):
        return Precision(weights="bf16", attention=None if attention else weights, experts=weights, cache=cache)
    return Precision(weights=weights, attention="bf16" if attention else None, cache=cache)


def _in_most(names: Sequence[str], n_layers: int, wanted: Callable[[str], bool]) -> bool:
    """Whether such names are given for all layers at once, or for half of them one by one."""
    found = [name for name in names if wanted(name)]
    numbers = [_NUMBER.search(name) for name in found]
    layers = {number.group(1) for number in numbers if number is not None}
    return None in numbers or bool(layers and 2 * len(layers) >= n_layers)


_ALGORITHMS: Final[Mapping[str, str]] = {
    "FP8": "fp8",
    "FP8_PB_WO": "fp8-block",
    "FP8_BLOCK_SCALES": "fp8-block",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A16_NVFP4": "int4-group32",  # as many bytes, and multiplied in bf16 too
    "W4A16_AWQ": "int4",
    "MXFP4": "mxfp4",
    "MXFP8": "fp8-block",  # a scale for each 32 numbers
}


def _algorithm(name: object) -> str:
    algorithm = str(name or "").upper()
    if algorithm not in _ALGORITHMS:
        raise SchemaError(f"quantization_config: quant_algo {algorithm[:40]!r} is not known; give --precision")
    return _ALGORITHMS[algorithm]


def _mixed(modules: Iterable[tuple[str, str]], cache: str, other: str = "bf16") -> Precision:
    """The precision where modules, or patterns of names, have formats of their own, and ``other`` ones that format.

    Of experts, attention and dense layers the most frequent counts.
    """
    found: dict[str, Counter[str]] = {"experts": Counter(), "attention": Counter(), "weights": Counter()}
    for name, stored in modules:
        if name.endswith("lm_head"):
            continue
        part = "experts" if "expert" in name else "weights" if _DENSE.search(name) else "attention"
        found[part][stored] += 1
        if part == "weights" and _WHOLE.search(name):
            found["experts"][stored] += 1
    usual = {part: of.most_common(1)[0][0] if of else other for part, of in found.items()}
    return Precision(weights=usual["weights"], attention=usual["attention"], experts=usual["experts"], cache=cache)


def _modelopt(quantisation: Mapping[str, Any], n: int) -> Precision:
    told = str(quantisation.get("kv_cache_quant_algo") or quantisation.get("kv_cache_scheme") or "")
    cache = "fp8" if "FP8" in told.upper() else _scheme(quantisation)
    layers = quantisation.get("quantized_layers")
    if isinstance(layers, dict) and str(quantisation.get("quant_algo")).upper() == "MIXED_PRECISION":
        said = {name: one for name, one in layers.items() if isinstance(one, dict)}
        return _mixed(((name, _algorithm(one.get("quant_algo"))) for name, one in said.items()), cache)
    weights = _algorithm(quantisation.get("quant_algo"))
    ignored = _names(quantisation.get("exclude_modules")) or _names(quantisation.get("ignore"))
    return _spared(weights, ignored, n, cache)


def _scheme(quantisation: Mapping[str, Any]) -> str:
    """Format of the cache by the scheme of ``compressed-tensors``, in which ModelOpt writes it too."""
    scheme = quantisation.get("kv_cache_scheme")
    return "fp8" if isinstance(scheme, dict) and scheme.get("num_bits") == 8 else "bf16"


def _compressed(quantisation: Mapping[str, Any], n: int) -> Precision:
    groups = quantisation.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise SchemaError("quantization_config: config_groups must name at least one group of layers")
    found = {_group(group) for group in groups.values()}
    cache = _scheme(quantisation)
    if len(found) == 1:
        return _spared(found.pop(), _names(quantisation.get("ignore")), n, cache)
    named = [(name, _group(group)) for group in groups.values() for name in _names(group.get("targets"))]
    others = [stored for name, stored in named if name == "Linear"]
    spared = [(name, "bf16") for name in _names(quantisation.get("ignore"))]
    return _mixed([*((name, stored) for name, stored in named if name != "Linear"), *spared], cache, *others[:1])


def _quark(quantisation: Mapping[str, Any], n: int) -> Precision:
    """Formats of AMD's Quark: one for all layers, and those of patterns of names."""
    cache = "fp8" if quantisation.get("kv_cache_quant_config") else "bf16"
    own, spared = quantisation.get("layer_quant_config"), _names(quantisation.get("exclude"))
    every = _quark_format(quantisation.get("global_quant_config"))
    if isinstance(own, dict) and own:
        named = [(name, _quark_format(said)) for name, said in own.items()]
        return _mixed([*named, *((name, "bf16") for name in spared)], cache, every)
    return _spared(every, spared, n, cache)


def _quark_format(said: object) -> str:
    weights = said.get("weight") if isinstance(said, dict) else None
    stages = weights if isinstance(weights, list) else [weights]
    last = stages[-1] if stages else None
    if not isinstance(last, dict):
        return "bf16"
    dtype = str(last.get("dtype")).lower()
    if dtype.startswith(("fp4", "mxfp4")):
        return "mxfp4"
    if dtype.startswith("fp8"):
        return "fp8-block" if last.get("qscheme") == "per_block" else "fp8"
    return _integer({"int4": 4, "uint4": 4, "int8": 8}.get(dtype, dtype), last.get("group_size"))


def _group(group: object) -> str:
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        raise SchemaError("quantization_config: config_groups must tell the format of weights")
    bits, kind, size = weights.get("num_bits"), weights.get("type", "int"), weights.get("group_size")
    if kind == "float" and bits == 8:
        return "fp8-block" if weights.get("block_structure") else "fp8"
    if kind == "float" and bits == 4:
        return "mxfp4" if size == 32 else "nvfp4"
    return _integer(bits, size)


def _fp8(quantisation: Mapping[str, Any], n: int) -> Precision:
    spared = _names(quantisation.get("modules_to_not_convert")) or _names(quantisation.get("ignored_layers"))
    return _spared("fp8-block" if quantisation.get("weight_block_size") else "fp8", spared, n)


def _by_bits(quantisation: Mapping[str, Any], _: int) -> Precision:
    return Precision(weights=_integer(quantisation.get("bits"), quantisation.get("group_size")))


_METHODS: Final[Mapping[str, Callable[[Mapping[str, Any], int], Precision]]] = {
    "fp8": _fp8,
    "mxfp4": lambda q, _: Precision(experts="mxfp4"),
    "fbgemm_fp8": lambda q, n: _spared("fp8", _names(q.get("modules_to_not_convert")), n),
    "gptq": _by_bits,
    "awq": _by_bits,
    "auto-round": _by_bits,
    "modelopt": _modelopt,
    "compressed-tensors": _compressed,
    "quark": _quark,
    "w4afp8": lambda *_: Precision(weights="fp8-block", experts="int4"),
}
