"""Readings of a server's metrics: what is told of them, what is refused, and the names that vLLM uses."""

import ast
import asyncio
import math
import re
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from connections import talking
from planted_metrics import Planted, exposition
from refusals import refused

from specplan.api.explaining import explain
from specplan.live.explaining.explanation import explained, point_of
from specplan.live.explaining.reading import _HISTOGRAMS, _USAGE, COUNTERS, Histogram, Reading, read_metrics
from specplan.live.explaining.window import window
from specplan.show.explanations import summary
from theory.errors import SchemaError

PLANTED = Planted()
BEFORE, AFTER = exposition(PLANTED, 20), exposition(PLANTED, 60)
SGLANG = """\
sglang:generation_tokens_total{model_name="m"} GENERATED
sglang:prompt_tokens_total{model_name="m"} PROMPT
sglang:num_requests_total{model_name="m"} 20
sglang:spec_accept_length{model_name="m"} 2.8
sglang:num_running_reqs{model_name="m"} 4
sglang:num_queue_reqs{model_name="m"} 0
sglang:token_usage{model_name="m"} 0.3
sglang:inter_token_latency_seconds_sum{model_name="m"} SUM
sglang:inter_token_latency_seconds_bucket{le="0.01",model_name="m"} GENERATED
sglang:inter_token_latency_seconds_bucket{le="+Inf",model_name="m"} GENERATED
sglang:time_to_first_token_seconds_sum{model_name="m"} 2
sglang:time_to_first_token_seconds_bucket{le="+Inf",model_name="m"} 20
"""


def sglang(generated: int) -> str:
    values = {"GENERATED": generated, "PROMPT": generated // 2, "SUM": generated * 0.008}
    return re.sub("|".join(values), lambda name: str(values[name[0]]), SGLANG)


def retold(page: str, engine: str) -> str:
    """What an engine that times no tokens says of the same work: TensorRT-LLM, llama.cpp."""
    reading = read(page)[0]
    spec, seconds = reading.spec, reading.histograms["gaps"].total  # they count answers at their end: here all at once
    accepted = spec.accepted_at if spec else ()
    if engine == "trtllm":
        told = [line.replace("vllm:", "trtllm_", 1) for line in page.splitlines()]
        told = [line for line in told if not re.match("trtllm_(spec|inter|iteration)|#", line)]
        told = [re.sub(r"(decode_time_seconds_sum.*) .*", rf"\1 {seconds}", line) for line in told]
        for i, count in enumerate(accepted):
            told.append(f'trtllm_spec_decode_drafted_tokens_total{{token_position="{i}"}} {spec.drafts if spec else 0}')
            told += [f'trtllm_spec_decode_accepted_tokens_total{{token_position="{i}"}} {count}'] if count else []
        return "\n".join(told) + "\n"
    counts: dict[str, float] = {
        "tokens_predicted_total": reading.counters["generated"],
        "tokens_predicted_seconds_total": seconds,
        "requests_processing": 0,
        "n_busy_slots_per_decode": reading.running,
        "spec_decode_num_drafts_total": spec.drafts if spec else 0,
        "spec_decode_num_draft_tokens_total": spec.drafted if spec else 0,
        "spec_decode_num_accepted_tokens_total": spec.accepted if spec else 0,
    }
    counts |= {f'spec_decode_num_accepted_tokens_per_pos_total{{position="{i}"}}': n for i, n in enumerate(accepted)}
    return "".join(f"llamacpp:{name} {count}\n" for name, count in counts.items())


def read(*pages: str) -> list[Reading]:
    return [read_metrics(page, f"{name}.prom") for name, page in zip("ab", pages, strict=False)]


STARTED = "process_start_time_seconds {}\n"
PLAIN = PLANTED.with_k(0)
test_readings_that_do_not_belong_together_or_explain_nothing_are_refused = refused(
    lambda make: explained(read(*make())),
    (lambda: (AFTER, BEFORE), "swapped"),
    (lambda: (BEFORE, AFTER.replace("planted", "another")), "different models"),
    (lambda: (BEFORE + STARTED.format(1.0), AFTER + STARTED.format(2.0)), "two runs"),
    (lambda: (sglang(100), AFTER), "sglang"),
    (lambda: (BEFORE, exposition(Planted(prompt=10), 60)), "decreased"),  # less prompt, more tokens: a restart
    (lambda: (AFTER, AFTER), "no token was generated"),
    (lambda: (BEFORE[: BEFORE.index("# HELP vllm:iteration")], AFTER), "the first lacks vllm:e2e_request_latency"),
    (lambda: (BEFORE, AFTER[: AFTER.index("# HELP vllm:spec")]), "the second lacks vllm:spec_decode_num_drafts_total"),
    (lambda: (exposition(PLAIN, 20), exposition(PLAIN, 60)), "--baseline"),
    (lambda: ("\n".join(line for line in AFTER.splitlines() if "_bucket" not in line),), "buckets"),
    error=SchemaError,
)
test_foreign_metrics_are_refused = refused(
    read,
    ("node_load1 0.3\n", "no metrics of vLLM, SGLang, TensorRT-LLM or llama.cpp"),
    ("", "no samples"),
    ("<html>", "line 1 is no sample: '<html>'$"),
    ('[{"iter": 1}]', "TensorRT-LLM's page is /prometheus/metrics"),
    ("vllm:num_requests_running 0\n", "no count of generated tokens"),
    ("trtllm_kv_cache_utilization 0\n", "return_perf_metrics"),
    ("vllm:spec_decode_num_emitted_tokens_total 9\n", "V0 engine"),
    error=SchemaError,
)
test_options_that_contradict_the_counters_are_refused = refused(
    lambda call: call(),
    (lambda: explained(read(BEFORE, AFTER), baselines=[point_of(window(*read(BEFORE, AFTER)))]), "the same k"),
    (lambda: explained(read(BEFORE, AFTER), k=5), "must be 3, the positions"),
    (lambda: explained(read(sglang(100), sglang(500)), k=4, drafter="dflash"), "needs acceptance by position"),
    (lambda: explain([BEFORE, AFTER], adaptive=True, profile="lr-deepseek-gsm8k"), "adaptive=True counts what"),
)


def test_former_names_of_vllm_are_read() -> None:
    former = AFTER.replace("inter_token_latency_seconds", "time_per_output_token_seconds")
    assert read(former.replace("kv_cache_usage_perc", "gpu_cache_usage_perc")) == read(AFTER)


def test_sglang_tells_no_k_and_no_positions() -> None:
    readings = read(sglang(1000), sglang(9000))
    silent = explained(readings)
    assert silent.depth is None
    assert any("--k" in what for what in silent.missing)
    # A gap is per token there: a round of 2.8 tokens takes 2.8 of them.
    assert silent.time.whole.value == pytest.approx(2.8 * 0.008)
    known = explained(readings, k=4)
    assert known.depth is not None
    assert known.acceptance.committed(4) == pytest.approx(2.8, rel=0.01)
    assert known.acceptance.notes


def test_rounds_without_a_draft_cost_what_they_drafted() -> None:
    """Five tokens in each fifth round are as many rows as one in each round."""
    each = exposition(Planted(k=1, conditional=0.15), 20)
    drafts = re.compile(r"(vllm:spec_decode_num_drafts_total\{.*) (.*)")
    fifth = drafts.sub(lambda line: f"{line[1]} {float(line[2]) / 5:.0f}", each)
    fifth += "".join(f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{i}"}} 0\n' for i in range(1, 5))
    one, five = (explain([page]).plain() for page in (each, fifth))
    assert (one["k"], five["k"]) == (1, 5)
    for end in ("low", "value", "high"):
        assert five["over_plain"][end] == pytest.approx(one["over_plain"][end], rel=0.02)


@pytest.mark.parametrize("engine", ["trtllm", "llamacpp"])
def test_engines_that_time_no_tokens_are_explained_as_one_that_does(engine: str) -> None:
    pages = [BEFORE, AFTER]
    vllm = explain(pages, baseline=exposition(PLAIN, 60)).plain()
    told = [retold(page, engine) for page in pages]
    found = explain(told, baseline=retold(exposition(PLAIN, 60), engine)).plain()
    for one, other in zip(found["acceptance"], vllm["acceptance"], strict=True):
        assert one["value"] == other["value"]
    assert abs(found["best_k"]["value"] - vllm["best_k"]["value"]) <= 1
    for of in (vllm, found):
        assert of["over_plain"]["low"] < vllm["over_plain"]["value"] < of["over_plain"]["high"]
    assert found["over_plain"]["value"] == pytest.approx(vllm["over_plain"]["value"], rel=0.02)
    assert found["round"]["whole"]["value"] == pytest.approx(vllm["round"]["whole"]["value"], rel=0.02)
    assert {"trtllm": "max_draft_len: ", "llamacpp": "--spec-draft-n-max "}[engine] in str(found["flags"])
    assert any("times no single rounds" in note for note in found["notes"])


def test_the_largest_observations_are_bounded_by_their_buckets_and_the_sum() -> None:
    found = Histogram(bounds=(1.0, 2.0, math.inf), counts=(8.0, 2.0, 1.0), total=20.0)
    assert found.largest(1.0) == pytest.approx((2.0, 18.0))  # the others are at least eight times 0 and twice 1
    assert found.largest(0.0) == (0.0, 0.0)
    assert found.largest(100.0)[1] == pytest.approx(20.0)


def test_cold_starts_are_left_out_since_the_start_of_a_server() -> None:
    """100 prefills of 0.2 s, and 5 of 30 s while the server warmed up; 20 of 100 would be requests of another kind."""
    bounds = (0.1, 0.3, 1.0, 20.0, math.inf)
    warm = Histogram(bounds=bounds, counts=(0.0, 100.0, 0.0, 0.0, 0.0), total=20.0)
    cold = Histogram(bounds=bounds, counts=(0.0, 100.0, 0.0, 0.0, 5.0), total=20.0 + 150.0)
    trimmed, n_cold = cold.without_cold_starts()
    assert n_cold == 5.0
    assert trimmed.count == 105.0
    assert warm.mean / 2 < trimmed.mean < 0.5
    assert warm.without_cold_starts() == (warm, 0.0)
    often = replace(cold, counts=(0.0, 100.0, 0.0, 0.0, 20.0), total=620.0)
    assert often.without_cold_starts() == (often, 0.0)


def test_names_split_the_round() -> None:
    names = {"target": "Qwen/Qwen3-8B", "draft": "Qwen/Qwen3-0.6B", "gpu": "H100"}
    assert explain([BEFORE, AFTER], **names).plain()["costs_from"] == "names"  # type: ignore[arg-type]
    data = explain([BEFORE, AFTER], baseline=[exposition(PLAIN, 60)], **names).plain()  # type: ignore[arg-type]
    assert data["costs_from"] == "both"
    assert data["round"]["drafting"]["value"] > 0.0


async def test_a_live_server_is_read_while_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    pages = iter([BEFORE, "", AFTER])  # a reading that fails is left out

    async def talk(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert head.startswith(b"GET /metrics ")
        page = next(pages)
        writer.write(f"HTTP/1.1 {200 if page else 503} X\r\nContent-Length: {len(page)}\r\n\r\n{page}".encode())

    async with talking(talk) as url:
        found = await asyncio.to_thread(explain, f"{url}/v1", seconds=2.0)
    assert found.plain()["source"] == f"{url}/metrics, {url}/metrics"


def test_counts_of_a_block_hold_for_its_size_only() -> None:
    chain, block, near = (explained(read(BEFORE, AFTER), drafter=one) for one in ("chain", "dflash", "dspark"))
    k = chain.k
    assert chain.committed == block.committed  # what was counted is what it was
    drawn = [one.acceptance.draws(2000, 2 * k, np.random.default_rng(1)).mean(axis=0) for one in (chain, block, near)]
    assert drawn[0][k] == pytest.approx(drawn[1][k], rel=1e-9)
    assert all(drawn[0][1:k] < drawn[2][1:k]), "DSpark's positions know the token before"
    assert all(drawn[2][1:k] < drawn[1][1:k]), "shorter blocks are accepted more often"
    assert all(drawn[1][k + 1 :] < drawn[0][k + 1 :])
    assert [any("block drafter" in note for note in one.notes) for one in (chain, block)] == [False, True]


def test_what_a_policy_verified_tells_of_no_other_k_and_of_no_worse_drafter() -> None:
    drafter, policy = (explained(read(BEFORE, AFTER), drafter="dspark", adaptive=one) for one in (False, True))
    assert drafter.depth is not None
    assert policy.depth is None
    assert policy.over_plain == drafter.over_plain, "what a round commits and takes is known"
    assert "times as fast as plain decoding" in summary(policy)
    assert not {cause.name for cause in policy.causes} & {"k too large", "k too small", "slow draft"}
    assert any("lower than the drafter's" in note for note in policy.notes)


def names_in(*files: str) -> set[str]:
    found = find_spec("vllm")
    assert found is not None
    assert found.submodule_search_locations
    trees = (ast.parse((Path(found.submodule_search_locations[0]) / file).read_text()) for file in files)
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.vllm
def test_vllm_counts_under_the_names_that_are_read() -> None:
    written = names_in("v1/metrics/loggers.py", "v1/spec_decode/metrics.py")
    counters = {name.removesuffix("_total") for name in COUNTERS["vllm"].values()}  # prometheus_client adds the ending
    assert counters <= written
    assert set(_HISTOGRAMS["vllm"].values()) <= written
    assert {_USAGE["vllm"], "vllm:cache_config_info"} <= written
    spec = ("drafts", "draft_tokens", "accepted_tokens", "accepted_tokens_per_pos")
    assert {f"vllm:spec_decode_num_{name}" for name in spec} <= written


def test_a_baseline_whose_model_has_another_name_is_asked_about() -> None:
    plain = exposition(PLAIN, 60)
    other = re.sub('model_name="[^"]*"', 'model_name="another"', plain)
    assert other != plain
    asked = "Is the baseline of the same model? It serves another, this server "
    for page, said in ((other, True), (plain, False)):
        assert (asked in explain([BEFORE, AFTER], baseline=[page]).text().replace("\n", " ")) == said
