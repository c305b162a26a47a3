"""vLLM's speculative configurations in this project's terms: settings to measure, and requests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibrate.engines.speculation import Speculation
from calibrate.engines.token_vocabulary import OF_VLLM, VLLM_KNOBS
from calibrate.loads.levels import Decoding

__all__ = ["setting_of", "speculation_of", "without_knobs"]


def setting_of(config: Mapping[str, Any]) -> Decoding:
    """Return the catalogue's name and knobs of a checked configuration (`vllm.config.checked_speculative`)."""
    knobs: dict[str, int | float | str | bool] = {"k2": int(config["num_speculative_tokens"]) + 1}
    if config["method"] == "ngram":
        knobs |= {"max_ngram": int(config["prompt_lookup_max"])}
        if config.get("prompt_lookup_min", 1) != 1:
            knobs |= {"min_ngram": int(config["prompt_lookup_min"])}
    return Decoding(method=OF_VLLM[config["method"]].catalogue, knobs=knobs)


def speculation_of(config: Mapping[str, Any], knobs: Mapping[str, Any] | None = None) -> Speculation:
    """Return the speculation of a request for a configuration.

    Parameters
    ----------
    config : vLLM's method, the weights of the drafter, and further settings of the engine.
    knobs : knobs of the catalogue; those that the method does not have are ignored. Default the configuration's.
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
