"""Prometheus text: what is read, what is skipped, and the identities of the counters."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.engines.prometheus import Load, Sample, SpecDecode, load, parse_metrics
from theory.errors import SchemaError

TEXT = """\
# HELP vllm:spec_decode_num_drafts_total Number of drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 1000.0
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 150.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 600.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 300.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 120.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 180.0
vllm:num_requests_running{engine="0",model_name="m"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 4.0
le_bucket{le="+Inf"} NaN
"""


def test_counters_of_speculation() -> None:
    counters = SpecDecode.read(parse_metrics(TEXT))
    assert counters == SpecDecode(tokens=1000, drafts=150, drafted=600, accepted=300, accepted_at=(180, 120))
    # 1000 tokens, 300 of them drafted: 700 target passes, though only 150 of them had a draft
    assert counters.tokens_per_pass == pytest.approx(1000 / 700)


def test_load_is_summed_over_engines_and_models() -> None:
    assert load(parse_metrics(TEXT)) == Load(running=3, waiting=4)
    assert not Load(running=0, waiting=1).idle
    assert load(parse_metrics("sglang:num_running_reqs 0.0\nsglang:num_queue_reqs 0.0")) == Load(0, 0)
    assert load(parse_metrics("up 1")) is None


@pytest.mark.parametrize("line", ["<html>", "name", 'a{b="c} 1', "a{b} 1", "a one"])
def test_what_is_no_exposition_is_refused(line: str) -> None:
    with pytest.raises(SchemaError, match="line 2 is no sample"):
        parse_metrics(f"up 1\n{line}")


def test_a_server_that_began_anew_is_noticed() -> None:
    now = SpecDecode(tokens=10, drafts=1, drafted=4, accepted=2)
    with pytest.raises(SchemaError, match="a counter decreased"):
        now.since(SpecDecode(tokens=11, drafts=1, drafted=4, accepted=2))


@given(
    passes=st.lists(st.one_of(st.none(), st.tuples(st.integers(1, 5), st.integers(0, 5))), min_size=1, max_size=40),
    split=st.integers(0, 40),
)
def test_tokens_per_pass_counts_passes_without_a_draft(passes: list[tuple[int, int] | None], split: int) -> None:
    def counters(some: list[tuple[int, int] | None]) -> SpecDecode:
        drafts = [(k, min(k, a)) for k, a in filter(None, some)]
        accepted = sum(a for _, a in drafts)
        lines = [
            f"vllm:generation_tokens_total {len(some) + accepted}",
            f"vllm:spec_decode_num_drafts_total {len(drafts)}",
            f"vllm:spec_decode_num_draft_tokens_total {sum(k for k, _ in drafts)}",
            f"vllm:spec_decode_num_accepted_tokens_total {accepted}",
        ]
        found = SpecDecode.read(parse_metrics("\n".join(lines)))
        assert found is not None
        return found

    whole, part = counters(passes), counters(passes[:split])
    rest = whole.since(part)
    assert rest.tokens == len(passes[split:]) + rest.accepted
    if rest.tokens:
        assert rest.tokens_per_pass == pytest.approx(rest.tokens / len(passes[split:]))
    else:
        assert math.isnan(rest.tokens_per_pass)


def test_a_sample_is_plain_data_and_creation_times_are_none() -> None:
    text = 'a{x="a \\"b\\", {c}",} 2.0 1700000000\na_created 1.76e+09'
    assert parse_metrics(text) == [Sample("a", {"x": 'a "b", {c}'}, 2.0)]
    assert SpecDecode.read(parse_metrics(text)) is None  # of a server without speculation
