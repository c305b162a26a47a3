"""What benchmarks wrote is read; what they did not write is refused in one line."""

import ast
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from specplan.readers.formats import _Vllm, is_benchmark, read_benchmarks
from specplan.worlds.trace_files import read_trace
from theory.errors import SchemaError

DATA = Path(__file__).parents[2] / "data" / "benchmarks"
AIPERF = DATA / "profile_export.jsonl"


def vllm_result(**changed: Any) -> dict[str, Any]:
    """What ``vllm bench serve --save-detailed`` writes of two requests, as far as it is read."""
    return {
        "date": "20260101-000000",
        "backend": "vllm",
        "completed": 2,
        "total_output_tokens": 9,
        "input_lens": [10, 20],
        "output_lens": [5, 4],
        "ttfts": [0.1, 0.2],
        "itls": [[0.02, 0.02], [0.02, 0.04, 0.02]],
        "start_times": [101.0, 100.0],
        "errors": ["", ""],
        **changed,
    }


def written(folder: Path, data: object) -> Path:
    path = folder / "result.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_results_of_vllm_are_arrivals_and_rounds(tmp_path: Path) -> None:
    rates = [0.7, 0.5, 0.3]
    path = written(tmp_path, vllm_result(spec_decode_per_position_acceptance_rates=rates))
    (run,) = read_benchmarks(path)
    assert (run.tool, run.k, len(run.requests)) == ("vllm bench", 3, 2)
    assert run.round_s.value == pytest.approx((0.04 + 0.08) / 5)
    arrivals = read_trace(path)
    assert arrivals.times_s.tolist() == [0.0, 1.0]
    assert arrivals.prompt_tokens.tolist() == [20, 10]
    failed = written(tmp_path, vllm_result(errors=["", "timeout"]))
    assert len(read_benchmarks(failed)[0].requests) == 1


def test_sweeps_and_appended_results_are_several_runs(tmp_path: Path) -> None:
    runs = [vllm_result(), vllm_result()]
    assert len(read_benchmarks(written(tmp_path, json.dumps(runs, indent=4)))) == 2
    assert len(read_benchmarks(written(tmp_path, "\n".join(map(json.dumps, runs))))) == 2


def test_records_of_aiperf_are_arrivals() -> None:
    arrivals = read_trace(AIPERF)
    assert arrivals.times_s.tolist() == pytest.approx([0.0, 0.5, 1.0, 1.5])
    assert arrivals.prompt_tokens.tolist() == [40, 41, 42, 43]
    (run,) = read_benchmarks(AIPERF)
    assert run.requests[0].first_s == pytest.approx(0.1)
    assert run.requests[0].decode_s == pytest.approx(1.0)
    with pytest.raises(SchemaError, match="between outputs"):
        _ = run.round_s


def test_pieces_of_aiperfs_streams_are_rounds(tmp_path: Path) -> None:
    record = json.loads(AIPERF.read_text().splitlines()[0])
    record["metrics"]["inter_chunk_latency"] = {"value": [20.0, 30.0, 40.0], "unit": "ms"}
    (run,) = read_benchmarks(written(tmp_path, record))
    assert (run.requests[0].rounds, run.round_s.value) == (3, pytest.approx(0.03))


def test_reports_of_guidellm_are_arrivals() -> None:
    assert read_trace(DATA / "guidellm.json").prompt_tokens.tolist() == [40, 41, 42, 43]
    (run,) = read_benchmarks(DATA / "guidellm.json")
    assert run.tool == "guidellm"
    assert run.requests[0].first_s == pytest.approx(0.1, abs=1e-6)
    assert run.requests[0].decode_s == pytest.approx(1.0, abs=1e-6)
    assert run.round_s.value == pytest.approx(1.0 / 20)  # 21 pieces of the stream held tokens


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        ({"completed": 2, "total_output_tokens": 3}, "save-detailed"),
        (vllm_result(ttfts=[0.1]), "equally long"),
        (vllm_result(input_lens=[10, -1]), "input_lens[1]"),
        ({"total_output_tokens": 1}, "neither of vllm bench"),
        ('{"total_output_tokens": 1}\n{"a"', ":2: not JSON"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, data: object, rule: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read_trace(written(tmp_path, data))
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


def test_traces_are_no_benchmarks(tmp_path: Path) -> None:
    path = written(tmp_path, '{"timestamp": 0, "input_length": 5, "output_length": 5}\n')
    assert not is_benchmark(path, "arrivals")
    with pytest.raises(SchemaError, match="missing: cannot be read as token acceptance"):
        is_benchmark(tmp_path / "missing", "token acceptance")


@pytest.mark.vllm
def test_the_installed_vllm_writes_the_fields_that_are_read() -> None:
    (folder,) = find_spec("vllm").submodule_search_locations
    nodes = ast.walk(ast.parse((Path(folder) / "benchmarks" / "serve.py").read_text()))
    assert set(_Vllm.model_fields) <= {node.value for node in nodes if isinstance(node, ast.Constant)}
