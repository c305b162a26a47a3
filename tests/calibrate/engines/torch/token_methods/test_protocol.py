"""Token-level speculation in the engine: nothing changes but the number of passes, and what changes is counted."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch_jobs import advanced, batch_of, bundled_prompts, finish, job, random_model, random_prompts, tokens_in

from calibrate.engines.protocol import Sampling
from calibrate.engines.sampling import distribution
from calibrate.engines.speculation import Speculation
from calibrate.engines.torch.batch import ContinuousBatch
from calibrate.engines.torch.decoder import Decoder
from calibrate.engines.torch.job import SPARE, Limits
from calibrate.engines.torch.token_methods.draft_model import DraftModel
from calibrate.engines.torch.token_methods.eagle import EagleHead, HeadDecoder, build_head
from calibrate.engines.torch.token_methods.protocol import Rows, TokenMethod, Verdict
from calibrate.engines.torch.token_pass import forward_rows, read_tokens
from calibrate.pair import draft_path, head_path, target_path

VOCABULARY = 40
LIMITS = Limits(max_batch=6, n_idle=6, max_context=200)
DRAFT = Speculation(method="draft", k2=4, model=draft_path())
EAGLE = Speculation(method="eagle", k2=4, model=head_path())
NGRAM = Speculation(method="ngram", k2=4)
LOOKAHEAD = Speculation(method="lookahead", window=5, ngram=4, guesses=5)
JACOBI = Speculation(method="jacobi", k2=5, window=4)
HOT = Sampling(temperature=0.8, top_p=0.9)


def tiny(seed, n_layers, base=None):
    """A random model whose second layer adds little; with a base, that model's beginning: the two often agree."""
    sizes = {"vocab_size": VOCABULARY, "num_hidden_layers": n_layers, "max_position_embeddings": 1024}
    model = random_model(seed, tie_word_embeddings=True, initializer_range=0.3, **sizes)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "layers.1" in name and ("o_proj" in name or "down_proj" in name):
                weight.mul_(0.35)
    if base is not None:
        model.load_state_dict(base.state_dict(), strict=False)
    return model


@pytest.fixture(scope="module")
def decoders():
    target = tiny(3, 2)
    draft = tiny(4, 1, base=target)
    models = [Decoder(copy.deepcopy(model), LIMITS.max_context + SPARE) for model in (target, draft)]
    return [*models, HeadDecoder(build_head(target.config.to_dict()), models[0], LIMITS.max_context + SPARE)]


def make(decoders, *, eos=(), draft_context=1000):
    methods = {
        ("draft", DRAFT.source): DraftModel(decoders[1], LIMITS, draft_context),
        ("eagle", EAGLE.source): EagleHead(decoders[2], LIMITS, draft_context),
    }
    return ContinuousBatch(decoders[0], None, frozenset(eos), LIMITS, methods)


def prompts(n, seed=0):
    return random_prompts(n, VOCABULARY, seed)


def at(speculation, k2):
    return Speculation(method=speculation.method, k2=k2, model=speculation.model)


@pytest.mark.parametrize("k2", [1, 2, 5, 9])
def test_greedy_texts_are_those_of_plain_decoding(decoders, k2):
    """All methods in one batch, with drafts of several lengths; requests join and leave as others run."""
    given = prompts(9, seed=1)
    lengths = np.random.default_rng(2).integers(1, 50, 9).tolist()
    plain = finish(make(decoders), *(job(p, n) for p, n in zip(given, lengths, strict=True)))
    noise = Speculation(method="random", k2=k2)
    methods = [at(DRAFT, k2), at(NGRAM, k2), at(EAGLE, k2), None, noise, at(DRAFT, k2 + 2), at(EAGLE, k2 + 2)]
    methods += [replace(LOOKAHEAD, window=k2), replace(JACOBI, window=k2)]
    jobs = [job(p, n, speculation=method) for p, n, method in zip(given, lengths, methods, strict=True)]
    engine = make(decoders)
    for one in jobs:
        advanced(engine, 2, one)
    finish(engine)
    assert [one.tokens for one in jobs] == plain


@pytest.mark.parametrize("speculation", [DRAFT, EAGLE, NGRAM], ids=lambda one: one.method)
def test_a_seed_gives_its_text_whatever_else_runs(decoders, speculation):
    prompt, *others = prompts(6, seed=3)
    options = {"sampling": HOT, "seed": 11, "speculation": speculation}
    alone = finish(make(decoders), job(prompt, 60, **options))[0]
    busy = job(prompt, 60, **options)
    methods = [None, at(DRAFT, 7), NGRAM, at(EAGLE, 6)]
    mixed = [
        job(p, 40, sampling=Sampling(temperature=i % 2), seed=i, speculation=methods[i % 4])
        for i, p in enumerate(others)
    ]
    finish(make(decoders), *mixed[:2], busy, *mixed[2:])
    assert busy.tokens == alone
    assert finish(make(decoders), job(prompt, 60, **{**options, "seed": 12})) != [alone]


@pytest.mark.parametrize("speculation", [at(NGRAM, 6), LOOKAHEAD, JACOBI], ids=lambda one: one.method)
def test_methods_without_weights_draw_the_very_tokens_of_plain_decoding(decoders, speculation):
    given = prompts(6, seed=4)
    plain = finish(make(decoders), *(job(p, 60, sampling=HOT, seed=i) for i, p in enumerate(given)))
    fast = [job(p, 60, sampling=HOT, seed=i, speculation=speculation) for i, p in enumerate(given)]
    assert finish(make(decoders), *fast) == plain
    assert sum(accepted for one in fast for _, accepted in one.passes) > 10


def test_a_text_ends_where_plain_decoding_ends_it(decoders):
    """End of text inside an accepted draft: what was accepted beyond it is neither given out nor counted."""
    prompt = [3, 1, 4]
    text = finish(make(decoders), job(prompt, 80))[0]
    cut = 0
    for eos in sorted(set(text)):
        where = text.index(eos)
        one = job(prompt, 80, ignore_eos=False, speculation=at(DRAFT, 6))
        engine = make(decoders, eos=[eos])
        finish(engine, one)
        assert (one.finish, one.tokens, one.n_generated) == ("eos", text[:where], where + 1)
        cut += 1 + sum(accepted + 1 for _, accepted in one.passes) > one.n_generated
        assert sum(p.tokens for p in engine.work.passes) == one.n_generated - 1
    assert cut > 0
    assert finish(make(decoders, eos=text[:1]), job(prompt, 80)) == [text]  # it is told to go on


@pytest.mark.parametrize(
    "speculation", [at(DRAFT, 7), at(EAGLE, 7), at(NGRAM, 7), LOOKAHEAD, JACOBI], ids=lambda one: one.method
)
def test_limits_hold_to_the_token(decoders, speculation):
    """Of the request, and, for the last one, of the context."""
    asked = [([3, 1, 4], 1), ([3, 1, 4], 2), ([3, 1, 4], 5), ([3, 1, 4], 23), ([3, 1, 4] * 60, 100)]
    jobs = [job(*one, speculation=speculation) for one in asked]
    assert finish(make(decoders), *jobs) == finish(make(decoders), *(job(*one) for one in asked))
    assert [(one.finish, one.n_generated) for one in jobs] == [("length", n) for n in (1, 2, 5, 23, 20)]
    assert len(jobs[-1].prompt) + 20 == LIMITS.max_context


def test_beyond_its_own_context_the_draft_model_is_silent(decoders):
    one = job([3, 1, 4], 60, speculation=at(DRAFT, 4))
    assert finish(make(decoders, draft_context=30), one) == finish(make(decoders), job([3, 1, 4], 60))
    drafted = [n for n, _ in one.passes]
    assert drafted[0] == 3
    assert drafted[-1] == 0


@pytest.mark.parametrize("sampling", [Sampling(), HOT], ids=["greedy", "hot"])
def test_the_caches_hold_committed_tokens_only(decoders, sampling):
    """After every pass the target's rows hold all tokens but the last, the draft's at most those."""
    engine = make(decoders)
    method = engine._methods["draft", DRAFT.source]
    jobs = [
        job(p, n, sampling=sampling, seed=n, speculation=[DRAFT, NGRAM][n % 2])
        for p, n in zip(prompts(8, seed=5), range(20, 36, 2), strict=True)
    ]
    jobs[3].speculation = jobs[5].speculation = at(DRAFT, 6)
    advanced(engine, 0, *jobs)
    while engine.busy:
        engine.advance()
        for row, one in enumerate(engine._running):
            assert tokens_in(engine.cache, row) == [*one.prompt, *one.tokens][:-1]
        for row, one in enumerate(method._jobs):
            drafts = tokens_in(method.cache, row)
            assert drafts == [*one.prompt, *one.tokens][: len(drafts)]
            assert len(drafts) >= len(one.prompt)
    assert method.cache.n_active == 0


def test_a_prompt_that_continues_a_speculated_text_finds_it_in_both_caches(decoders):
    engine = make(decoders)
    first = job([3, 1, 4], 30, speculation=DRAFT)
    finish(engine, first)
    draft = engine._methods["draft", DRAFT.source].cache
    read = []
    original = draft.admit
    draft.admit = lambda prompt: read.append((len(prompt), original(prompt))) or read[-1][1]
    longer = [3, 1, 4, *first.tokens, 7]
    second = job(longer, 20, speculation=DRAFT)
    assert finish(engine, second) == finish(make(decoders), job(longer, 20))
    assert second.n_cached == len(longer) - 2
    ((asked, found),) = read
    assert asked == len(longer) + 1  # and the first token of the reply
    assert found >= asked - 4  # the last pass may have drafted less than it committed


def test_an_aborted_request_leaves_both_models(decoders):
    given = prompts(3, seed=6)
    expected = finish(make(decoders), *(job(p, 40) for p in given))
    engine = make(decoders)
    jobs = advanced(engine, 6, *(job(p, 40, speculation=DRAFT) for p in given))
    (waiting,) = advanced(engine, 0, job(given[0], 5))
    assert engine.abort(jobs[0].id) is jobs[0]
    assert engine.abort(waiting.id) is waiting
    assert engine.abort(12345678) is None
    drawn = len(jobs[0].tokens)
    finish(engine)
    assert [one.tokens for one in jobs[1:]] == expected[1:]
    assert (len(jobs[0].tokens), waiting.tokens) == (drawn, [])
    assert engine._methods["draft", DRAFT.source]._jobs == []


def test_statistics_tell_rows_tokens_and_drafting(decoders):
    engine = make(decoders)
    jobs = [job(p, 25, speculation=speculation) for p, speculation in zip(prompts(2, 7), (DRAFT, None), strict=True)]
    finish(engine, *jobs, job([5, 6, 7], 5))
    assert sum(p.tokens for p in engine.work.passes) + sum(it.batch for it in engine.work.iterations) == 24 + 24 + 4
    for p in engine.work.passes:
        assert p.batch <= p.rows <= 4 * p.batch
        assert p.batch <= p.tokens <= p.rows
        assert 0.0 < p.drafting_s < p.seconds
        assert p.context >= 2
    assert jobs[1].passes == []
    assert {drafted for drafted, _ in jobs[0].passes[:-4]} == {3}


class Tree(TokenMethod):
    """Asks for two branches after the last token at once, and follows the second."""

    def propose(self, jobs, room):
        see = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=torch.bool)
        return [
            Rows(ids=[job.tokens[-1], job.memo[0], job.memo[1]], offsets=[0, 1, 1], visible=see, n_drafted=2)
            for job in jobs
        ]

    def verify(self, jobs, rows, logits, hidden):
        best = logits[2::3].argmax(-1).tolist()
        return [
            Verdict(tokens=[one.memo[1], after], n_accepted=1, kept=[0, 2])
            for one, after in zip(jobs, best, strict=True)
        ]


def test_a_method_may_ask_for_a_tree_and_keep_a_branch(decoders):
    """Rows out of line: another position than slot, a mask of their own, and slots that move when they are kept."""
    plain = make(decoders)
    tree = ContinuousBatch(decoders[0], None, frozenset(), LIMITS, {("jacobi", ""): Tree()})
    for prompt, memo in (([3, 1, 4], (9, 8)), ([5, 6, 7, 8], (2, 11))):
        one = job(prompt, 6, speculation=Speculation(method="jacobi", window=1), memo=memo)
        advanced(tree, 0, one, job([7, 7], 3))
    while tree.busy:
        tree.advance()
        for row, running in enumerate(tree._running):
            text = [*running.prompt, *running.tokens]
            assert tokens_in(tree.cache, row) == text[:-1]
            # what the cache holds for the branch is what reading the text afresh would have written
            plain.cache.n_active, plain.cache.length[:] = 0, 0
            plain.cache.admit(text[:-1])
            with torch.inference_mode():
                forward_rows(decoders[0], plain.cache, 0, [Rows(ids=text[:-1])])
            held = tree.cache.view(row, 1, len(text) - 1)
            assert torch.allclose(held, plain.cache.view(0, 1, len(text) - 1), atol=1e-4)


def bundled_pair():
    """An engine of the bundled pair for up to 16 sequences."""
    return batch_of(target_path(), Limits(max_batch=16, n_idle=16, max_context=512), DRAFT, EAGLE)


def exact_triples(engine, prompt, sampling):
    """The law of the first three tokens, by enumeration of all texts that have a chance."""
    law = {(): 1.0}
    for _ in range(3):
        texts = list(law)
        logits = []
        for text in texts:
            engine.cache.n_active, engine.cache.length[:] = 0, 0
            engine.cache.admit([*prompt, *text])
            logits.append(engine.decoder.logits(read_tokens(engine.decoder, engine.cache, 0, [*prompt, *text])[-1:]))
        weights = distribution(torch.cat(logits), [sampling] * len(texts))
        weights = weights / weights.sum(-1, keepdim=True)
        law = {
            (*text, token): law[text] * float(row[token])
            for text, row in zip(texts, weights, strict=True)
            for token in row.nonzero()[:, 0].tolist()
            if law[text] * float(row[token]) > 1e-5
        }
    return law


@pytest.mark.slow
@pytest.mark.parametrize("speculation", [DRAFT, EAGLE], ids=lambda one: one.method)
def test_sampled_tokens_of_the_bundled_pair_follow_the_targets_law(speculation):
    """Chi-square on the first three tokens of 320 texts, sampled hot; a false alarm once in a million."""
    (prompt,) = bundled_prompts(1, 3)
    sampling = Sampling(temperature=2.0, top_p=0.8)
    with torch.inference_mode():
        law = exact_triples(bundled_pair(), prompt, sampling)
    assert sum(law.values()) == pytest.approx(1.0, abs=0.01)
    n = 320
    jobs = [job(prompt, 4, sampling=sampling, seed=seed, speculation=speculation) for seed in range(n)]
    seen = [tuple(tokens[:3]) for tokens in finish(bundled_pair(), *jobs)]
    assert sum(accepted for one in jobs for _, accepted in one.passes) > n // 4
    often = [text for text, p in law.items() if n * p >= 5.0]
    assert len(often) > 5
    observed = [seen.count(text) for text in often]
    expected = [n * law[text] for text in often]
    rest = n - sum(expected)
    if rest >= 5.0:
        observed, expected = [*observed, n - sum(observed)], [*expected, rest]
    expected = np.array(expected) * (sum(observed) / sum(expected))
    assert stats.chisquare(observed, expected).pvalue > 1e-6
