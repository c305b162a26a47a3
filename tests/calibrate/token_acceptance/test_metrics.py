"""``/metrics`` of vLLM, llama.cpp and SGLang, as curves of acceptance."""

import pytest
from refusals import refused

from calibrate.token_acceptance.metrics import curve_of_metrics
from theory.errors import ParameterError, SchemaError

LLAMA = """\
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 500
# TYPE llamacpp:spec_decode_num_drafts counter
llamacpp:spec_decode_num_drafts 200
# TYPE llamacpp:spec_decode_num_draft_tokens counter
llamacpp:spec_decode_num_draft_tokens 400
# TYPE llamacpp:spec_decode_num_accepted_tokens counter
llamacpp:spec_decode_num_accepted_tokens 240
# TYPE llamacpp:spec_decode_num_accepted_tokens_per_pos counter
llamacpp:spec_decode_num_accepted_tokens_per_pos{position="0"} 150
llamacpp:spec_decode_num_accepted_tokens_per_pos{position="1"} 90
"""
SGLANG = 'sglang:generation_tokens_total{model_name="m"} 900\nsglang:spec_accept_length{model_name="m"} 2.5\n'
BARE = """\
vllm:generation_tokens_total{model_name="m"} 350
vllm:spec_decode_num_drafts_total{model_name="m"} 200
vllm:spec_decode_num_draft_tokens_total{model_name="m"} 400
vllm:spec_decode_num_accepted_tokens_total{model_name="m"} 150
"""


def test_llama_counts_as_vllm_does() -> None:
    curve = curve_of_metrics([("a.prom", LLAMA)])
    assert curve.unconditional == (150 / 200, 90 / 200)
    assert curve.hit_rate == 200 / 260
    assert curve_of_metrics([("a.prom", LLAMA)], k=1).unconditional == (150 / 200,)
    vllm = LLAMA.replace("llamacpp:tokens_predicted", "vllm:generation_tokens").replace("llamacpp:", "vllm:")
    assert curve_of_metrics([("a.prom", vllm)]) == curve

    answered = vllm + 'vllm:time_to_first_token_seconds_count{model_name="m"} 10\n'  # prefills verify no draft
    assert curve_of_metrics([("a.prom", answered)]).hit_rate == 200 / 250
    later = answered.replace(" 500", " 560").replace("drafts 200", "drafts 230").replace(" 10\n", " 20\n")
    assert curve_of_metrics([("a.prom", answered), ("b.prom", later)]).hit_rate == 30 / 50

    ahead = LLAMA.replace('position="1"} 90', 'position="1"} 151')  # of the position before it
    assert curve_of_metrics([("a.prom", ahead)]).unconditional == (150 / 200, 150 / 200)


def test_a_length_or_counters_without_positions_give_one_rate() -> None:
    sglang, bare = curve_of_metrics([("a.prom", SGLANG)], k=3), curve_of_metrics([("a.prom", BARE)])
    assert (sglang.k, sglang.figure("length-with-bonus")) == (3, pytest.approx(2.5))
    assert (bare.k, bare.figure("length-without-bonus")) == (2, pytest.approx(150 / 200))


test_what_is_no_acceptance_is_one_line = refused(
    lambda dumps, k=None: curve_of_metrics([(f"a{i}.prom", text) for i, text in enumerate(dumps)], k),
    ([SGLANG], "k=None must be said, since SGLang's metrics tell a mean length"),
    ([SGLANG], 1, r"acceptance=2.5 must be in \[1, 2\] tokens per round with k = 1"),
    ([LLAMA], 3, r"k=3 must be in \[1, 2\]"),
    ([SGLANG.replace("spec_accept", "other")], "a0.prom: no counts of speculative decoding"),
    ([LLAMA, LLAMA], "a1.prom: nothing was drafted between the dumps"),
    ([LLAMA.replace("drafts 200", "drafts 0")], "a0.prom: nothing was drafted"),
    ([LLAMA.replace(" 500", " 900"), LLAMA], "a0.prom, a1.prom: a counter decreased"),
    ([LLAMA.replace('"1"} 90', '"1"} 91'), LLAMA], "a0.prom, a1.prom: a counter decreased"),
    ([LLAMA + 'llamacpp:spec_decode_num_accepted_tokens_per_pos{position="2"} 1\n', LLAMA], "a counter decreased"),
    ([BARE.replace("spec_decode", "other"), BARE], "a0.prom: no counts of speculative decoding"),
    ([BARE + BARE.replace('"m"', '"other"')], "a0.prom: has metrics of several models"),
    ([BARE + BARE], "a0.prom: metrics: vllm:generation_tokens_total comes twice"),
    (["<html>"], "a0.prom: metrics: line 1 is no sample"),
    ([BARE] * 3, "must be one dump, or two of the same server"),
    error=(ParameterError, SchemaError),
)
