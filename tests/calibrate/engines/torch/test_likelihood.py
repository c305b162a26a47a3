"""The likelihood of a given text: what transformers says of it, token by token."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
import torch

from calibrate.engines.protocol import Request, Sampling
from calibrate.engines.torch.engine import TorchEngine
from calibrate.engines.torch.likelihood import TellsLikelihood
from calibrate.engines.torch.model import load_model
from calibrate.running.scorers import LikelihoodScorer
from calibrate.running.verifiers import StepText
from sim.operations import Step, prompt
from sim.roles import TARGET
from theory.errors import CalibrationError, ParameterError

QUESTION = " he has two apples.\n\n"
STEP = " now ten more.\n\n"


def _log_probabilities(engine: TorchEngine, ids: tuple[int, ...]) -> list[float]:
    """Of every token but the first, by the whole text read at once."""
    assert engine.config.model is not None
    model = load_model(engine.config.model, dtype=torch.float32, device=torch.device("cpu"))
    with torch.no_grad():
        scores = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return [float(scores[i, token]) for i, token in enumerate(ids[1:])]


async def test_a_text_is_as_likely_as_transformers_says(engines: Any) -> None:
    """Logits of one token and of several at once differ by rounding: float32 leaves 1e-4 nats a step."""
    engine = engines.draft
    assert isinstance(engine, TellsLikelihood)
    assert isinstance(engine, TorchEngine)
    await engine.forget()
    ids = engine.encode(QUESTION)
    assert ids is not None
    asked = Request(prompt=ids, max_tokens=40, sampling=Sampling(temperature=1.0), seed=5, stop=(), ignore_eos=True)
    written = await engine.generate(asked)
    whole = (*ids, *written.token_ids)
    every = _log_probabilities(engine, whole)
    expected = every[-len(written.token_ids) :]
    cold = await engine.likelihood(whole, len(written.token_ids))
    assert cold.logprobs == pytest.approx(expected, abs=1e-4)
    assert cold.total == pytest.approx(sum(expected), abs=1e-3)
    assert cold.n_cached_tokens == len(ids) - 1  # the token before the first one is read again
    everything = await engine.likelihood(whole, len(whole) - 1)
    assert len(everything.logprobs) == len(whole) - 1
    assert everything.logprobs == pytest.approx(every, abs=1e-4)
    hot = await engine.likelihood(whole, len(written.token_ids), temperature=1e6)
    assert hot.logprobs == pytest.approx([-math.log(engine.describe()["vocab_size"])] * len(expected), abs=1e-3)
    after = await engine.generate(asked)
    assert after.token_ids == written.token_ids  # the cache is as it was


async def test_the_scorer_scores_the_step_alone_and_names_what_it_cannot_do(engines: Any) -> None:
    engine = engines.draft
    ids = engine.encode(QUESTION)
    own = engine.encode(STEP)
    assert ids is not None
    assert own is not None
    root = prompt(len(ids), StepText(text=QUESTION, token_ids=ids, tokenizer_id=engine.tokenizer_id))
    scorer = LikelihoodScorer(temperature=0.6)

    def step(token_ids: tuple[int, ...] | None, text: str = STEP) -> Step:
        owner = None if token_ids is None else engine.tokenizer_id
        return Step(root, TARGET, 1, payload=StepText(text=text, token_ids=token_ids, tokenizer_id=owner))

    by_ids, reply = await scorer.score(step(own), engine=engine)
    by_text, _ = await scorer.score(step(None), engine=engine)
    assert len(reply.logprobs) == len(own)
    assert by_ids == pytest.approx(by_text, abs=1e-4)
    assert by_ids < 0.0
    assert await scorer.score(step((), ""), engine=engine) == (0.0, None)
    with pytest.raises(ParameterError, match="n_scored=0 must be"):
        await engine.likelihood(ids, 0)
    with pytest.raises(ParameterError, match="temperature=0"):
        await engine.likelihood(ids, 1, temperature=0.0)


def test_an_engine_that_tells_no_likelihoods_is_named() -> None:
    class Mute:
        name = "server"
        tokenizer_id = None

    step = Step(prompt(1), TARGET, 1)
    with pytest.raises(CalibrationError, match="server computes no likelihood"):
        asyncio.run(LikelihoodScorer().score(step, engine=Mute()))  # type: ignore[arg-type]


def test_a_temperature_must_be_positive() -> None:
    with pytest.raises(ParameterError, match="temperature"):
        LikelihoodScorer(temperature=0.0)
