"""One definition of token acceptance, whatever says it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.engines.prometheus import SpecDecode
from calibrate.token_acceptance.counts import DEFINITION, TokenCounts, disagreement, report
from calibrate.token_acceptance.requests import RequestAcceptance
from theory.errors import ParameterError, SchemaError

PASSES = st.lists(st.lists(st.integers(0, 3) | st.none(), min_size=1, max_size=40), min_size=1, max_size=5)
"""For each request its passes: accepted tokens of 3 drafted ones, or None without a draft."""


def four_ways(requests: list[list[int | None]]) -> list[TokenCounts]:
    """The same passes as each source would tell them."""
    tokens = [1 + sum(1 + (a or 0) for a in passes) for passes in requests]
    with_draft = [[a for a in passes if a is not None] for passes in requests]
    accepted, drafts = sum(map(sum, with_draft)), sum(map(len, with_draft))
    records = [
        RequestAcceptance(histogram=tuple(found.count(j) for j in range(4)), n_drafted=3 * len(found), n_tokens=n)
        for found, n in zip(with_draft, tokens, strict=True)
    ]
    named = {"drafts": drafts, "draft_tokens": 3 * drafts, "accepted_tokens": accepted}
    metrics = [SimpleNamespace(name=f"vllm:spec_decode_num_{name}", value=n) for name, n in named.items()]
    metrics += [SimpleNamespace(name="vllm:generation_tokens", value=n) for n in tokens]
    metrics += [SimpleNamespace(name="vllm:spec_decode_num_accepted_tokens_per_pos", values=[1, 0, 0])]
    counted = SpecDecode(tokens=sum(tokens), drafts=drafts, drafted=3 * drafts, accepted=accepted)
    chunks = [[1, *(1 + (a or 0) for a in passes)] for passes in requests]
    return [
        TokenCounts.of_counters(counted),
        TokenCounts.of_records(records),
        TokenCounts.of_metrics(metrics),
        TokenCounts.of_chunks(chunks, k2=4),
    ]


@given(PASSES)
def test_all_four_say_the_same_about_the_same_passes(requests: list[list[int | None]]) -> None:
    counts = four_ways(requests)
    passes = sum(1 + len(found) for found in requests)
    for one in counts:
        assert one.tokens_per_pass == pytest.approx(one.tokens / passes)
    assert disagreement(counts) < 1e-12
    assert counts[0].acceptance_rate == pytest.approx(counts[1].acceptance_rate, nan_ok=True)


def test_a_miss_is_a_pass_but_no_draft() -> None:
    """Two drafts with 3 accepted and four misses: 1 + 6 + 6 tokens in 7 passes, not 1 + 6 / 2 per pass."""
    counts = four_ways([[3, None, None, 3, None, None]])
    assert counts[0].drafts == 2
    assert counts[0].tokens_per_pass == pytest.approx(13 / 7)


def test_merged_outputs_count_as_the_fewest_passes() -> None:
    assert TokenCounts.of_chunks([(1, 5, 0, 8)], k2=4).accepted == 14 - (1 + 2 + 2)


def test_the_report_says_what_it_means() -> None:
    text = report(four_ways([[3, None, 1]]))
    assert DEFINITION in text
    assert text.count(": 2.0000 (8 tokens, ") == 4
    assert text.endswith("+0.00 %")


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ParameterError, match="accepted"):
        TokenCounts(source="x", tokens=3, accepted=3)
    with pytest.raises(ParameterError, match="k2"):
        TokenCounts.of_chunks([(1,)], k2=0)
    with pytest.raises(ParameterError, match="records"):
        TokenCounts.of_records([RequestAcceptance(histogram=(1, 0), n_drafted=1)])
    with pytest.raises(SchemaError, match="disable_log_stats"):
        TokenCounts.of_metrics([])
    with pytest.raises(ParameterError, match="counts"):
        disagreement([TokenCounts(source="x", tokens=3, accepted=1)])
