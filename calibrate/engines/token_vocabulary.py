"""Names of methods of token-level speculation in the catalogue, in requests and in vLLM, and their requirements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, TypeGuard

from calibrate.record.json_text import json_option
from sim.catalogue import choice
from theory.errors import ParameterError

__all__ = [
    "BLOCK_DRAFTERS",
    "OF_CATALOGUE",
    "OF_ENGINES",
    "OF_REQUEST",
    "OF_VLLM",
    "UNPLANNED",
    "VLLM_KNOBS",
    "VOCABULARY",
    "Terms",
    "TokenMethodName",
    "catalogue_name",
    "engines_name",
    "imposed_chances",
    "imposed_on",
    "parsed_settings",
]

TokenMethodName: TypeAlias = Literal[
    "ngram", "draft", "eagle", "eagle3", "dspark", "dflash", "lookahead", "jacobi", "random"
]

VLLM_KNOBS: Final[Mapping[str, str]] = {
    "k2": "num_speculative_tokens",
    "max_ngram": "prompt_lookup_max",
    "min_ngram": "prompt_lookup_min",
}
"""Knob of the catalogue -> vLLM's name; k2 tokens per target pass are k2 - 1 speculative tokens."""

BLOCK_DRAFTERS: Final[tuple[Literal["dflash", "dspark"], ...]] = ("dspark", "dflash")
"""Engines' names of drafters of blocks; where a target has both, the first is planned."""

_RATES, _LENGTH = "synthetic_acceptance_rates", "synthetic_acceptance_length"
_IMPOSED: Final = frozenset({"rejection_sample_method", _RATES, _LENGTH})
"""vLLM's settings by which drafts are accepted at random, whatever they say."""
_DRAFTER: Final = _IMPOSED | {"model", "max_model_len", "draft_sample_method", "quantization"}
_HEAD: Final = "the folder of an EAGLE head of the target"
_BLOCK: Final = "the folder of a block drafter of the target"
_BLOCK_DRAFTER: Final = _DRAFTER | {"attention_backend", "enable_adaptive_verification"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A method with all its names.

    Attributes
    ----------
    requested : name in a request (`Speculation.method`).
    catalogue : name in the catalogue of methods; empty: it is used for measurements only.
    vllm : name in vLLM's speculative configuration; empty: vLLM does not have it.
    torch : whether torch engines have it.
    needs : description of the weights that it needs in addition to the target's; empty: none.
    knobs : those of `VLLM_KNOBS` that it has.
    drafter_settings : vLLM's settings of those weights.
    """

    requested: TokenMethodName
    catalogue: str = ""
    vllm: str = ""
    torch: bool = True
    needs: str = ""
    knobs: tuple[str, ...] = ("k2",)
    drafter_settings: frozenset[str] = frozenset()

    def vllm_configuration(
        self, k2: int, *, model: str | None = None, max_ngram: int | None = None, min_ngram: int = 1
    ) -> dict[str, Any]:
        """Return vLLM's speculative configuration, with the weights for methods that need them, else n-gram lengths."""
        lengths = {"prompt_lookup_max": max_ngram, "prompt_lookup_min": min_ngram}
        own: dict[str, Any] = {"model": model} if self.needs else lengths
        return {"method": self.vllm, "num_speculative_tokens": k2 - 1, **own}


VOCABULARY: Final = (
    Terms(requested="ngram", catalogue="prompt-lookup", vllm="ngram", knobs=("k2", "max_ngram", "min_ngram")),
    Terms(
        requested="draft",
        catalogue="draft-model",
        vllm="draft_model",
        needs="a draft with the target's tokenizer",
        drafter_settings=_DRAFTER | {"parallel_drafting"},
    ),
    Terms(requested="eagle", catalogue="eagle", vllm="eagle", needs=_HEAD, drafter_settings=_DRAFTER),
    Terms(requested="eagle3", catalogue="eagle", vllm="eagle3", torch=False, needs=_HEAD, drafter_settings=_DRAFTER),
    *(
        Terms(
            requested=name,
            catalogue="block-drafter",
            vllm=name,
            torch=False,
            needs=_BLOCK,
            drafter_settings=_BLOCK_DRAFTER,
        )
        for name in BLOCK_DRAFTERS
    ),
    Terms(requested="lookahead", catalogue="lookahead-decoding"),
    Terms(requested="jacobi", catalogue="jacobi"),
    Terms(requested="random"),
)

OF_REQUEST: Final[Mapping[str, Terms]] = {terms.requested: terms for terms in VOCABULARY}
OF_VLLM: Final[Mapping[str, Terms]] = {terms.vllm: terms for terms in VOCABULARY if terms.vllm}
OF_CATALOGUE: Final[Mapping[str, Terms]] = {
    terms.catalogue: terms for terms in VOCABULARY if terms.catalogue and terms.torch
}
"""Catalogue name -> its names elsewhere; for the two kinds of EAGLE heads the first, which all engines have."""

OF_ENGINES: Final[Mapping[str, str]] = {
    "ngram": "prompt-lookup",
    "draft_model": "draft-model",
    "eagle": "eagle",
    "eagle3": "eagle",
    "mtp": "eagle",
    **dict.fromkeys(BLOCK_DRAFTERS, "block-drafter"),
}
"""Engines' names of token-level methods -> names in the catalogue, which has a single method for all heads that draft
token by token, and one for those that draft blocks."""

_NO_CURVE: Final = "no acceptance by position has been published that a prior could be fitted to"
UNPLANNED: Final[Mapping[str, str]] = {
    "suffix": "its acceptance depends on what earlier answers had in common; " + _NO_CURVE,
    "medusa": "trees of independent heads are not modelled",
    "mlp_speculator": _NO_CURVE,
}
"""Methods of engines that plans from names do not consider -> reason."""


def engines_name(typed: str) -> str:
    """Return the engines' name of a token-level method, given any common spelling.

    Raises
    ------
    ParameterError : an unknown name, or a method that is not planned, with the reason.

    >>> engines_name("draft-model"), engines_name("prompt-lookup"), engines_name("EAGLE3"), engines_name("nextn")
    ('draft_model', 'ngram', 'eagle3', 'mtp')
    """
    plain = typed.strip().lower().replace("-", "_")
    plain = _SPELLINGS.get(plain, plain)
    if plain in UNPLANNED:
        raise ParameterError("method", typed, f"is not planned: {UNPLANNED[plain]}")
    return choice("method", plain, tuple(OF_ENGINES))


def catalogue_name(typed: str) -> str:
    """Return the catalogue's name of a method given by an engine's name; other names are returned unchanged.

    Raises
    ------
    ParameterError : a method of engines that plans do not consider, with the reason.

    >>> catalogue_name("mtp"), catalogue_name("lr-async")
    ('eagle', 'lr-async')
    """
    plain = typed.strip().lower().replace("-", "_")
    known = {*OF_ENGINES, *_SPELLINGS, *UNPLANNED}
    return OF_ENGINES[engines_name(typed)] if plain in known else typed


_SPELLINGS: Final[Mapping[str, str]] = {
    "prompt_lookup": "ngram",
    "draft": "draft_model",
    "standalone": "draft_model",
    "eagle_3": "eagle3",
    "nextn": "mtp",
    "deepseek_mtp": "mtp",
    **{f"draft_{name}": name for name in ("mtp", "eagle3", *BLOCK_DRAFTERS)},  # llama.cpp's --spec-type
}


def imposed_chances(config: Mapping[str, Any]) -> tuple[float, ...] | None:
    """Return the acceptance that a speculative configuration of vLLM imposes; None where drafts are verified.

    It is the chance that the drafted token at each position and all before it are accepted, falling, in [0, 1]. A mean
    length is met with the least variance, as vLLM does: all positions but one are accepted always or never.

    Raises
    ------
    ParameterError : not one of rates and length, or numbers that vLLM refuses.

    >>> drafting = {"num_speculative_tokens": 3, "rejection_sample_method": "synthetic"}
    >>> imposed_chances({**drafting, "synthetic_acceptance_length": 2.25})
    (1.0, 0.25, 0.0)
    """
    rates, length = config.get(_RATES), config.get(_LENGTH)
    if config.get("rejection_sample_method") != "synthetic":
        if rates is not None or length is not None:
            name = _LENGTH if rates is None else _RATES
            raise ParameterError(name, config[name], 'belongs to the rejection_sample_method "synthetic"')
        return None
    k = int(config["num_speculative_tokens"])
    if (rates is None) == (length is None):
        raise ParameterError("rejection_sample_method", "synthetic", f"needs one of {_RATES} and {_LENGTH}")
    if rates is None:
        if not _is_number(length) or not 1.0 <= length <= k + 1.0:
            raise ParameterError(_LENGTH, length, f"must be a number in [1, {k + 1}], with {k} drafted tokens")
        return tuple(min(max(length - 1.0 - i, 0.0), 1.0) for i in range(k))
    if not isinstance(rates, list | tuple) or len(rates) != k or not all(map(_is_number, rates)):
        raise ParameterError(_RATES, rates, f"must be {k} numbers, one for each drafted token")
    if any(not 0.0 <= after <= before for before, after in pairwise((1.0, *rates))):
        raise ParameterError(_RATES, rates, "must be in [0, 1], none larger than the one before it")
    return tuple(map(float, rates))


def imposed_on(method: str, k2: int, configurations: str) -> tuple[float, ...] | None:
    """Return `imposed_chances` of a method of the catalogue at a depth by vLLM's settings (`parsed_settings`).

    A k2 smaller than was configured has the chances of its positions.

    Raises
    ------
    ParameterError : as `parsed_settings` and `imposed_chances`.
    """
    named = {name for name, terms in OF_VLLM.items() if terms.catalogue == method}
    own = [one for one in parsed_settings(configurations) if one.get("method") in named]
    deep = {n: one for one in own if isinstance(n := one.get("num_speculative_tokens"), int) and n >= k2 - 1}
    chances = imposed_chances(deep[min(deep)]) if deep else None
    return None if chances is None else chances[: k2 - 1]


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def parsed_settings(text: str) -> list[dict[str, Any]]:
    """Parse vLLM's settings of several engines, a JSON list of objects; an empty text is an empty list.

    Raises
    ------
    ParameterError : not a list of objects.
    """
    settings = json_option("speculative", text or "[]")
    if not isinstance(settings, list) or not all(isinstance(one, dict) for one in settings):
        raise ParameterError("speculative", text, "must be a list of objects")
    return settings
