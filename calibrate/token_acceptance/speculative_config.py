"""vLLM's ``--speculative-config``, made from its name of a token-level method and k2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrate.engines.token_vocabulary import OF_VLLM
from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.token_acceptance.schedule import Schedule

__all__ = ["speculative_config"]


def speculative_config(
    method: str,
    k2: int,
    *,
    model: str | None = None,
    max_ngram: int | None = None,
    schedule: Schedule | None = None,
) -> dict[str, Any]:
    """Return vLLM's ``--speculative-config`` as a dictionary.

    Parameters
    ----------
    method : vLLM's name of it.
    k2 : tokens per target pass, >= 2; ``num_speculative_tokens`` is k2 - 1.
    model : the draft model or the EAGLE head; needed for these, not allowed for n-grams.
    max_ngram : longest n-gram to look up, >= 1; needed for n-grams, not allowed for models. The shortest is 1.
    schedule : speculative tokens by batch size, none above k2 - 1.

    Raises
    ------
    ParameterError : a value outside its range, or one that the method does not go with.
    """
    if method not in OF_VLLM:
        raise ParameterError("method", method, f"must be one of {', '.join(OF_VLLM)}")
    if isinstance(k2, bool) or not isinstance(k2, int) or k2 < 2:
        raise ParameterError("k2", k2, "must be an integer >= 2: num_speculative_tokens is k2 - 1")
    lookup = not OF_VLLM[method].needs
    if lookup != (model is None):
        rule = "must be left out: n-grams need no model" if lookup else f"must name the model of {method}"
        raise ParameterError("model", model, rule)
    if lookup != (max_ngram is not None) or (max_ngram is not None and max_ngram < 1):
        raise ParameterError("max_ngram", max_ngram, "must be an integer >= 1 for n-grams, and left out for models")
    config = OF_VLLM[method].vllm_configuration(k2, model=model, max_ngram=max_ngram)
    if schedule is not None:
        if schedule.most > k2 - 1:
            raise ParameterError("schedule", schedule.plain(), f"must not ask for more than k2 - 1 = {k2 - 1} tokens")
        config["num_speculative_tokens_per_batch_size"] = schedule.plain()
    return config
