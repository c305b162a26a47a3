"""The table of well-known models: reduced configurations by name on the Hugging Face hub.

An entry holds the fields of the model's ``config.json`` that sizes depend on, so that one reader serves files and
names. Models that are not modelled stand in it with their type alone, so that their names give the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

from pydantic import Field, TypeAdapter

from calibrate.record.fields import AtLeastOne, Record
from theory.errors import ParameterError

__all__ = ["KnownCopy", "KnownModel", "base_name", "known_config", "known_copies", "known_models"]

_PLAIN: Final = "-bf16"
_SUFFIXES: Final[Mapping[str, Mapping[str, Any]]] = {
    "-fp8": {"quant_method": "modelopt", "quant_algo": "FP8"},
    "-fp8-dynamic": {"quant_method": "modelopt", "quant_algo": "FP8"},
    "-fp8-block": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "-awq": {"quant_method": "awq", "bits": 4},
    "-awq-int4": {"quant_method": "awq", "bits": 4},
    "-awq-4bit": {"quant_method": "awq", "bits": 4},
    "-gptq": {"quant_method": "gptq", "bits": 4},
    "-gptq-int4": {"quant_method": "gptq", "bits": 4},
    "-gptq-int8": {"quant_method": "gptq", "bits": 8},
    "-quantized.w4a16": {"quant_method": "gptq", "bits": 4},
    "-quantized.w8a8": {"quant_method": "gptq", "bits": 8},
    "-w4a16": {"quant_method": "gptq", "bits": 4},
    "-int4": {"quant_method": "gptq", "bits": 4},
    "-int4-autoround": {"quant_method": "gptq", "bits": 4},
    "-int8": {"quant_method": "gptq", "bits": 8},
    "-fp8-kv": {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
    "-nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "-nvfp4-v2": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "-nvfp4a16": {"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"},
    "-fp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "-fp4-v2": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "-mxfp4": {"quant_method": "modelopt", "quant_algo": "MXFP4"},
    "-mxfp4-preview": {"quant_method": "modelopt", "quant_algo": "MXFP4"},
    "-fp8-mxfp4": {"quant_method": "fp8", "weight_block_size": [128, 128], "store_dtype": "mxfp4"},
    "-mxfp8": {"quant_method": "modelopt", "quant_algo": "MXFP8"},
    _PLAIN: {},
}
_QUANTISED: Final = tuple(ending for ending, quantisation in _SUFFIXES.items() if quantisation)

_ELSEWHERE: Final = (
    (re.compile(r"(-qat)?(-ud)?([-.]i?q\d\w*)?[-.]gguf$"), "llama.cpp's files"),
    (re.compile(r"(-unsloth)?-bnb-\dbit$"), "bitsandbytes' format"),
    (re.compile(r"(-qat)?(-mlx)?-\dbit(-dwq)?$"), "MLX's format"),
)
"""Endings of copies for other engines, or by kernels whose times nobody gave."""
_ORGANISATION: Final = re.compile(r"(?<=/)[^/_]+_")
"""What stands before the name in copies that are named after both, as ``bartowski/Qwen_Qwen3-8B-GGUF``."""
_NVIDIA: Final = {"kv_cache_quant_algo": "FP8"}
"""What NVIDIA's quantised checkpoints say besides (``hf_quant_config.json``): their cache is in fp8."""
_BLOCK_PUBLISHERS: Final = ("qwen",)
"""Organisations whose ``-FP8`` weights have scales per block of 128 x 128 instead of per tensor or channel."""


class KnownModel(Record):
    """A model of the table."""

    names: list[str] = Field(min_length=1)
    """On the hub, the usual one first; all have the same sizes."""
    n_parameters: AtLeastOne | tuple[AtLeastOne, AtLeastOne] | None = None
    """Of the language part: as published, or the least and the most that a rounded count allows; None: not published,
    or not modelled."""
    config: dict[str, Any]


class KnownCopy(Record):
    """A copy whose formats its files tell otherwise than its ending does."""

    name: str
    of: str
    """The model of the table that it is a copy of."""
    quantization_config: dict[str, Any]
    """What of its files decides the formats."""


@cache
def known_models() -> tuple[KnownModel, ...]:
    """Return the models of the table."""
    return TypeAdapter(tuple[KnownModel, ...]).validate_python(_table()["models"])


@cache
def known_copies() -> tuple[KnownCopy, ...]:
    """Return the copies of the table."""
    return TypeAdapter(tuple[KnownCopy, ...]).validate_python(_table()["copies"])


def known_config(name: str) -> tuple[str, dict[str, Any]]:
    """Return the name on the hub and the reduced configuration of a well-known model.

    Parameters
    ----------
    name : in any case, with or without an organisation; an ending such as ``-FP8``, ``-AWQ`` or ``-NVFP4`` changes the
        formats of its weights.

    Raises
    ------
    ParameterError : it is not in the table; the message suggests the nearest.

    >>> known_config("qwen3-8b")[0]
    'Qwen/Qwen3-8B'
    >>> known_config("Qwen/Qwen3-32B-AWQ")[1]["quantization_config"]["bits"]
    4
    """
    _, whose, typed = f"//{name.strip().replace(' ', '-')}".rsplit("/", 2)
    asked = f"{whose}/{typed}".removeprefix("/").lower()  # of an address on the hub, the name
    if (copy := _copies().get(asked)) is not None:
        return copy.name, {**_model(copy).config, "quantization_config": copy.quantization_config}
    found = _found(asked)
    own = asked.startswith("nvidia/") and asked.endswith(_QUANTISED) and asked not in _by_name()
    if found is not None and not own:  # NVIDIA's copies are not those that a model's maker quantised, of the same name
        return found
    for ending, quantisation in _SUFFIXES.items():
        base = _unquantised(asked.removesuffix(ending)) if asked.endswith(ending) else None
        if base is not None:
            known, config = base
            published = config.pop("quantization_config", None) or {}
            said = quantisation
            if asked.startswith("nvidia/") and quantisation:
                said = {**quantisation, **_NVIDIA}
            elif ending == "-fp8" and known.lower().split("/")[0] in _BLOCK_PUBLISHERS:
                said = _SUFFIXES["-fp8-block"]
            if said:  # of modules that the publisher spares, others spare the same
                config["quantization_config"] = {"ignore": published.get("ignore", []), **said}
            others = whose and whose.lower() != known.lower().partition("/")[0]
            return f"{whose}/{typed}" if others else known + typed[-len(ending) :], config
    asked_of = asked.partition(":")[0]  # behind it, which file of several
    for form, whose in _ELSEWHERE:
        copied = form.sub("", asked_of)
        base = _unquantised(copied) or _unquantised(_ORGANISATION.sub("", copied)) if copied != asked_of else None
        if base is not None:
            rule = f"is in {whose}, whose times are not modelled; the nearest question that can be answered: a plan of "
            raise ParameterError(
                "model", name, rule + f"{base[0].removesuffix('-BF16')}-AWQ (4 bits in vLLM or SGLang)"
            )
    by_name = _by_name()
    short = asked.rpartition("/")[2]
    near = [one for one in by_name if short and short in one]  # a family, or a name that breaks off
    near = near or get_close_matches(asked, by_name, n=3) or get_close_matches(short, by_name, n=3)
    suggested = list(dict.fromkeys(by_name[one][0] for one in near))[:3]
    hint = f"; did you mean {' or '.join(suggested)}?" if suggested else ""
    rule = f"must be a config.json, a folder with one, or one of {len(known_models())} known models"
    raise ParameterError("model", name, rule + hint)


def base_name(name: str) -> str:
    """Return the name of the model that a quantised copy is of, with its organisation if the model is known.

    >>> base_name("qwen3-32b-fp8"), base_name("Qwen/Qwen3-32B")
    ('Qwen/Qwen3-32B', 'Qwen/Qwen3-32B')
    """
    asked = name.strip().lower()
    if (copy := _copies().get(asked)) is not None:
        return copy.of
    for ending in (*_SUFFIXES, ""):
        found = _unquantised(asked.removesuffix(ending)) if asked.endswith(ending) else None
        if found is not None:
            return found[0]
    return name


def _unquantised(asked: str) -> tuple[str, dict[str, Any]] | None:
    """The model of a name without its ending; some publishers end those of models in bf16 too."""
    return _found(asked) or _found(f"{asked}{_PLAIN}")


def _found(asked: str) -> tuple[str, dict[str, Any]] | None:
    by_name = _by_name()
    entry = by_name.get(asked) or by_name.get(asked.rpartition("/")[2])
    return None if entry is None else (entry[0], dict(entry[1].config))


@cache
def _table() -> dict[str, Any]:
    text = files(__package__).joinpath("known_models.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))


def _model(copy: KnownCopy) -> KnownModel:
    return _by_name()[copy.of.lower()][1]


@cache
def _copies() -> dict[str, KnownCopy]:
    """Copies by name in lower case, with and without organisation."""
    found = {copy.name.lower(): copy for copy in known_copies()}
    return {name.rpartition("/")[2]: copy for name, copy in found.items()} | found


@cache
def _by_name() -> dict[str, tuple[str, KnownModel]]:
    """Names in lower case, with and without organisation; the first of two alike wins."""
    found: dict[str, tuple[str, KnownModel]] = {}
    for model in known_models():
        for name in model.names:
            found.setdefault(name.lower(), (name, model))
            found.setdefault(name.lower().rpartition("/")[2], (name, model))
    return found
