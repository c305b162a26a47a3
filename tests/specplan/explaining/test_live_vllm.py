"""A real vLLM server with the bundled pair, whose k is far too large: explained from its own metrics."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from specplan.explaining.explanation import explained, point_of
from specplan.explaining.reading import Reading, read_metrics
from specplan.explaining.window import window

pytest.importorskip("vllm")

from vllm_server import vllm_server

from calibrate import pair

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

K = 12
CORE = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


def answered(api: str, name: str, seed: int) -> None:
    prompt = [3 + (seed * 7 + j) % 60 for j in range(40)]
    body = {"model": name, "prompt": prompt, "max_tokens": 120, "temperature": 0.6, "seed": seed, "ignore_eos": True}
    asked = urllib.request.Request(
        f"{api}/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=600) as reply:
        reply.read()


def readings(api: str, name: str, n: int) -> Iterator[Reading]:
    """The metrics before and after so many answers, four at once."""
    page = api.removesuffix("/v1") + "/metrics"
    answered(api, name, 1)  # the first is slow
    for i in range(2):
        with urllib.request.urlopen(page, timeout=60) as reply:
            yield read_metrics(reply.read().decode(), f"{name}{i}")
        if i == 0:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda seed: answered(api, name, seed), range(2, n + 2)))


def test_a_k_far_too_large_is_found_on_a_real_server(tmp_path: Path) -> None:
    drafting = {"method": "draft_model", "model": str(pair.draft_path()), "num_speculative_tokens": K}
    with vllm_server(pair.target_path(), "drafts", tmp_path, core=CORE, speculative=drafting) as started:
        found = list(readings(started(), "drafts", 24))
    with vllm_server(pair.target_path(), "plain", tmp_path, core=CORE) as started:
        plain = window(*readings(started(), "plain", 24))
    told = explained(found, baselines=[point_of(plain)], plain_cache=plain.cache_tokens)
    assert told.k == K
    # Both count every token: those of the rounds are those that positions add up to, but for the last rounds' ends.
    assert told.committed.value == pytest.approx(told.acceptance.committed(K), rel=0.05)
    assert told.depth is not None
    # On a CPU a pass of the draft costs about as much as one of the target, which is as small: twelve cannot pay.
    assert told.depth.best.value < K
    assert {cause.name for cause in told.causes[:2]} <= {"k too large", "slow draft"}
