"""Lookahead Decoding and Jacobi decoding in virtual time: their closed forms to three standard errors, their knobs."""

import numpy as np
import pytest
from pass_laws import tokens_of_guesses
from refusals import refused
from sim_worlds import drawn_answers

from sim.answers.token_passes import DrawnPasses, SpeculatedAnswer
from sim.catalogue import method
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.roles import TARGET
from sim.trial import run_answer
from theory.lookahead_decoding.speedup import lookahead_compression

STEPS, TOKENS, ANSWERS = 3, 201, 60


def simulated(name: str, pmf: np.ndarray, pass_s: float, **knobs: int) -> np.ndarray:
    """Seconds per answer: passes of a given time that commit tokens by a given law, first tokens for nothing."""
    behaviour = drawn_answers(TOKENS, alpha=0.5, steps=STEPS)
    source = DrawnPasses(pmf=tuple(pmf.tolist()), seed=1)
    found = []
    for i in range(ANSWERS):
        answer = SpeculatedAnswer(behaviour.answer(i), {TARGET: source}, i)
        session = run_answer(method(name).build(**knobs), answer, {TARGET: BatchEngine(LinearCost(base_s=pass_s))})
        found.append(session.finished)
    return np.array(found)


@pytest.mark.parametrize(("window", "ngram"), [(2, 3), (7, 5), (15, 5)])
@pytest.mark.parametrize(("alpha2", "f"), [(0.425, 3.106), (0.8, 1.0)])
def test_speedup_is_compression_over_cost(alpha2: float, f: float, window: int, ngram: int) -> None:
    """Long steps, so that cut last passes cost under 2 %; S tau(1) / tau within that and 3 standard errors.

    A true closed form fails with probability 2.7e-3 in each of the six comparisons over seeds; the seed is fixed.
    """
    pmf = tokens_of_guesses(alpha2, f, window, ngram)
    knobs = {"window": window, "ngram": ngram, "guesses": window}
    found = simulated("lookahead-decoding", pmf, 1.5, **knobs)
    s = float(lookahead_compression(alpha2, f, window=window, ngram=ngram))
    expected = s / 1.5
    speedup = STEPS * (TOKENS - 1) / found.mean()
    stderr = speedup * found.std(ddof=1) / np.sqrt(ANSWERS) / found.mean()
    cut = STEPS * (ngram - 1) / found.mean() * 1.5  # at most one pass of each step is cut, by N - 1 tokens at most
    assert stderr < 0.02 * speedup
    assert -3 * stderr - cut * expected <= speedup - expected <= 3 * stderr


def test_tokens_of_a_pass_follow_from_the_knobs() -> None:
    assert method("lookahead-decoding").most_per_pass(window=7, ngram=5, guesses=7) == 5
    assert method("jacobi").most_per_pass(window=6) == 7


test_impossible_knobs_are_refused = refused(
    lambda name, knobs: method(name).build(**knobs),
    ("lookahead-decoding", {"ngram": 1}, "ngram"),
    ("lookahead-decoding", {"window": 0}, "window"),
    ("jacobi", {"window": 0}, "window"),
)
