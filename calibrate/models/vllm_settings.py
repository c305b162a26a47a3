"""vLLM's speculative configurations in this project's terms: methods and knobs of the catalogue, and requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from calibrate.engines.speculation import Speculation, TokenMethodName
from calibrate.measuring.token_methods import TokenSetting
from theory.errors import ParameterError

__all__ = ["CATALOGUE", "KNOBS", "REQUESTED", "method_of", "parsed", "setting_of", "speculation_of"]

CATALOGUE: Final[Mapping[str, str]] = {
    "ngram": "prompt-lookup",
    "draft_model": "draft-model",
    "eagle": "eagle",
    "eagle3": "eagle",
}
"""Names of vLLM's methods in the catalogue of methods."""

REQUESTED: Final[Mapping[str, TokenMethodName]] = {
    "ngram": "ngram",
    "draft_model": "draft",
    "eagle": "eagle",
    "eagle3": "eagle3",
}
"""Their names in a request."""

KNOBS: Final = frozenset({"num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min"})
"""Settings of vLLM that are knobs in the catalogue; the others hold for all configurations of a method."""


def parsed(text: str) -> list[dict[str, Any]]:
    """Read a JSON list of objects; an empty text is an empty list.

    Raises
    ------
    ParameterError : it is something else.
    """
    try:
        found = json.loads(text or "[]")
    except json.JSONDecodeError as error:
        raise ParameterError("speculative", text, f"must be JSON: {error.msg}") from None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ParameterError("speculative", text, "must be a list of objects")
    return found


def setting_of(config: Mapping[str, Any]) -> TokenSetting:
    """Return the catalogue's name and knobs of a checked configuration (`backends.vllm_config.checked_speculative`)."""
    knobs: dict[str, int | float | str | bool] = {"k2": int(config["num_speculative_tokens"]) + 1}
    if config["method"] == "ngram":
        knobs |= {"max_ngram": int(config["prompt_lookup_max"])}
        if config.get("prompt_lookup_min", 1) != 1:
            knobs |= {"min_ngram": int(config["prompt_lookup_min"])}
    return TokenSetting(method=CATALOGUE[str(config["method"])], knobs=knobs)


def speculation_of(config: Mapping[str, Any]) -> Speculation:
    """Return what a request must carry to be decoded by a checked configuration."""
    numbers = {str(name): int(value) for name, value in setting_of(config).knobs.items()}
    extra = tuple(sorted((name, value) for name, value in config.items() if name not in KNOBS | {"method", "model"}))
    model = Path(str(config["model"])) if "model" in config else None
    return Speculation(method=REQUESTED[str(config["method"])], model=model, extra=extra, **numbers)


def method_of(speculation: Speculation) -> str:
    """Return the catalogue's name of the method that a request asks for."""
    return next(CATALOGUE[name] for name, asked in REQUESTED.items() if asked == speculation.method)
