"""One set of requests on vLLM, its token acceptance read in four ways."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from theory.errors import CalibrationError, ParameterError

if TYPE_CHECKING:
    from calibrate.engines.protocol import Request
    from calibrate.engines.vllm.config import VllmConfig
    from calibrate.token_acceptance.curves import AcceptanceCurve
    from calibrate.token_acceptance.live_readings import Readings

__all__ = ["AGREEMENT", "LiveReadings", "live_readings"]

AGREEMENT: Final = 0.02
"""Largest tokens per pass over the smallest, less 1, at most: streams do not show what was accepted beyond an end."""

_LOOKUP: Final = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReadings:
    """The readings, and what they were made with."""

    readings: Readings
    config: VllmConfig
    requests: list[Request]

    def curve(self) -> AcceptanceCurve:
        """Acceptance per position, by the records of the requests."""
        return self.readings.records.curve()

    def as_text(self) -> str:
        """Return the four readings, their definition, and the parameters in effect."""
        from calibrate.token_acceptance.counts import report

        words = (f"{name}={json.dumps(value)}" for name, value in self._parameters().items())
        return f"{report(self.readings.counts)}\nrun with: {' '.join(words)}"

    def plain(self) -> dict[str, Any]:
        """Return the same as plain data."""
        from dataclasses import asdict

        from calibrate.token_acceptance.counts import DEFINITION, disagreement

        sources = [
            {**asdict(count), "tokens_per_pass": count.tokens_per_pass, "acceptance_rate": count.acceptance_rate}
            for count in self.readings.counts
        ]
        return {
            "definition": DEFINITION,
            "sources": sources,
            "disagreement": disagreement(self.readings.counts),
            "effective": self._parameters(),
        }

    def check(self) -> None:
        """Complain if the sources do not agree.

        Raises
        ------
        CalibrationError : they are further apart than `AGREEMENT`.
        """
        from calibrate.token_acceptance.counts import disagreement

        apart = disagreement(self.readings.counts)
        if apart >= AGREEMENT:
            raise CalibrationError(f"the readings are {100 * apart:.1f} % apart, more than {100 * AGREEMENT:g} %")

    def _parameters(self) -> dict[str, Any]:
        first = self.requests[0]
        return {
            "model": str(self.config.model),
            "speculative": dict(self.config.speculative or {}),
            "device": self.config.device,
            "cores": self.config.cores,
            "dtype": self.config.dtype,
            "requests": len(self.requests),
            "max_tokens": first.max_tokens,
            "ignore_eos": first.ignore_eos,
            "temperature": first.sampling.temperature,
            "top_p": first.sampling.top_p,
            "seeds": [first.seed, self.requests[-1].seed],
        }


def live_readings(
    source: str,
    *,
    speculative: Mapping[str, Any] | None,
    prompts: Path | None,
    requests: int,
    max_tokens: int,
    temperature: float,
    top_p: float,
    seed: int,
    device: str,
) -> LiveReadings:
    """Run requests on vLLM, and read their acceptance in four ways.

    Parameters
    ----------
    source : folder of a model, or 'bundled'.
    speculative : as vLLM's ``--speculative-config``; default n-grams of up to 3 tokens and 3 drafted ones.
    prompts : JSONL file of questions; None for the bundled model.
    requests : how many, >= 2.
    max_tokens : of each.
    temperature, top_p, seed : of the sampling.
    device : cpu or cuda, as vLLM was built.

    Raises
    ------
    ParameterError : no questions for a model that is not the bundled one, or a parameter out of range.
    CalibrationError : vLLM is missing, or an engine failed.
    """
    import asyncio

    from calibrate import pair
    from calibrate.engines.protocol import Request, Sampling
    from calibrate.engines.vllm.config import VllmConfig
    from calibrate.models.asking import BUNDLED, bundled_problems
    from calibrate.token_acceptance.live_readings import four_readings
    from specplan.prompts import read_prompts

    if requests < 2:
        raise ParameterError("requests", requests, "must be an integer >= 2")
    if prompts is None and source != BUNDLED:
        raise ParameterError("prompts", None, "must name a JSONL file of questions, unless the model is 'bundled'")
    config = VllmConfig(
        name="acceptance",
        model=pair.target_path() if source == BUNDLED else Path(source),
        device=device,
        cores=(min(os.sched_getaffinity(0)),) if device == "cpu" else None,  # the others are for reading its streams
        speculative=dict(_LOOKUP if speculative is None else speculative),
    )
    problems = bundled_problems(requests, seed, "validation") if prompts is None else read_prompts(prompts, requests)
    sampling = Sampling(temperature=temperature, top_p=top_p)
    asked = [
        Request(prompt=p.prompt, max_tokens=max_tokens, stop=(), sampling=sampling, seed=seed + i, ignore_eos=True)
        for i, p in enumerate(problems)
    ]
    return LiveReadings(readings=asyncio.run(four_readings(config, asked)), config=config, requests=asked)
