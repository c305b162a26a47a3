"""The pool of n-grams against a plain list of everything that was ever put in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from calibrate.engines.torch.token_methods.lookahead_decoding import NGramPool

grams = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)), max_size=40)


@given(grams, st.integers(1, 4), st.integers(0, 2))
def test_holds_the_latest(added, per_token, token):
    pool = NGramPool(per_token)
    for gram in added:
        pool.add(gram)
    latest = list(dict.fromkeys(gram[1:] for gram in reversed(added) if gram[0] == token))
    assert pool.after(token) == latest[:per_token]


@given(grams, st.integers(1, 4))
def test_a_copy_goes_its_own_way(added, per_token):
    pool = NGramPool(per_token)
    for gram in added:
        pool.add(gram)
    twin = pool.copy()
    before = [pool.after(token) for token in range(3)]
    twin.add((0, 7, 7))
    assert [pool.after(token) for token in range(3)] == before
    assert twin.after(0)[0] == (7, 7)
