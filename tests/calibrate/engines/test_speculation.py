import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from refusals import refuses

from calibrate.engines.protocol import Request
from calibrate.engines.speculation import Speculation
from calibrate.engines.token_vocabulary import VOCABULARY, TokenMethodName
from calibrate.engines.torch.engine import TorchConfig, TorchEngine
from calibrate.engines.vllm.config import speculative_of
from theory.errors import ParameterError


@pytest.mark.parametrize(
    "speculation",
    [
        Speculation(method="ngram", k2=4, max_ngram=5, min_ngram=2),
        Speculation(method="draft", k2=2, model=Path("small"), extra=(("max_model_len", 64),)),
        Speculation(method="lookahead", window=5, ngram=3, guesses=4),
    ],
    ids=lambda one: one.method,
)
def test_it_survives_the_way_to_the_engine(speculation):
    message = json.loads(json.dumps(speculation.to_message()))
    model = speculation.model and speculation.model.resolve()
    assert Speculation.from_message(message) == replace(speculation, model=model)


test_bad_settings_are_named = refuses(
    Speculation,
    ({"method": "magic"}, "method"),
    ({"method": "ngram", "k2": 0}, "k2"),
    ({"method": "ngram", "k2": True}, "k2"),
    ({"method": "ngram", "k2": 2.0}, "k2"),
    ({"method": "ngram", "min_ngram": 0}, "min_ngram"),
    ({"method": "ngram", "max_ngram": 2, "min_ngram": 3}, "max_ngram"),
    ({"method": "draft"}, "model"),
    ({"method": "eagle"}, "model"),
    ({"method": "ngram", "model": Path("x")}, "model"),
    ({"method": "lookahead", "window": 3, "ngram": 1, "guesses": 2}, "ngram"),
    ({"method": "jacobi"}, "window"),
)


@pytest.mark.parametrize(
    ("speculation", "said"),
    [
        (Speculation(method="eagle3", k2=3, model=Path("head")), "method='eagle3' must be one of ngram"),
        (
            Speculation(method="draft", k2=3, model=Path("small"), extra=(("quantization", "fp8"),)),
            "extra={'quantization': 'fp8'} must be empty: these are settings of vLLM",
        ),
    ],
    ids=["eagle3", "extra"],
)
def test_torch_refuses_at_once_what_only_vllm_has(speculation, said):
    """When it is configured, and when a request comes, before the engine is asked: this one was never started."""
    with pytest.raises(ParameterError, match=said):
        TorchConfig(name="t", model=Path("m"), speculations=(speculation,))
    engine = TorchEngine(TorchConfig(name="t", model=Path("m")))
    with pytest.raises(ParameterError, match=said):
        asyncio.run(engine.generate(Request(prompt=(1, 2), max_tokens=3, speculation=speculation)))
    assert speculative_of(speculation)["num_speculative_tokens"] == 2


def test_every_method_has_an_engine():
    own = {"lookahead": {"window": 2, "ngram": 2, "guesses": 1}, "jacobi": {"window": 2}}
    assert tuple(terms.requested for terms in VOCABULARY) == get_args(TokenMethodName)
    for terms in VOCABULARY:
        method = terms.requested
        one = Speculation(method=method, k2=3, model=Path("m") if terms.needs else None, **own.get(method, {}))
        if terms.torch:
            assert TorchConfig(name="t", model=Path("m"), speculations=(one,)).speculations == (one,)
        else:
            assert speculative_of(one)["method"] == method
