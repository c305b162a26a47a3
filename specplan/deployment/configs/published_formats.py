"""In which formats a model's weights are published, from the ``quantization_config`` of its configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from theory.errors import SchemaError
from theory.hardware.formats import Precision

__all__ = ["published_precision"]

_ATTENTION: Final = ("self_attn", "attention")
_EXPERTS: Final = "expert"


def published_precision(config: Mapping[str, Any]) -> Precision:
    """Return the formats of published weights: bf16 where nothing is quantised.

    Raises
    ------
    SchemaError : a way of quantising that is not known; the text names it.
    """
    quantisation = config.get("quantization_config") or config.get("compression_config")
    if quantisation is None:
        return Precision()
    if not isinstance(quantisation, dict):
        raise SchemaError("quantization_config: must be an object")
    producer = quantisation.get("producer")
    inner = quantisation.get("quantization")
    if isinstance(producer, dict) and isinstance(inner, dict):  # hf_quant_config.json of ModelOpt
        quantisation = {"quant_method": str(producer.get("name")), **inner}
    method = str(quantisation.get("quant_method")).lower()
    for known, precision_of in _METHODS.items():
        if method == known or (known == "modelopt" and method.startswith(known)):
            return precision_of(quantisation)
    raise SchemaError(f"quantization_config: quant_method {method[:40]!r} is not modelled; give --precision")


def _integer(bits: object) -> str:
    if bits == 4:
        return "int4"
    if bits == 8:
        return "int8"
    raise SchemaError(f"quantization_config: {str(bits)[:20]} bits are not modelled, 4 and 8 are; give --precision")


def _names(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else []


def _spared(weights: str, ignored: Sequence[str], extra: Mapping[str, str]) -> Precision:
    """Return the precision where layers of these names stay in bf16."""
    attention = any(part in name for name in ignored for part in _ATTENTION)
    dense = any("mlp" in name and _EXPERTS not in name and name.startswith("re:") for name in ignored)
    if dense:
        return Precision(weights="bf16", experts=weights, **extra)
    return Precision(weights=weights, attention="bf16" if attention else None, **extra)


def _modelopt(quantisation: Mapping[str, Any]) -> Precision:
    algorithm = str(quantisation.get("quant_algo") or "").upper()
    weights = {
        "FP8": "fp8",
        "FP8_PB_WO": "fp8-block",
        "FP8_BLOCK_SCALES": "fp8-block",
        "NVFP4": "nvfp4",
        "NVFP4_AWQ": "nvfp4",
        "W4A16_AWQ": "int4",
        "MXFP4": "mxfp4",
    }.get(algorithm)
    if weights is None:
        raise SchemaError(f"quantization_config: quant_algo {algorithm[:40]!r} is not known; give --precision")
    cache = str(quantisation.get("kv_cache_quant_algo") or quantisation.get("kv_cache_scheme") or "")
    extra = {"cache": "fp8"} if "FP8" in cache.upper() else {}
    ignored = _names(quantisation.get("exclude_modules")) or _names(quantisation.get("ignore"))
    return _spared(weights, ignored, extra)


def _compressed(quantisation: Mapping[str, Any]) -> Precision:
    groups = quantisation.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise SchemaError("quantization_config: config_groups must name at least one group of layers")
    found = {_group(group) for group in groups.values()}
    if len(found) > 1:
        raise SchemaError("quantization_config: groups in different formats are not modelled; give --precision")
    scheme = quantisation.get("kv_cache_scheme")
    extra = {"cache": "fp8"} if isinstance(scheme, dict) and scheme.get("num_bits") == 8 else {}
    return _spared(found.pop(), _names(quantisation.get("ignore")), extra)


def _group(group: object) -> str:
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        raise SchemaError("quantization_config: config_groups must tell the format of weights")
    bits, kind, size = weights.get("num_bits"), weights.get("type", "int"), weights.get("group_size")
    if kind == "float" and bits == 8:
        return "fp8-block" if weights.get("block_structure") else "fp8"
    if kind == "float" and bits == 4:
        return "mxfp4" if size == 32 else "nvfp4"
    return _integer(bits)


_METHODS: Final[Mapping[str, Callable[[Mapping[str, Any]], Precision]]] = {
    "fp8": lambda q: Precision(weights="fp8-block" if q.get("weight_block_size") else "fp8"),
    "mxfp4": lambda q: Precision(experts="mxfp4"),
    "fbgemm_fp8": lambda q: _spared("fp8", _names(q.get("modules_to_not_convert")), {}),
    "gptq": lambda q: Precision(weights=_integer(q.get("bits"))),
    "awq": lambda q: Precision(weights=_integer(q.get("bits"))),
    "auto-round": lambda q: Precision(weights=_integer(q.get("bits"))),
    "modelopt": _modelopt,
    "compressed-tensors": _compressed,
}
"""How each known ``quant_method`` is read."""
