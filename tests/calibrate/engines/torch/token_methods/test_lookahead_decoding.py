"""Lookahead Decoding on real models: its passes against the definition, its texts against plain decoding."""

from fractions import Fraction
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pass_laws import tokens_of_guesses
from torch_jobs import answered, told
from torch_jobs import job as any_job

from calibrate.engines.protocol import GREEDY, Sampling
from calibrate.engines.speculation import Speculation
from calibrate.engines.torch.batch import ContinuousBatch
from calibrate.engines.torch.decoder import Decoder
from calibrate.engines.torch.job import SPARE, Limits
from calibrate.engines.torch.model import load_model, load_tokenizer
from calibrate.engines.torch.token_methods.jacobi import JacobiBlock
from calibrate.engines.torch.token_methods.lookahead_decoding import (
    LookaheadDecoding,
    LookaheadSequence,
    by_draw,
    pass_layout,
)
from calibrate.engines.torch.token_methods.protocol import Rows
from calibrate.engines.torch.token_pass import forward_rows
from ledger.lookahead_decoding import exact

LIMITS = Limits(max_batch=4, n_idle=4, max_context=1024)
WARM = Sampling(temperature=0.8, top_p=0.95)
TOKEN = st.integers(0, 2)
FIRST_WORD = 7
"""The id of the first token that is a word."""


@pytest.fixture(scope="module")
def target(model_folders):
    """The decoder of a tiny target, its tokenizer, and four prompts: some answers end, others run on."""
    folder = model_folders["target"]
    model = load_model(folder, dtype=torch.float32, device=torch.device("cpu"))
    rng = np.random.default_rng(0)
    prompts = [rng.integers(FIRST_WORD, model.config.vocab_size, 12).tolist() for _ in range(4)]
    return Decoder(model, LIMITS.max_context + SPARE), load_tokenizer(folder), prompts


def engine_of(target):
    decoder, tokenizer, _ = target
    return ContinuousBatch(decoder, tokenizer, frozenset([0]), LIMITS)


def speculation(window, ngram, guesses):
    return Speculation(method="lookahead", k2=ngram, window=window, ngram=ngram, guesses=guesses)


def job(prompt, spec=None, **options):
    return any_job(prompt, speculation=spec, **{"max_tokens": 120, "ignore_eos": False, **options})


def runs(target, spec, **options):
    """The jobs of all prompts, decoded together."""
    return answered(engine_of(target), *(job(q, spec, **options) for q in target[2]))


@pytest.fixture(scope="module")
def plain_runs(target):
    """Call with options: the plain runs, made once for all methods compared with them."""
    return cache(partial(runs, target, None))


# one column; shortest n-grams; no space for all guesses; the paper's shape; more guesses than columns
SHAPES = [(1, 2, 1), (6, 2, 3), (4, 3, 9), (7, 5, 7), (15, 5, 15), (3, 8, 2)]


@pytest.mark.parametrize(
    ("shape", "options"), [*((shape, {}) for shape in SHAPES), ((7, 4, 5), {"sampling": WARM, "seed": 3})]
)
def test_text_is_that_of_plain_decoding(target, plain_runs, shape, options):
    """Token for token in float32, up to the end of the answer, in fewer passes than tokens."""
    found, plain = runs(target, speculation(*shape), **options), plain_runs(**options)
    assert told(found) == told(plain)
    assert {one.finish for one in plain} == {"eos", "length"}
    assert sum(len(one.passes) for one in found) < sum(one.n_generated - 1 for one in plain)


@pytest.mark.parametrize(("sampling", "stop"), [(GREEDY, "\n\n"), (WARM, ".")])
def test_stop_strings_end_it_as_plain_decoding(target, sampling, stop):
    options = {"sampling": sampling, "seed": 5, "max_tokens": 60, "stop": (stop,)}
    assert told(runs(target, speculation(9, 5, 9), **options)) == told(runs(target, None, **options))


def test_window_rows_follow_their_own_trajectories(target):
    """Every row of a pass sees what Algorithm 1 conditions it on: compared with plain runs over the flat contexts."""
    decoder, _, questions = target
    state, prompt = LookaheadSequence(speculation(4, 4, 2), questions[0], seed=1), list(questions[0])
    current, grams = prompt[-1], [(5, 9, 7), (11, 6, 5)]
    for gram in grams:
        state.add((current, *gram))
    window = [list(row) for row in state._window]
    rows = state.propose(current, SPARE)
    logits = logits_after(decoder, prompt[:-1], rows)
    for j in range(1, 5):
        oldest = window[0][1:j]
        context = [*prompt, *oldest, *(window[level][j - 1] for level in (1, 2))]
        flat = logits_after(decoder, [], Rows(ids=context))
        newest_row = 2 * 4 + (j - 1)
        assert torch.allclose(logits[newest_row], flat[-1], atol=1e-3)
    for g, gram in enumerate(reversed(grams)):
        flat = logits_after(decoder, [], Rows(ids=[*prompt, *gram]))
        first = state.window_rows + 3 * g
        assert torch.allclose(logits[first : first + 3], flat[-3:], atol=1e-3)


def logits_after(decoder, prefix, rows):
    with torch.inference_mode():
        cache = decoder.cache(LIMITS)
        cache.admit([*prefix, 0])
        if prefix:
            forward_rows(decoder, cache, 0, [Rows(ids=list(prefix))])
            cache.append(0, prefix)
        return decoder.logits(forward_rows(decoder, cache, 0, [rows]))


@pytest.mark.parametrize(("window", "ngram", "guesses"), SHAPES)
def test_rows_of_a_pass(window, ngram, guesses):
    """(W + G)(N - 1) rows; each position is one behind that of what a row attends to at last."""
    offsets, visible = pass_layout(window, ngram, guesses)
    m = (window + guesses) * (ngram - 1)
    assert len(offsets) == m
    assert visible.shape == (m, m)
    for row in range(m):
        seen = sorted(offsets[other] for other in range(m) if visible[row, other])
        assert seen == list(range(offsets[row] + 1))  # exactly one token at every place up to itself


@pytest.mark.parametrize(
    ("pooled", "drawn", "verdict"), [([], (30,), ([30], 0, [0])), ([(5, 6, 7)], (6, 8), ([6, 8], 1, [0, 4]))]
)
def test_window_pools_its_trajectories(pooled, drawn, verdict):
    """Columns become n-grams, the current token first in column 1; the oldest row goes, however many are committed."""
    state = LookaheadSequence(speculation(2, 3, 4), [1, 2, 3], seed=0)
    state._window = [[10, 11], [20, 21]]
    for gram in pooled:
        state.add(gram)
    rows = state.propose(5, 99)
    assert rows.ids[:4] == [5, 11, 20, 21]
    found = state.verify(rows, [0, 0, 30, 31, 0, 0], lambda _row, depth: drawn[depth])
    assert (found.tokens, found.n_accepted, found.kept) == verdict
    assert (state.after(5)[0], state.after(11)) == ((20, 30), [(21, 31)])
    assert state._window == [[20, 21], [30, 31]]


@given(st.lists(st.tuples(TOKEN, TOKEN, TOKEN), max_size=40), st.integers(1, 4))
def test_the_pool_holds_the_latest_and_a_copy_goes_its_own_way(added, per_token):
    """Against a plain list of everything that was ever put in."""
    pool = LookaheadSequence(speculation(2, 3, per_token), [1])
    for gram in added:
        pool.add(gram)
    twin = pool.copy()
    twin.add((0, 7, 7))
    assert twin.after(0)[0] == (7, 7)
    for token in range(3):
        latest = list(dict.fromkeys(gram[1:] for gram in reversed(added) if gram[0] == token))
        assert pool.after(token) == latest[:per_token]


def test_short_of_space():
    """No space for the n-grams, then none for the window: guesses go first, then it is a plain pass."""
    state = LookaheadSequence(speculation(3, 3, 2), [1, 2], seed=0)
    for gram in ((1, 2, 2), (1, 1, 1)):
        state.add(gram)
    assert [len(state.propose(1, space).ids) for space in (1, 5, 6, 7, 8, 10, 99)] == [1, 1, 6, 6, 8, 10, 10]


def test_a_state_is_kept_for_what_goes_further(monkeypatch):
    """Continuations, and siblings of a continuation; never the same prompt again, whose reply the state has seen."""
    monkeypatch.setattr("calibrate.engines.torch.token_methods.lookahead_decoding._SHELF", 3)
    settings, method = speculation(2, 2, 2), LookaheadDecoding(SPARE)

    def ended(prompt, *tokens):
        state = LookaheadSequence(settings, prompt)
        one = job(prompt, memo=state, finish="stop", tokens=list(tokens))
        method.leave(one)
        return state

    first, second = ended((1, 2), 3, 4), ended((1, 2, 3, 4), 5)
    assert method.kept([1, 2, 3, 4, 5, 9], settings) is second
    assert method.kept([1, 2, 7, 7], settings) is first
    assert method.kept([1, 2, 3, 4], settings) is first  # not the state that went on from here
    assert method.kept([1, 2], settings) is None
    assert method.kept([2, 2, 3], settings) is None
    assert method.kept([1, 2, 3, 4], speculation(3, 2, 2)) is None
    ended((8,), 9)
    ended((6,), 9)  # the oldest gives way
    assert method.kept([1, 2, 7], settings) is None
    assert method.kept([6, 9], settings) is not None
    method.forget()
    assert method.kept([6, 9], settings) is None


def test_steps_carry_the_pool_on(target):
    """An answer step by step takes fewer passes than with a new state for each step."""
    spec, passes = speculation(9, 4, 9), {}
    for carried in (True, False):
        engine, prompt, passes[carried] = engine_of(target), target[2][0], 0
        for _ in range(8):
            (one,) = answered(engine if carried else engine_of(target), job(prompt, spec, stop=("\n\n",)))
            passes[carried] += len(one.passes)
            prompt = [*prompt, *one.tokens]
            if one.finish == "eos":
                break
    assert passes[True] < passes[False]


# The verification of guesses, every random decision enumerated with exact probabilities; and Jacobi's iteration.


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


LAWS = [(2, 3, 3, 5), (3, 2, 3, 5), (3, 3, 2, 4)]  # vocabulary, N, most guesses, models


@pytest.mark.parametrize(("vocabulary", "size", "most", "members"), LAWS)
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
