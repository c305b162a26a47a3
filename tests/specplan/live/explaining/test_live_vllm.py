"""Causes planted in real vLLM servers of the bundled pair, named from the counters that these servers write."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from specplan.live.explaining.explanation import Explanation, explained, point_of
from specplan.live.explaining.reading import Reading, read_metrics
from specplan.live.explaining.window import Window, window

pytest.importorskip("vllm")

from vllm_server import vllm_server

from calibrate import pair

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

CORE = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
BLOCKS = 96
"""Of 32 tokens each: room for five whole answers of `FULL`, of twelve at once."""


class Served:
    """A server, and a load on it."""

    def __init__(self, api: str, name: str) -> None:
        self.api, self.name = api, name

    def answer(self, seed: int, *, prompt: int, tokens: int) -> None:
        """One answer of a length, after a prompt that no other begins with."""
        ids = [3 + (seed * 7 + j * (seed % 5 + 1)) % 60 for j in range(prompt)]
        body = {"model": self.name, "prompt": ids, "max_tokens": tokens, "temperature": 0.6, "seed": seed}
        asked = urllib.request.Request(
            f"{self.api}/completions",
            json.dumps({**body, "ignore_eos": True}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=600) as reply:
            reply.read()

    def reading(self, source: str) -> Reading:
        """Its metrics now."""
        with urllib.request.urlopen(self.api.removesuffix("/v1") + "/metrics", timeout=60) as reply:
            return read_metrics(reply.read().decode(), source)

    def loaded(self, n: int, at_once: int, *, first: int = 1, **lengths: int) -> list[Reading]:
        """The metrics before and after so many answers."""
        self.answer(first, **lengths)  # the first is slow
        before = self.reading("before.prom")
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda seed: self.answer(seed, **lengths), range(first + 1, first + n + 1)))
        return [before, self.reading("after.prom")]


@contextmanager
def served(
    folder: Path, name: str, *, speculative: Mapping[str, Any] | None = None, more: Sequence[str] = ()
) -> Iterator[Served]:
    with vllm_server(pair.target_path(), name, folder, core=CORE, speculative=speculative, more=more) as started:
        yield Served(started(), name)


ROUNDS = {"prompt": 40, "tokens": 80}
"""Of answers whose rounds are compared."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Window:
    """Without speculation, at the load of those that speculate."""
    with served(tmp_path_factory.mktemp("plain"), "plain") as server:
        return window(*server.loaded(16, 4, **ROUNDS))


def told(folder: Path, plain: Window, draft: Path, k: int) -> Explanation:
    """Of a server that drafts k tokens with a model."""
    drafting = {"method": "draft_model", "model": str(draft), "num_speculative_tokens": k}
    with served(folder, "drafts", speculative=drafting) as server:
        found = server.loaded(16, 4, **ROUNDS)
    return explained(found, baselines=[point_of(plain)], plain_cache=plain.cache_tokens)


def test_a_k_far_too_large_is_named(tmp_path: Path, plain: Window) -> None:
    k = 12
    found = told(tmp_path, plain, pair.draft_path(), k)
    assert found.k == k
    # Both count every token: those of the rounds are those that positions add up to, but for the last rounds' ends.
    assert found.committed.value == pytest.approx(found.acceptance.committed(k), rel=0.05)
    assert found.depth is not None
    # Of twelve drafted tokens few are right, and each costs a pass of the draft.
    assert found.depth.best.value < k
    named = [cause.name for cause in found.causes]
    assert "k too large" in named[:2]
    assert set(named[:2]) <= {"k too large", "slow draft"}


def test_a_draft_as_slow_as_its_target_is_named(tmp_path: Path, plain: Window) -> None:
    found = told(tmp_path, plain, pair.target_path(), 2)
    assert found.depth is not None
    # Drafting a token is a pass of the target itself.
    assert found.depth.draft_cost.high > 0.5
    assert "slow draft" in [cause.name for cause in found.causes[:2]]


def test_a_full_cache_and_heavy_prefills_are_named(tmp_path: Path) -> None:
    with served(tmp_path, "small", speculative=NGRAM, more=["--num-gpu-blocks-override", str(BLOCKS)]) as server:
        full = explained(server.loaded(18, 12, prompt=40, tokens=500))
        heavy = explained(server.loaded(24, 3, first=100, prompt=900, tokens=24))
    assert full.window.preempted > 0
    assert full.causes[0].name == "full cache"
    assert heavy.window.preempted == 0
    assert heavy.causes[0].name == "heavy prefills"
    assert "--max-num-batched-tokens" in " ".join(heavy.causes[0].flags)
