"""The league: rows in, every predictor's scores out; what a predictor is, and what it may not say."""

import itertools
import math
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path

import pytest
from public_tables import LOADED_HEAD, SERVED_HEAD, SPECULATED_HEAD, loaded_line, served_line, speculated_line

from benchmarks.league.__main__ import main
from benchmarks.league.data_sheet import at_data_sheet
from benchmarks.league.predictors import PREDICTORS, family_of
from benchmarks.league.standings import gains, played, standings, unfitted
from benchmarks.league.tables import as_markdown
from specplan.worlds import measured_operators
from specplan.worlds.model_files import shape_of
from theory.hardware.engines import engine_named
from theory.hardware.gpus import GPUS, gpu_named
from theory.hardware.passes import PassModel
from theory.hardware.work import Parallel, Work

ROOT = Path(__file__).resolve().parents[2]
DRIVEN_HEAD = (
    "gpu,engine,target,weights,kv_cache,method,num_speculative_tokens,workload,concurrency,throughput_tok_s,"
    "acceptance_length,itl_p50_ms,answer_tokens\n"
)
DRIVEN = "A100,vllm 0.24.0,meta-llama/Llama-3.1-8B-Instruct,bf16,bf16,{},gsm8k,{},256\n"
POSITIONED_HEAD = (
    "model,engine,parallel,prompt_tokens,answer_tokens,concurrency,median_tpot_ms,p99_tpot_ms,median_ttft_s\n"
)


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Predictors that need aiconfigurator-core have no estimate, as in an installation without the extra silicon."""

    def absent(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(measured_operators, "version", absent)
    measured_operators._tables.cache_clear()
    yield
    measured_operators._tables.cache_clear()


def folder(path: Path) -> Path:
    (path / "hardware").mkdir()
    (path / "speculation").mkdir()
    (path / "hardware" / "load.csv").write_text(
        LOADED_HEAD + loaded_line() + loaded_line(moe_ep_size="0.0") + loaded_line(model_path="nobody/knows-it")
    )
    (path / "hardware" / "served.csv").write_text(SERVED_HEAD + served_line() + served_line(model_id="Qwen/Qwen3-14B"))
    (path / "hardware" / "broken.csv").write_text("model_id,median_itl_ms\nQwen/Qwen3-8B,3\n")
    (path / "hardware" / "positions.csv").write_text(
        POSITIONED_HEAD + "MiniMaxAI/MiniMax-M2.5,vllm,dep8,2048,2048,64,14.0,20.0,0.6\n"
    )
    (path / "speculation" / "bundle.csv").write_text(
        SPECULATED_HEAD
        + speculated_line()
        + speculated_line(steps=5, num_draft_tokens=6, accept_length=3.4, speedup=2.3)
    )
    (path / "speculation" / "by_load.csv").write_text(
        DRIVEN_HEAD
        + DRIVEN.format("none,", "32,1588.3,,14.5")
        + DRIVEN.format("eagle3,5", "32,1400.0,2.89,35.0")  # a loss
        + DRIVEN.format("eagle3,2", "32,1900.0,2.2,20.0")
    )
    return path


@pytest.mark.usefixtures("without_package")
def test_every_row_is_predicted_in_every_way_that_can_and_scored(tmp_path: Path) -> None:
    entries, boards = played(folder(tmp_path), lambda _: lambda: None)
    by = {(entry.own.where, entry.own.quantity): entry for entry in entries}
    served = by["served.csv:2", "time per iteration"]
    assert served.outcomes.keys() == {"specplan", "GPU left out", "data sheet"}
    assert served.groups == {"family": "dense", "GPU": "H100 SXM", "engine": "vllm 0.11.1"}
    assert by["positions.csv:2", "time per output token"].groups["GPU"] == "H200 SXM"
    assert by["bundle.csv:2", "speedup"].outcomes["acceptance length"].predicted == 3.0
    loss = by["by_load.csv:3", "gain under load"]
    assert loss.outcomes["acceptance length"].predicted == 2.89
    assert ("by_load.csv:2", "gain under load") not in by  # plain decoding gains nothing over itself
    reasons = [one.reason for board in boards for one in board.refused]
    assert any(reason.startswith("load.csv:3: moe_ep_size='0.0'") for reason in reasons)
    assert any(reason.startswith("broken.csv: lacks the column") for reason in reasons)
    assert any("nobody/knows-it" in reason for reason in reasons)
    scores = {(one.group, one.predictor): one for one in standings(entries)["gain under load"]}
    length = scores["all", "acceptance length"]
    measured = (1400.0 / 1588.3, 1900.0 / 1588.3)
    errors = [said / true - 1.0 for said, true in zip((2.89, 2.2), measured, strict=True)]
    assert length.score.signed == pytest.approx(sum(errors) / 2)
    assert not length.intervals
    assert scores["all", "specplan"].intervals
    assert length.own == scores["all", "specplan"].score
    advice = {one.predictor: one for one in gains(entries)["gain under load"]}
    adviser = advice["acceptance length"]
    assert (adviser.n, adviser.wrong, adviser.losses, adviser.promised) == (2, 1, 1, 1)
    (choice,) = adviser.regret.values()
    assert choice[:2] == pytest.approx((1, 1900.0 / 1400.0 - 1.0))  # it drafts five tokens, where two were best


def test_a_data_sheet_is_never_slower_than_what_is_fitted() -> None:
    works = (Work(sequences=1.0, context=100.0), Work(sequences=64.0, tokens=4.0, context=4000.0, prefill_tokens=500.0))
    for model in ("Qwen/Qwen3-8B", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-R1"):
        facts = shape_of(model)
        for gpu, engine in itertools.product(GPUS, ("vllm", "sglang")):
            passes = PassModel(
                gpu=gpu_named(gpu),
                shape=facts.shape,
                precision=facts.precision,
                parallel=Parallel(tp=8),
                engine=engine_named(engine),
            )
            sheet = at_data_sheet(passes)
            assert sheet.parts(works[0]).sequences == sheet.parts(works[0]).layers == 0.0
            assert all(sheet.seconds(work) < passes.seconds(work) for work in works), (model, gpu)


def test_families_of_models() -> None:
    named = {"Qwen/Qwen3-1.7B": "small", "Qwen/Qwen3-8B": "dense", "openai/gpt-oss-20b": "MoE"}
    named["deepseek-ai/DeepSeek-R1"] = "latent"
    assert {model: family_of(shape_of(model).shape) for model in named} == named


@pytest.mark.usefixtures("without_package")
def test_the_command_prints_names_defects_and_writes_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "league.md"
    monkeypatch.setattr(sys, "argv", ["league", str(folder(tmp_path)), "--markdown", str(page)])
    assert main() == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "gain under load as advice:" in printed.out
    assert "load.csv:3: moe_ep_size='0.0'" in printed.out
    text = page.read_text(encoding="utf-8")
    assert "| all | acceptance length | 2 |" in text
    assert "- 1  load.csv:3: moe_ep_size='0.0'" in text


@pytest.mark.parametrize("what", ["absent", "empty"])
def test_nothing_to_read_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = tmp_path / what
    if what == "empty":
        path.mkdir()
    monkeypatch.setattr(sys, "argv", ["league", str(path)])
    assert main() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("league: error: FOLDER=")


def test_the_page_of_the_documentation_tells_how_each_way_is_run() -> None:
    text = (ROOT / "docs" / "reference" / "league.md").read_text(encoding="utf-8")
    fresh = as_markdown([], [])
    head, _, _ = fresh.partition("\n\nerror:")
    assert text.startswith(head.rstrip())
    for predictor in PREDICTORS:
        assert f"| all | {predictor.name} |" in text


@pytest.mark.slow
@pytest.mark.skipif(find_spec("aiconfigurator_core") is None, reason="needs the extra silicon (aiconfigurator-core)")
def test_the_peer_and_measured_operators_take_part_where_they_are_installed(tmp_path: Path) -> None:
    entries, _ = played(folder(tmp_path), lambda _: lambda: None)
    by = {(entry.own.where, entry.own.quantity): entry.outcomes for entry in entries}
    for where, quantity in (
        ("served.csv:2", "time per iteration"),
        ("load.csv:2", "time per output token"),
        ("bundle.csv:2", "speedup"),
        ("by_load.csv:3", "gain under load"),
    ):
        outcomes = by[where, quantity]
        for predictor in ("measured operators", "aiconfigurator-core"):
            assert outcomes[predictor].predicted == pytest.approx(outcomes["specplan"].predicted, rel=0.5), (
                where,
                predictor,
            )
            assert math.isnan(outcomes[predictor].interval[0])
    compared = {(quantity, family): left_out.n for quantity, family, left_out, _ in unfitted(entries)}
    assert compared["time per iteration", "dense"] == 2
