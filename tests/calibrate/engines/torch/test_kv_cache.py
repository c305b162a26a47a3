import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_jobs import tokens_in

from calibrate.engines.torch import kv_cache
from calibrate.engines.torch.kv_cache import KvCache


def make(max_batch=3, n_idle=2, max_context=24):
    options = {"max_batch": max_batch, "n_idle": n_idle, "max_context": max_context}
    return KvCache(shape=(2, 1, 2), dtype=torch.float32, device=torch.device("cpu"), **options)


def fingerprints(prompt):
    """A causal model's cache holds, at each position, something of all tokens up to it: here a running hash."""
    state, out = 0, []
    for token in prompt:
        state = (state * 31 + token + 1) % 65521
        out.append(float(state))
    return out


def feed(cache, row, tokens, known):
    """Write the keys and values of new tokens, as the model would."""
    marks = fingerprints([*known, *tokens])[len(known) :]
    cache.reserve(len(known) + len(tokens))
    cache.kv[:, :, row, len(known) : len(known) + len(tokens)] = torch.tensor(marks)[:, None, None]
    cache.append(row, tokens)


def check(cache, running):
    for row, tokens in enumerate(running):
        assert cache.length[row] == len(tokens)
        held = cache.view(row, 1, len(tokens))
        assert torch.equal(held, torch.tensor(fingerprints(tokens))[:, None].expand_as(held))


def speculate(cache, running, bits):
    """Write four rows behind each sequence, some of which are kept; the others are marked as nobody's."""
    for row, tokens in enumerate(running):
        kept = [slot for slot in range(4) if bits >> slot & 1]
        new = [bits >> (4 + slot) & 1 for slot in range(len(kept))]
        n = len(tokens)
        cache.reserve(n + 4)
        cache.kv[:, :, row, n : n + 4] = -1.0
        marks = fingerprints([*tokens, *new])[n:]
        cache.kv[:, :, row, [n + slot for slot in kept]] = torch.tensor(marks)[:, None, None]
        cache.keep(row, new, kept)
        tokens.extend(new)
        assert tokens_in(cache, row) == tokens


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.lists(st.integers(0, 1), min_size=1, max_size=10)),
        st.tuples(st.just("extend"), st.integers(0, 99)),
        st.tuples(st.just("grow"), st.integers(0, 1)),
        st.tuples(st.just("speculate"), st.integers(0, 2**12)),
        st.tuples(st.just("truncate"), st.integers(0, 99)),
        st.tuples(st.just("release"), st.integers(0, 99)),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=100)
@given(ACTIONS)
def test_rows_always_hold_what_their_sequence_wrote(actions):
    """Whatever is admitted, grown and released in whatever order, no row is ever mixed up or overwritten."""
    cache, running, past = make(), [], [[0]]
    for kind, value in actions:
        if kind in ("admit", "extend") and len(running) < cache.max_batch:
            prompt = value if kind == "admit" else [*past[value % len(past)], 1]
            if len(prompt) > 20:
                continue
            n = cache.admit(prompt)
            assert 0 <= n < len(prompt)
            row = len(running)
            running.append(prompt[:n])
            check(cache, running)
            feed(cache, row, prompt[n:], prompt[:n])
            running[row] = list(prompt)
        elif kind == "grow" and running and max(map(len, running)) < 23:
            for row, tokens in enumerate(running):
                feed(cache, row, [value], tokens)
                tokens.append(value)
        elif kind == "speculate" and running and max(map(len, running)) < 19:
            speculate(cache, running, value)
        elif kind == "truncate" and running:
            row = value % len(running)
            n = value % 7
            cache.truncate(row, n)
            del running[row][n:]
        elif kind == "release" and running:
            row = value % len(running)
            past.append(running[row])
            cache.release(row)
            running[row] = running[-1]
            running.pop()
        assert cache.n_active == len(running)
        check(cache, running)


def test_the_least_recently_used_row_gives_way():
    cache = make(max_batch=1, n_idle=2)
    for prompt in ([1, 1, 1], [2, 2, 2], [3, 3, 3], [4, 4, 4]):
        cache.admit(prompt)
        feed(cache, 0, prompt, [])
        cache.release(0)
    held = [bool((cache._ids[:, :3] == token).all(axis=1).any()) for token in (1, 2, 3, 4)]
    assert held == [False, True, True, True]


def test_growth_keeps_content_and_copies_a_constant_per_token(monkeypatch):
    monkeypatch.setattr(kv_cache, "_INITIAL_BYTES", 0)
    cache = make(max_context=1000)
    assert cache.capacity == 64
    tokens = list(np.arange(300) % 7)
    cache.admit(tokens)
    grown = 0
    for i in range(300):
        before = cache.capacity
        feed(cache, 0, [tokens[i]], tokens[:i])
        grown += before if cache.capacity != before else 0
    check(cache, [tokens])
    assert grown <= 2 * 300  # 64 + 128 + 256: capacities double, so the copies of n tokens sum to less than 2 n
    cache.reserve(1000)
    assert cache.capacity == 1000
    assert cache.max_bytes == cache.kv.numel() * 4


def test_forgetting_leaves_what_runs():
    cache = make()
    for prompt in ([1, 2, 3, 4], [5, 6, 7]):
        row = cache.n_active
        cache.admit(prompt)
        feed(cache, row, prompt, [])
    cache.release(0)  # the last running row takes its place
    cache.forget()
    check(cache, [[5, 6, 7]])
    assert cache.admit([1, 2, 3, 4]) == 0
    assert cache.admit([5, 6, 7, 8]) == 3
