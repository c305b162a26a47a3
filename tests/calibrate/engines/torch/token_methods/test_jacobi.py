"""Jacobi decoding: the fixed point is the text of plain decoding, greedy and sampled."""

from __future__ import annotations

from functools import cache

import pytest
from torch_jobs import answered, job, told

from calibrate.engines.protocol import GREEDY, Sampling
from calibrate.engines.speculation import Speculation
from calibrate.engines.torch.batch import ContinuousBatch
from calibrate.engines.torch.job import Limits
from calibrate.engines.torch.token_methods.jacobi import JacobiBlock
from ledger.lookahead_decoding import exact

LIMITS = Limits(max_batch=4, n_idle=4, max_context=512)


def answers(target, window, **options):
    """The jobs of all questions, decoded together; ``window`` None is plain decoding."""
    engine = ContinuousBatch(target[0], target[1], frozenset([0]), LIMITS)
    spec = None if window is None else Speculation(method="jacobi", k2=window + 1, window=window)
    options = {"max_tokens": 80, "ignore_eos": False, **options}
    return answered(engine, *(job(q, speculation=spec, **options) for q in target[2]))


@pytest.fixture(scope="module")
def plain_answers(target):
    """Call with options: the plain answers, written once for all windows compared with them."""
    return cache(lambda **options: answers(target, None, **options))


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=0.7, top_p=0.9)])
@pytest.mark.parametrize("window", [1, 4, 16])
def test_text_is_that_of_plain_decoding(target, plain_answers, window, sampling):
    options = {"sampling": sampling, "seed": 4}
    plain, found = plain_answers(**options), answers(target, window, **options)
    assert told(found) == told(plain)
    for one in found:
        assert len(one.passes) <= one.n_generated - 1
        assert all(0 <= accepted <= drafted <= window for drafted, accepted in one.passes)


@pytest.mark.parametrize("ends", [{"stop": ("\n\n",)}, {"max_tokens": 1}, {"max_tokens": 2}, {"max_tokens": 9}])
def test_ends_are_those_of_plain_decoding(target, ends):
    assert told(answers(target, 6, **ends)) == told(answers(target, None, **ends))


def test_block_against_the_ledger_s_iteration():
    """Every greedy target on two tokens and every first guess: as many updates as Algorithm 2 takes, and its text.

    The paper's block is the whole output and does not slide, so the block is as long here.
    """
    for choose in exact.greedy_models(3):
        for code in range(8):
            guess = tuple(code >> i & 1 for i in range(3))
            updates, text = exact.jacobi_iterations(choose, guess)
            assert decoded(choose, guess) == (updates, text)


def decoded(choose, guess):
    """Slide a block of guesses over three tokens; the current token is the prompt's last."""
    block = JacobiBlock(len(guess), [0, 1])
    block.guesses = list(guess)
    text, passes = (), 0
    while len(text) < 3:
        left = 3 - len(text)
        guesses = block.guesses[:left]
        drawn = [choose((*text, *guesses[:i])) for i in range(left)]
        agree = next((i for i in range(left - 1) if drawn[i] != guesses[i]), left - 1)
        block.update(drawn, agree + 1)
        text, passes = (*text, *drawn[: agree + 1]), passes + 1
    return passes, text
