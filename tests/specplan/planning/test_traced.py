"""Recorded acceptance replayed: against the published simulator's rules, run request by request, and as a command."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.published_traces import BATCHES, DEPTHS, H100, published_speedup
from benchmarks.published_traces import drawn_requests as drawn
from specplan.planning.traced import traced_plan
from specplan.readers.traced import DraftCost, FittedLatency, PassCost, TracedRequest, read_traced
from theory.errors import ParameterError, SchemaError

Main = Callable[..., tuple[int, str, str]]

LATENCY = FittedLatency.model_validate(H100)


def test_all_cells_of_the_published_table_are_the_published_simulators() -> None:
    """Four depths at six batch sizes, as its users print them: with two decimals."""
    requests = drawn(8, 1)
    found = traced_plan(requests, LATENCY, drafters=["eagle"], depths=(1, 3, 5))
    cells = {(cell.k, cell.batch): cell.speedup.value for cell in found.cells}
    assert cells.keys() == {(k, b) for k in DEPTHS for b in BATCHES}
    for (k, b), speedup in cells.items():
        published = published_speedup(requests, LATENCY, k, b)
        assert speedup == pytest.approx(published, rel=2e-4), (k, b)
        assert f"{speedup:.2f}" == f"{published:.2f}", (k, b)


def test_an_ngram_that_is_missed_is_drafted_for_as_often_as_said() -> None:
    """Nothing is ever accepted: with a draft in every fifth round, rows and time are those of 1 + k / 5 rows."""
    request = TracedRequest(prompt_tokens=100, lengths={"ngram": (1,) * 101})
    latency = LATENCY.model_copy(update={"drafts": {"ngram": DraftCost(drafted_at_miss=0.2)}, "round_s": 0.0})
    latency = latency.model_copy(update={"target": PassCost(per_row_s=1.0)})
    found = traced_plan([request], latency, batches=[1, 4], depths=[5])
    for cell in found.cells:
        rows = 100 * (2.0 if cell.k == 5 else 1.0)
        assert cell.speedup.value == pytest.approx((100 + 100) / (100 + rows), rel=1e-12)
        assert cell.tokens_per_round == 1.0


def test_the_best_depth_falls_with_the_batch_and_the_oracle_is_never_recommended() -> None:
    found = traced_plan(drawn(30, 2), LATENCY, drafters=["eagle"], depths=range(1, 9), batches=(1, 32, 128, 2048))
    best = [found.best(b) for b in found.batches]
    depths = [cell.k if cell else 0 for cell in best]
    assert depths == sorted(depths, reverse=True)
    assert depths[0] > depths[-1]
    assert all(cell is None or cell.k is not None for cell in best)
    oracle = {cell.batch: cell.speedup.value for cell in found.cells if cell.k is None}
    assert all(cell is None or cell.speedup.value <= oracle[cell.batch] for cell in best)


def test_a_sample_is_drawn_without_replacement_and_must_be_there() -> None:
    requests = drawn(10, 3)
    whole = traced_plan(requests, LATENCY, drafters=["eagle"], batches=[1], depths=[3])
    same = traced_plan(requests, LATENCY, drafters=["eagle"], batches=[1], depths=[3], sample=10)
    assert same.cells[0].speedup.value == pytest.approx(whole.cells[0].speedup.value, rel=1e-12)
    with pytest.raises(ParameterError, match="answers=11 must be at most 10"):
        traced_plan(requests, LATENCY, sample=11)


def written(folder: Path, requests: list[TracedRequest]) -> tuple[str, str]:
    """Traces in the published format, and fitted times."""
    lines = [
        {
            "id": str(i),
            "prompt_token_ids": [7] * one.prompt_tokens,
            "generated_token_ids": [],
            **{f"acc_{name}": {"acc_len": list(lengths)} for name, lengths in one.lengths.items()},
        }
        for i, one in enumerate(requests)
    ]
    traces, fitted = folder / "traces.jsonl", folder / "fitted.json"
    traces.write_text("".join(json.dumps(line) + "\n" for line in lines))
    fitted.write_text(json.dumps(H100))
    return str(traces), str(fitted)


def test_the_published_format_is_read(tmp_path: Path) -> None:
    requests = drawn(3, 4)
    traces, _ = written(tmp_path, requests)
    assert list(read_traced(traces)) == requests


def test_the_command_prints_and_writes_the_table(tmp_path: Path, run_main: Main) -> None:
    requests = drawn(5, 5)
    traces, fitted = written(tmp_path, requests)
    words = ("plan", "--acceptance", traces, "--latency", fitted, "--concurrency", "1,16")
    code, text, err = run_main(*words)
    assert (code, err) == (0, "")
    found = traced_plan(requests, LATENCY, batches=(1, 16))
    best = found.best(1)
    assert f"At 1 at once: eagle, k = {best.k}: {best.speedup.value:.2f} times plain decoding" in text
    assert max(map(len, text.splitlines())) <= 80
    data = json.loads(run_main(*words, "--json")[1])
    assert (data["schema"], data["schema_version"], data["requests"]) == ("specplan.traced-plan", 1, 5)
    assert [cell["speedup"]["value"] for cell in data["cells"]] == [cell.speedup.value for cell in found.cells]


def test_the_command_prints_the_tree_of_acceptance_by_rank(tmp_path: Path, run_main: Main) -> None:
    ranks, machine = tmp_path / "ranks.json", tmp_path / "machine.json"
    ranks.write_text('{"by_rank": [0.63418, 0.09, 0.03]}')
    rows = {"1": 0.010, "2": 0.010, "4": 0.010, "8": 0.012, "16": 0.014, "32": 0.018}
    machine.write_text(json.dumps({"target": {"by_rows": rows}, "drafts": {"small": {"fixed_s": 0.0003}}}))
    words = ("plan", "--acceptance", str(ranks), "--latency", str(machine))
    code, text, err = run_main(*words)
    assert (code, err) == (0, "")
    assert "4.8878 ms a token, 2.0459 times" in " ".join(text.split())
    data = json.loads(run_main(*words, "--json")[1])
    assert (data["schema"], data["parents"], data["levels"]) == ("specplan.tree-plan", [-1, 0, 1, 2], 4)
    code, _, err = run_main(*words, "--concurrency", "4")
    assert (code, "--concurrency='4' has no use with acceptance by rank" in err) == (2, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no request"),
        ("{}", "prompt_token_ids: must be there"),
        ('{"prompt_tokens": 3}', "acc_NAME: must be there"),
        ('{"prompt_tokens": -1, "acc": [1]}', "prompt_tokens: "),
        ('{"prompt_tokens": 3, "acc_eagle": {"acc_len": [1, 0]}}', r"acc_len\[1\]: "),
        ('{"prompt_tokens": 3, "acc_eagle": 4}', "acc_eagle|valid dictionary"),
        ("[1]", "traces.jsonl:1: "),
        ('{"by_rank": []}', "by_rank: "),
        ('{"by_rank": [1.5]}', r"by_rank\[0\]: "),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(text)
    with pytest.raises(SchemaError, match=said) as error:
        read_traced(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--methods", "medusa"), "methods='medusa' must be a drafter of traces and latency, one of eagle"),
        (("--tp", "2"), "--tp='2' has no use without --target or --profile"),
        (("--acceptance", "mtp=0.8"), "give --target, or one --acceptance FILE with --latency FILE"),
    ],
)
def test_what_has_no_use_is_refused(options: tuple[str, ...], said: str, tmp_path: Path, run_main: Main) -> None:
    traces, fitted = written(tmp_path, drawn(2, 6))
    code, _, err = run_main("plan", "--acceptance", traces, "--latency", fitted, *options)
    assert code == 2
    assert said in " ".join(err.split())
