"""Configuration of a vLLM engine, checked before the engine is started, and its speculation in this project's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from calibrate.engines.local import LocalConfig
from calibrate.engines.speculation import Decoding, Speculation
from calibrate.engines.token_vocabulary import OF_REQUEST, OF_VLLM, VLLM_KNOBS, imposed_chances
from theory.errors import ParameterError

__all__ = [
    "CPU_BLOCK",
    "VllmConfig",
    "checked_speculative",
    "setting_of",
    "speculation_of",
    "speculative_of",
    "without_knobs",
]

_COMMON: Final = frozenset(
    {"method", "num_speculative_tokens", "num_speculative_tokens_per_batch_size", "draft_tensor_parallel_size"}
)
"""Settings that all methods have."""

CPU_BLOCK: Final = 32
"""Tokens in a block of the key-value cache on CPUs: attention there needs multiples of 32. vLLM's default is 128, and
prefixes are cached in whole blocks only, so that the short prompts of steps would never be cached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmConfig(LocalConfig):
    """Configuration of a vLLM engine; the installed vLLM must be built for its device."""

    speculative: Mapping[str, Any] | None = None
    """vLLM's speculative configuration, checked (`checked_speculative`); it applies to all requests of the engine."""
    gpus: tuple[int, ...] | None = None
    """Numbers of the GPUs that the model is split over; None: the first that this process sees."""
    gpu_memory_utilization: float = 0.4
    """Share of a GPU's memory for the engine, in (0, 1]; several engines may share a GPU."""
    eager: bool = True
    """Whether the model runs in eager mode; else it is compiled and captured, which takes minutes at the start."""

    def __post_init__(self) -> None:
        LocalConfig.__post_init__(self)
        if not 0.0 < self.gpu_memory_utilization <= 1.0:
            raise ParameterError("gpu_memory_utilization", self.gpu_memory_utilization, "must be in (0, 1]")


def checked_speculative(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a speculative configuration after a check of its names and ranges.

    vLLM itself guesses a missing method, and treats an unknown one as a draft model; here the method is required.

    Raises
    ------
    ParameterError : no method or an unknown one, a setting that the method does not have, or a number out of range.

    >>> checked_speculative({"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 2})["method"]
    'ngram'
    """
    method = str(config.get("method"))
    if method not in OF_VLLM:
        raise ParameterError("method", method, f"must be one of {', '.join(OF_VLLM)}")
    known = _COMMON | OF_VLLM[method].drafter_settings | {VLLM_KNOBS[knob] for knob in OF_VLLM[method].knobs}
    if unknown := sorted(config.keys() - known):
        rule = f"is no setting of the method {method}; there are: {', '.join(sorted(known))}"
        raise ParameterError("speculative", unknown[0], rule)
    tokens = config.get("num_speculative_tokens")
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        raise ParameterError("num_speculative_tokens", tokens, "must be an integer >= 1")
    longest, shortest = config.get("prompt_lookup_max"), config.get("prompt_lookup_min", 1)
    if method == "ngram" and not (isinstance(longest, int) and isinstance(shortest, int) and 1 <= shortest <= longest):
        raise ParameterError("prompt_lookup_max", longest, f"must be an integer >= prompt_lookup_min={shortest!r} >= 1")
    if method != "ngram" and not str(config.get("model") or ""):
        raise ParameterError("model", config.get("model"), f"must name the weights that draft, with method {method}")
    imposed_chances(config)
    return dict(config)


def speculative_of(speculation: Speculation) -> dict[str, Any]:
    """Return vLLM's speculative configuration for a request's speculation; k2 tokens per pass are k2 - 1 drafted ones.

    Raises
    ------
    ParameterError : vLLM does not have the method, k2 = 1 drafts nothing, or ``extra`` does not fit.
    """
    terms = OF_REQUEST[speculation.method]
    if not terms.vllm:
        names = ", ".join(known.requested for known in OF_VLLM.values())
        raise ParameterError("method", speculation.method, f"is not supported by vLLM; choose one of {names}")
    if speculation.k2 < 2:
        raise ParameterError("k2", speculation.k2, "must be >= 2: num_speculative_tokens is k2 - 1")
    lengths = {"max_ngram": speculation.max_ngram, "min_ngram": speculation.min_ngram}
    config = terms.vllm_configuration(speculation.k2, model=speculation.source, **lengths)
    extra = dict(speculation.extra)
    if again := sorted(config.keys() & extra.keys()):
        raise ParameterError("extra", again[0], "repeats a field of the request: leave it out")
    return checked_speculative(config | extra)


def setting_of(config: Mapping[str, Any]) -> Decoding:
    """Return the catalogue's name and knobs of a checked configuration (`checked_speculative`)."""
    knobs: dict[str, int | float | str | bool] = {"k2": int(config["num_speculative_tokens"]) + 1}
    if config["method"] == "ngram":
        knobs |= {"max_ngram": int(config["prompt_lookup_max"])}
        if config.get("prompt_lookup_min", 1) != 1:
            knobs |= {"min_ngram": int(config["prompt_lookup_min"])}
    return Decoding(method=OF_VLLM[config["method"]].catalogue, knobs=knobs)


def speculation_of(config: Mapping[str, Any], knobs: Mapping[str, Any] | None = None) -> Speculation:
    """Return the speculation of a request for a configuration of vLLM.

    ``knobs`` of the catalogue are by default the configuration's; those that the method does not have are ignored.
    """
    terms = OF_VLLM[config["method"]]
    given = setting_of(config).knobs if knobs is None else knobs
    numbers = {name: int(value) for name, value in given.items() if name in terms.knobs and value is not None}
    settings = without_knobs(config)
    model = Path(str(settings.pop("model"))) if "model" in settings else None
    del settings["method"]
    hashable = ((name, tuple(value) if isinstance(value, list) else value) for name, value in settings.items())
    return Speculation(method=terms.requested, model=model, extra=tuple(sorted(hashable)), **numbers)


def without_knobs(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a configuration that are no knobs of the catalogue: the same for all of a method."""
    return {name: value for name, value in config.items() if name not in VLLM_KNOBS.values()}
