"""The likelihood of a given text: what transformers says of it, token by token."""

import math
from types import SimpleNamespace

import pytest
import torch

from calibrate.engines.protocol import Request, Sampling, TellsLikelihood
from calibrate.engines.torch.model import load_model
from calibrate.running.scorers import LikelihoodScorer
from calibrate.running.verifiers import StepText
from sim.operations import Step, prompt
from sim.roles import TARGET
from theory.errors import CalibrationError, ParameterError

QUESTION = " he has two apples.\n\n"
STEP = " now ten more.\n\n"


async def test_a_text_is_as_likely_as_transformers_says(engines):
    """Logits of one token and of several at once differ by rounding: float32 leaves 1e-4 nats a step."""
    engine = engines.draft
    assert isinstance(engine, TellsLikelihood)
    await engine.forget()
    ids = engine.encode(QUESTION)
    asked = Request(prompt=ids, max_tokens=40, sampling=Sampling(temperature=1.0), seed=5, stop=(), ignore_eos=True)
    written = await engine.generate(asked)
    whole, n = (*ids, *written.token_ids), len(written.token_ids)
    model = load_model(engine.config.model, dtype=torch.float32, device=torch.device("cpu"))
    with torch.no_grad():
        scores = model(torch.tensor([whole])).logits[0].double().log_softmax(-1)
    every = [float(scores[i, token]) for i, token in enumerate(whole[1:])]
    cold = await engine.likelihood(whole, n)
    assert cold.logprobs == pytest.approx(every[-n:], abs=1e-4)
    assert cold.total == pytest.approx(sum(every[-n:]), abs=1e-3)
    assert cold.n_cached_tokens == len(ids) - 1  # the token before the first one is read again
    everything = await engine.likelihood(whole, len(whole) - 1)
    assert everything.logprobs == pytest.approx(every, abs=1e-4)
    hot = await engine.likelihood(whole, n, temperature=1e6)
    assert hot.logprobs == pytest.approx([-math.log(engine.describe()["vocab_size"])] * n, abs=1e-3)
    after = await engine.generate(asked)
    assert after.token_ids == written.token_ids  # the cache is as it was


async def test_the_scorer_scores_the_step_alone_and_names_what_it_cannot_do(engines):
    engine = engines.draft
    ids, own = engine.encode(QUESTION), engine.encode(STEP)
    root = prompt(len(ids), StepText(text=QUESTION, token_ids=ids, tokenizer_id=engine.tokenizer_id))
    scorer = LikelihoodScorer(temperature=0.6)

    def step(token_ids, text=STEP):
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
    with pytest.raises(CalibrationError, match="server computes no likelihood"):
        await scorer.score(step(own), engine=SimpleNamespace(name="server", tokenizer_id=None))
