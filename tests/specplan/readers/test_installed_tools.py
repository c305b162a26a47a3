"""guidellm and AIPerf, where they are installed, measure a planted server; what they write is read as it is.

Neither has a place in our environment: put the commands on the path (`PATH=VENV/bin:$PATH pytest -m slow ...`).
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from openai_server import Planted, serving

from calibrate import pair
from specplan.readers.formats import read_benchmarks
from specplan.worlds.trace_files import read_trace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

N, TOKENS = 8, 40
PLANTED = Planted(iteration_s=0.01, prefill_s=0.02, steps=6, step_tokens=(8, 12), tells_ids=False)


def command(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is on no path")
    return found


def run(words: Sequence[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def check(path: Path, tool: str) -> None:
    """All requests are there, in order, and the round of the planted server: 10 ms, and what the machine adds."""
    (benchmark,) = read_benchmarks(path)
    assert (benchmark.tool, len(benchmark.requests)) == (tool, N)
    assert {request.answer_tokens for request in benchmark.requests} == {TOKENS}
    assert {request.rounds for request in benchmark.requests} == {TOKENS - 1}
    assert 0.0099 <= benchmark.round_s.value <= 0.013
    assert all(0.02 <= request.first_s <= 0.2 for request in benchmark.requests)
    assert 1.0 <= benchmark.concurrency <= 2.0
    assert read_trace(path).answer_tokens.tolist() == [TOKENS] * N


def test_a_report_of_guidellm(tmp_path: Path) -> None:
    guidellm = command("guidellm")
    prompts = [json.dumps({"prompt": f"question {i}", "output_tokens_count": TOKENS}) for i in range(N)]
    (tmp_path / "prompts.jsonl").write_text("\n".join(prompts))
    with serving(PLANTED) as server:
        backend = f"kind=openai_http,target={server.url},model=tiny,request_format=/v1/completions"
        words = [guidellm, "run", "--backend", f"{backend},validate_backend=false"]
        words += ["--profile", "kind=concurrent,streams=2", "--constraint", f"kind=max_requests,count={N}"]
        words += ["--tokenizer", f"kind=hf_auto,model={pair.target_path()}"]
        words += ["--data", f"kind=json_file,path={tmp_path / 'prompts.jsonl'}"]
        run([*words, "--output", f"kind=json,path={tmp_path / 'report.json'}", "--disable-console"])
    check(tmp_path / "report.json", "guidellm")


def test_records_of_aiperf(tmp_path: Path) -> None:
    aiperf = command("aiperf")
    with serving(PLANTED) as server:
        words = [aiperf, "profile", "--model", "tiny", "--url", server.url, "--endpoint-type", "completions"]
        words += ["--streaming", "--tokenizer", str(pair.target_path()), "--use-server-token-count"]
        words += ["--use-legacy-max-tokens", "--request-count", str(N), "--concurrency", "2", "--isl", "20"]
        run([*words, "--osl", str(TOKENS), "--artifact-dir", str(tmp_path), "--ui", "none"])
    check(tmp_path / "profile_export.jsonl", "AIPerf")
