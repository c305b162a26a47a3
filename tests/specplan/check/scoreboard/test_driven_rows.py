"""Servers under a constant number of requests, and single iterations: read, predicted, compared with plain ones."""

from pathlib import Path

import pytest
from public_tables import public_tables

from specplan.check.scoreboard.board import hardware_board, speculation_board
from specplan.check.scoreboard.driven import driven_outcomes
from specplan.check.scoreboard.rows import Driven
from specplan.check.scoreboard.score import score

HEAD = (
    "gpu,engine,target,weights,kv_cache,method,num_speculative_tokens,workload,concurrency,throughput_tok_s,"
    "acceptance_length,itl_p50_ms,answer_tokens\n"
)
PLAIN = "A100,vllm 0.24.0,meta-llama/Llama-3.1-8B-Instruct,bf16,bf16,none,,chat,8,650,,11.4,300\n"
EAGLE = "A100,vllm 0.24.0,meta-llama/Llama-3.1-8B-Instruct,bf16,bf16,eagle3,5,chat,8,1300,3.0,16.0,300\n"


def quiet(_: int):
    return lambda: None


def board_of(tmp_path: Path, *lines: str):
    (tmp_path / "servers.csv").write_text(HEAD + "".join(lines))
    return speculation_board(tmp_path, quiet)


def test_a_speculating_row_is_compared_with_the_plain_one_that_is_like_it(tmp_path: Path) -> None:
    outcomes = board_of(tmp_path, PLAIN, EAGLE).quantities()
    plain, eagle = outcomes["throughput under load"]
    (gain,) = outcomes["gain under load"]
    assert gain.measured == pytest.approx(1300 / 650)
    assert gain.predicted == pytest.approx(eagle.predicted / plain.predicted)
    assert 1.0 < gain.predicted < 3.0  # it cannot gain more than a round commits
    assert [one.measured for one in outcomes["time between outputs"]] == [11.4, 16.0]


@pytest.mark.parametrize("other", [("bf16,bf16,none", "bf16,fp8,none"), ("chat,8", "chat,16"), ("A100,", "H100,")])
def test_rows_of_other_servers_are_no_baseline(tmp_path: Path, other: tuple[str, str]) -> None:
    assert "gain under load" not in board_of(tmp_path, PLAIN.replace(*other), EAGLE).quantities()


def test_what_is_not_predicted_is_refused_by_name(tmp_path: Path) -> None:
    unknown = PLAIN.replace("meta-llama/Llama-3.1-8B-Instruct", "nobody/nothing")
    method, model = board_of(tmp_path, PLAIN, EAGLE.replace("eagle3", "medusa"), unknown).refused
    assert method.reason == "method='medusa' is not predicted by load; must be none or eagle3, eagle, mtp"
    assert model.model == "nobody/nothing"


@pytest.mark.parametrize(("method", "cache", "weights"), [("none", "fp8", "bf16"), ("eagle3", "bf16", "awq")])
def test_throughput_grows_with_requests_and_never_beyond_what_tokens_take(method, cache, weights) -> None:
    """Requests in flight over the mean time of an answer, so at most one token of each per iteration's share."""
    before = 0.0
    for concurrency in (1, 2, 8, 32, 128):
        row = Driven(
            where="x:1", gpu="A100", engine="vllm 0.24.0", target="meta-llama/Llama-3.1-8B-Instruct", weights=weights,
            kv_cache=cache, method=method, num_speculative_tokens=5, workload="gsm8k", concurrency=concurrency,
            throughput_tok_s=1.0, acceptance_length=2.9 if method != "none" else 1.0, itl_p50_ms=1.0, answer_tokens=256,
        )  # fmt: skip
        speed, between = driven_outcomes(row, None)
        assert before < speed.predicted < concurrency * row.acceptance_length / (1e-3 * between.predicted)
        before = speed.predicted


def test_single_iterations_are_predicted(tmp_path: Path) -> None:
    (tmp_path / "small.csv").write_text(
        "gpu,model,engine,sequences,context_tokens,iteration_ms\nH100,Qwen/Qwen3-1.7B,vllm,1,0,1.93\n"
        "H100,Qwen/Qwen3-1.7B,vllm,8,4096,3.2\nH100,nobody/nothing,vllm,8,4096,3.2\n"
    )
    board = hardware_board(tmp_path, quiet)
    first, second = board.outcomes
    assert first.quantity == "time per iteration"
    assert first.predicted < second.predicted
    assert [one.model for one in board.refused] == ["nobody/nothing"]


def test_public_servers_by_load_and_a_small_model() -> None:
    """What docs/scoreboard.md says, with some room for constants that are fitted again."""
    outcomes = speculation_board(public_tables() / "speculation" / "a100_by_load.csv", quiet).quantities()
    for quantity in ("throughput under load", "gain under load", "time between outputs"):
        for cache in ("bf16", "fp8"):
            rows = [one for one in outcomes[quantity] if one.labels["cache"] == cache]
            assert score(rows).mean < 0.07, (quantity, cache)
    assert all((one.measured < 1.0) == (one.predicted < 1.0) for one in outcomes["gain under load"])
    small = hardware_board(public_tables() / "hardware" / "h100_small_model.csv", quiet).outcomes
    assert score(small).mean < 0.04
