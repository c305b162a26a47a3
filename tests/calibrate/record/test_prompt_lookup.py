"""Prompt lookup against a literal definition, and the counts against a replay by hand."""

from hypothesis import given
from hypothesis import strategies as st

from calibrate.record.prompt_lookup import count_acceptance, lookup

TOKENS = st.lists(st.integers(0, 3), min_size=0, max_size=30)


def naive(tokens: list[int], max_ngram: int, n: int, min_ngram: int = 1) -> list[int]:
    """The definition, by strings."""
    for size in range(min(max_ngram, len(tokens) - 1), min_ngram - 1, -1):
        text, tail = "".join(map(str, tokens)), "".join(map(str, tokens[-size:]))
        at = text[:-1].find(tail)
        if at >= 0:
            return [int(c) for c in text[at + size : at + size + n]]
    return []


@given(TOKENS, st.integers(1, 4), st.integers(1, 3), st.integers(1, 6))
def test_lookup_is_its_definition(tokens: list[int], max_ngram: int, min_ngram: int, n: int) -> None:
    found = lookup(tokens, max_ngram=max_ngram, min_ngram=min_ngram, n_speculative=n)
    assert found == naive(tokens, max_ngram, n, min_ngram)


def test_tokens_are_compared_whole() -> None:
    """The bytes of 0x01010101 occur at every offset of a run of it; and 256 shifted by a byte is 1."""
    assert lookup([1, 256, 0, 7, 256], max_ngram=1, n_speculative=2) == [0, 7]
    assert lookup([256, 0, 1], max_ngram=1, n_speculative=2) == []
    assert lookup([0x01010101] * 3, max_ngram=2, n_speculative=5) == [0x01010101]


def test_counts_by_hand() -> None:
    record = count_acceptance([((1, 2), (1, 2, 1, 2, 3))], max_ngram=2, n_speculative=2)
    # pass 1 at (1 2): no earlier 2 -> emits 1. pass 2 at (1 2 1): 1 was followed by 2 1 -> both right, emits 2 1 and 2.
    # pass 3 at (1 2 1 2 1 2): 1 2 was followed by 1 2 -> wrong, emits 3.
    assert (record.passes, record.drafts, record.tokens) == (3, 2, 5)
    assert record.drafted_at == [2, 2]
    assert record.accepted_at == [1, 1]
