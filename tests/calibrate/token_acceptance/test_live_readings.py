"""Token acceptance on vLLM read in four ways, one of them by an offline engine in a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from calibrate import pair
from calibrate.engines.prometheus import SpecDecode
from calibrate.engines.protocol import Request, Sampling
from calibrate.engines.vllm import offline as vllm_offline
from calibrate.engines.vllm.config import VllmConfig
from calibrate.engines.vllm.offline import Counted, offline_metrics
from calibrate.token_acceptance.counts import DEFINITION, TokenCounts
from calibrate.token_acceptance.live_readings import four_readings
from theory.errors import CalibrationError, ParameterError

NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
DRAWN = Request(prompt=(1, 2), max_tokens=9, stop=(), sampling=Sampling(temperature=0.6), seed=2**63, ignore_eos=True)


def config(**more: Any) -> VllmConfig:
    return VllmConfig(name="t", model=pair.target_path(), **more)


def test_a_task_arrives_in_the_other_process_as_it_was_given() -> None:
    for one in (config(speculative=NGRAM, cores=(0,)), config()):
        assert vllm_offline._config(json.loads(json.dumps(asdict(one), default=str))) == one
    for request in (DRAWN, Request(prompt="text", max_tokens=3)):
        assert vllm_offline._request(json.loads(json.dumps(asdict(request)))) == request


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Something else runs in place of the offline engine's process."""
    script = folder / "stand_in.sh"
    script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


def test_counters_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, """cat >"$0.task"; echo '[["vllm:generation_tokens", 9]]'""")
    assert offline_metrics(config(), [DRAWN]) == [Counted("vllm:generation_tokens", 9)]
    task = json.loads((tmp_path / "stand_in.sh.task").read_text())
    assert [request["seed"] for request in task["requests"]] == [2**63]


def test_a_failure_is_one_line_and_a_hang_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "echo Traceback >&2; echo 'ImportError: no vllm' >&2; exit 1")
    with pytest.raises(CalibrationError, match=r"^offline vLLM 't' failed: ImportError: no vllm$"):
        offline_metrics(config(), [DRAWN])
    stand_in(tmp_path, monkeypatch, "sleep 600 & sleep 600")
    with pytest.raises(CalibrationError, match=r"not done after 0\.2 s"):
        offline_metrics(config(), [DRAWN], patience_s=0.2)


def test_without_speculation_or_requests_there_is_nothing_to_read() -> None:
    with pytest.raises(ParameterError, match="speculative"):
        asyncio.run(four_readings(config(), [DRAWN]))
    with pytest.raises(ParameterError, match="requests"):
        asyncio.run(four_readings(config(speculative=NGRAM), []))


class Late:
    """An engine of which every request takes 100 passes of 2 tokens after its first; its first reader is late."""

    def __init__(self, merged: Sequence[int]) -> None:
        self.merged = list(merged)
        """Outputs that came with the one before, of each request in turn."""
        self.n_read = 0

    def counters(self) -> SpecDecode:
        n = self.n_read
        return SpecDecode(tokens=201 * n, drafts=100 * n, drafted=300 * n, accepted=100 * n)

    async def read(self, request: Request) -> Any:
        self.n_read += 1
        late = self.merged.pop(0)
        return SimpleNamespace(
            chunks=[1, *[4] * late, *[2] * (100 - 2 * late)],
            token_ids=[0] * 201,
            active=SimpleNamespace(passes=[(3, 1)] * 100),
            speculation={"acceptance_histogram": [0, 100, 0, 0], "num_draft_tokens": 300},
        )

    async def close(self) -> None:
        assert not self.merged


@pytest.mark.parametrize(
    ("merged", "seen"),
    [([0, 0], 0), ([30, 0, 0], 0), ([30, 20, 9, 25, 9, 30, 5, 9], 14)],
    ids=["at once", "at the second try", "each request at another try"],
)
def test_streams_are_read_again_if_their_reader_was_late(
    monkeypatch: pytest.MonkeyPatch, merged: list[int], seen: int
) -> None:
    """The counters and records are those of the first run; merged outputs hide a pass each."""
    engine = Late(merged)

    async def start(config: VllmConfig) -> Late:
        return engine

    named = {"generation_tokens": 402, "drafts": 200, "draft_tokens": 600, "accepted_tokens": 200}
    prefixes = {name: "vllm:spec_decode_num_" for name in named} | {"generation_tokens": "vllm:"}
    offline = [Counted(f"{prefixes[name]}{name}", value) for name, value in named.items()]
    monkeypatch.setattr("calibrate.token_acceptance.live_readings.VllmEngine.start", start)
    monkeypatch.setattr("calibrate.token_acceptance.live_readings.offline_metrics", lambda config, requests: offline)
    found = asyncio.run(four_readings(config(speculative=NGRAM), [DRAWN, DRAWN]))
    *others, chunks = found.counts
    assert [(one.tokens, one.accepted) for one in others] == [(402, 200)] * 3
    assert (chunks.tokens, chunks.accepted) == (402, 200 + seen)
    assert found.records.histogram == (0, 200, 0, 0)


@pytest.mark.vllm
@pytest.mark.long("a minute and more: an engine answers four times; the readings themselves are compared above")
@pytest.mark.timeout(900)
def test_one_command_reads_acceptance_in_four_ways() -> None:
    """The same requests, seeds and sampling: a serving engine's counters, records and chunks, an offline engine's own.

    Drawn at a temperature: n-grams would accept nothing in an engine whose sampling is not repaired.
    """
    pytest.importorskip("vllm")
    words = [
        "acceptance",
        "bundled",
        "--from",
        "vllm-live",
        "-n",
        "3",
        "--speculative-config",
        json.dumps(NGRAM),
        "--json",
    ]
    done = subprocess.run([sys.executable, "-m", "specplan", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)["readings"]
    print(json.dumps(told, indent=1))  # noqa: T201 (shown with -s, and when it fails)
    assert told["definition"] == DEFINITION
    assert told["disagreement"] < 0.02
    counts = {one["source"]: one for one in told["sources"]}
    assert set(counts) == {"engine counters", "per-request records", "offline metrics", "streamed chunks"}
    assert {one["tokens"] for one in counts.values()} == {1500}
    assert counts["offline metrics"]["accepted"] > 150
    # One request after the other and the same seeds: the offline engine writes the same texts.
    names = [field for field in TokenCounts.__dataclass_fields__ if field != "source"]
    assert [counts["offline metrics"][n] for n in names] == [counts["engine counters"][n] for n in names]
