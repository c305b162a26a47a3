"""The verification of guesses, every random decision enumerated with exact probabilities; and Jacobi's iteration."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from pass_laws import tokens_of_guesses

from calibrate.engines.torch.token_methods.jacobi import JacobiBlock
from calibrate.engines.torch.token_methods.lookahead_decoding import by_draw
from ledger.lookahead_decoding import exact


class _Undecided(Exception):  # noqa: N818
    """A decision that the script does not have; carries the options and their probabilities."""


class Script:
    """Decisions from a list; ``mass`` is the probability of having taken them."""

    def __init__(self, decisions):
        self._decisions = iter(decisions)
        self.mass = Fraction(1)

    def _decide(self, options):
        try:
            choice = next(self._decisions)
        except StopIteration:
            raise _Undecided([option for option, p in options if p]) from None
        self.mass *= dict(options)[choice]
        return choice

    def pick(self, weights):
        return self._decide([(i, w / weights.sum()) for i, w in enumerate(weights)])


def law_of(kernel):
    """Every outcome of a kernel with its probability."""
    law, scripts = {}, [()]
    while scripts:
        script = scripts.pop()
        chance = Script(script)
        try:
            outcome = kernel(chance)
        except _Undecided as undecided:
            scripts += [(*script, option) for option in undecided.args[0]]
            continue
        law[outcome] = law.get(outcome, 0) + chance.mass
    return law


def draw_law(model, grams):
    def token(chance):
        return lambda guess, depth: chance.pick(np.array(model(grams[guess][:depth] if grams else ()), dtype=object))

    return law_of(lambda chance: by_draw(grams, token(chance))[0])


CASES = [(2, 3, 3, 5), (3, 2, 3, 5), (3, 3, 2, 4)]  # vocabulary, N, most guesses, models


@pytest.mark.parametrize(("vocabulary", "size", "most", "members"), CASES)
def test_draws_have_the_law_of_algorithm_4(vocabulary, size, most, members):
    """Against the ledger's run of the printed lines, for every list of guesses, duplicates included."""
    for model in exact.model_family(vocabulary, members):
        for grams in exact.gram_lists(vocabulary, size - 1, most):
            assert draw_law(model, grams) == exact.sample_verification(model, grams, size)


def test_greedy_draws_are_algorithm_3():
    for choose in exact.greedy_models(3):
        for grams in exact.gram_lists(2, 2, 3):
            found, leader = by_draw(grams, lambda guess, depth: choose(grams[guess][:depth]))  # noqa: B023
            assert found == exact.greedy_verification(choose, grams, 3)
            assert grams[leader][: len(found) - 1] == found[:-1]


@pytest.mark.parametrize(
    ("alpha", "window", "size"), [(Fraction(1, 3), 2, 3), (Fraction(3, 4), 3, 3), (Fraction(2, 5), 1, 5)]
)
def test_accepted_lengths_are_those_of_equation_5(alpha, window, size):
    """Guessed tokens right with probability alpha independently of each other: every pattern of right and wrong."""
    law = [Fraction(0)] * size
    for pattern in product((True, False), repeat=window * (size - 1)):
        rows = [pattern[g * (size - 1) : (g + 1) * (size - 1)] for g in range(window)]
        grams = [tuple(depth if right else -1 for depth, right in enumerate(row)) for row in rows]
        tokens, _ = by_draw(grams, lambda _guess, depth: depth)
        right = sum(pattern)
        law[len(tokens) - 1] += alpha**right * (1 - alpha) ** (len(pattern) - right)
    assert [float(p) for p in law] == pytest.approx(
        tokens_of_guesses(float(alpha), 1.0, window, size).tolist(), abs=1e-15
    )


def test_block_against_the_ledger_s_iteration():
    """Every greedy target on two tokens and every first guess: as many updates as Algorithm 2 takes, and its text.

    The paper's block is the whole output and does not slide, so the block is as long here.
    """
    for choose in exact.greedy_models(3):
        for code in range(8):
            guess = tuple(code >> i & 1 for i in range(3))
            updates, text = exact.jacobi_iterations(choose, guess)
            assert decoded_by_blocks(choose, guess) == (updates, text)


def decoded_by_blocks(choose, guess):
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
