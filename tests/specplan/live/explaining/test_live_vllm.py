"""Causes planted in real vLLM servers of the bundled pair, named from the counters that these servers write."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from specplan.live.explaining.explanation import Explanation, explained, point_of
from specplan.live.explaining.reading import Reading, read_metrics
from specplan.live.explaining.window import window

pytest.importorskip("vllm")

from vllm_server import CORES, NGRAM, vllm_server

from calibrate import pair

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]


class Served:
    """A server, and a load on it."""

    def __init__(self, api: str, name: str) -> None:
        self.api, self.name = api, name

    def answer(self, seed: int, *, prompt: int, tokens: int) -> None:
        """One answer of a length, after a prompt that no other begins with."""
        ids = [3 + (seed * 7 + j * (seed % 5 + 1)) % 60 for j in range(prompt)]
        body = {"model": self.name, "prompt": ids, "max_tokens": tokens, "temperature": 0.6, "seed": seed}
        httpx.post(f"{self.api}/completions", json={**body, "ignore_eos": True}, timeout=600).raise_for_status()

    def reading(self, source: str) -> Reading:
        """Its metrics now."""
        return read_metrics(httpx.get(self.api.removesuffix("/v1") + "/metrics", timeout=60).text, source)

    def load(self, n: int, at_once: int, *, first: int, **lengths: int) -> None:
        """So many answers, so many at once."""
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda seed: self.answer(seed, **lengths), range(first, first + n)))

    def loaded(self, n: int, at_once: int, *, first: int = 1, **lengths: int) -> list[Reading]:
        """The metrics before and after so many answers."""
        self.answer(first, **lengths)  # the first is slow
        before = self.reading("before.prom")
        self.load(n, at_once, first=first + 1, **lengths)
        return [before, self.reading("after.prom")]


ROUNDS = {"prompt": 40, "tokens": 80}
"""Of answers whose rounds are compared."""


@pytest.fixture(scope="module")
def plain(vllm_servers: dict[str, str]) -> Served:
    """Without speculation."""
    return Served(vllm_servers["target"], "target")


@pytest.fixture(scope="module")
def drafting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that drafts twelve tokens with the draft model."""
    config = {"method": "draft_model", "model": str(pair.draft_path()), "num_speculative_tokens": 12}
    folder = tmp_path_factory.mktemp("drafting")
    with vllm_server(pair.target_path(), "far", folder, core=CORES[0], speculative=config) as far:
        yield Served(far(), "far")


def told(plain: Served, drafts: Served, first: int) -> Explanation:
    """Of a server that drafts. Both work in turns: a machine that is slow for some seconds slows both alike."""
    servers = plain, drafts
    for server in servers:
        server.answer(first, **ROUNDS)  # the first is slow
    before = [server.reading("before.prom") for server in servers]
    for turn in range(first + 1, first + 17, 4):
        for server in servers:
            server.load(4, 4, first=turn, **ROUNDS)
    after = [server.reading("after.prom") for server in servers]
    base = window(before[0], after[0])
    return explained([before[1], after[1]], baselines=[point_of(base)], plain_cache=base.cache_tokens)


@pytest.mark.long("a server of its own; test_planted_causes plants it, and the test below reads real counters")
def test_a_k_far_too_large_is_named(drafting: Served, plain: Served) -> None:
    found, k = told(plain, drafting, first=1), 12
    assert found.k == k
    # Both count every token: those of the rounds are those that positions add up to, but for the last rounds' ends.
    assert found.committed.value == pytest.approx(found.acceptance.committed(k), rel=0.05)
    assert found.depth is not None
    # Of twelve drafted tokens few are right, and each costs a pass of the draft.
    assert found.depth.best.value < k
    named = [cause.name for cause in found.causes]
    assert "k too large" in named[:2]
    assert set(named[:2]) <= {"k too large", "slow draft"}


def test_a_full_cache_and_heavy_prefills_are_named(vllm_servers: dict[str, str]) -> None:
    """The cache has room for five of the answers, of twelve at once."""
    server = Served(vllm_servers["fast"], "fast")
    full = explained(server.loaded(12, 12, prompt=40, tokens=400))
    heavy = explained(server.loaded(15, 3, first=100, prompt=900, tokens=24))
    k = NGRAM["num_speculative_tokens"]
    assert full.k == k
    assert full.committed.value == pytest.approx(full.acceptance.committed(k), rel=0.05)
    assert full.window.preempted > 0
    assert full.causes[0].name == "full cache"
    assert heavy.window.preempted == 0
    assert heavy.causes[0].name == "heavy prefills"
    assert heavy.causes[0].flags == ("prefill on other GPUs",)  # no pass reads so much that a smaller chunk would help
