"""A calibration through a proxy that breaks things loses nothing and counts nothing twice; giving up is one line."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fault_proxy import FaultProxy, proxied, random_faults
from openai_server import Planted, serving

from calibrate.engines.http.wire import HttpConfig
from calibrate.measuring.calibration import calibrate_models
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.measuring.plan import CalibrationPlan
from calibrate.models.servers import RemoteModels
from calibrate.record.profile import Profile
from calibrate.running.problem import Problem
from theory.errors import CalibrationError

OPTIONS = MeasureOptions(batches=(1, 2), contexts=(8,), iterations=6, prefills=(4,), repeats=2, rounds=2)
N_ANSWERS = 2
FAST = Planted(iteration_s=0.0005, steps=3, step_tokens=(2, 5))
# What the client says of each fault, and that it asks again after each that passes, is tested with the client.
FAULTS = {  # rates; with the seeds below, the rare ones hit requests between the 25th and the 55th
    "delay": {"delay:0.03": 0.2},
    "reset": {"reset": 0.15},
    "truncate": {"truncate:1": 0.02},
    "short": {"short:0": 0.006, "short:1": 0.007, "short:3": 0.007},
    "cut": {"cut:1": 0.02},
    "cut before the first event": {"cut:0": 0.02},
    "die and return": {"die:0.1": 0.02},
    "all": {"delay:0.02": 0.1, "reset": 0.03, "503": 0.03, "429:0.01": 0.03, "truncate:1": 0.005, "cut:2": 0.005},
}

pytestmark = pytest.mark.usefixtures("accept_late_readings")


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries as always, with shorter waits."""
    monkeypatch.setattr("calibrate.models.servers.HttpConfig.of", partial(HttpConfig.of, backoff_s=0.02))
    monkeypatch.setattr("calibrate.running.patience.FIRST_WAIT_S", 0.02)
    monkeypatch.setattr("calibrate.running.patience.LONGEST_WAIT_S", 0.1)


def plan(target: str, draft: str, *, patience_s: float = 300.0) -> CalibrationPlan:
    return CalibrationPlan(
        models=RemoteModels(target=target, draft=draft, timeout_s=120.0),
        problems=tuple(Problem(name=f"q{i}", prompt=f"Question {i} is?") for i in range(N_ANSWERS)),
        engine=OPTIONS,
        warm_up_s=0.02,
        patience_s=patience_s,
    )


def carry_out(planned: CalibrationPlan, journal: Path) -> Profile:
    return asyncio.run(calibrate_models(planned, journal))


def said(profile: Profile) -> list[Any]:
    """Everything recorded that is no time."""
    return [
        [
            (
                s.draft.tokens,
                s.target.tokens,
                s.verdict.accepted,
                s.verdict.score,
                s.verdict.prompt_tokens,
                s.draft.scores,
            )
            for s in answer.steps
        ]
        + [step.tokens for step in answer.baseline]
        for answer in profile.answers
    ]


def counts(profile: Profile) -> list[Any]:
    """How many samples of each kind were kept."""
    return [
        (name, len(engine.decode) + len(engine.warmup_decode), len(engine.prefill), len(engine.request_s))
        for name, engine in profile.engines.items()
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    with serving(FAST) as target, serving(FAST) as draft:
        return carry_out(plan(target.url, draft.url), tmp_path_factory.mktemp("calm") / "j")


@pytest.mark.parametrize("name", FAULTS)
def test_no_fault_changes_what_is_recorded(name: str, undisturbed: Profile, tmp_path: Path) -> None:
    """The same texts, verdicts and token counts, as many samples, every part once in the journal."""
    journal = tmp_path / "j"
    with (
        serving(FAST) as target,
        serving(FAST) as draft,
        proxied(target.url, random_faults(FAULTS[name], seed=99)) as first,
        proxied(draft.url, random_faults(FAULTS[name], seed=128)) as second,
    ):
        profile = carry_out(plan(first.url, second.url), journal)
        assert first.seen + second.seen, "no fault happened: the test tests nothing"
    assert said(profile) == said(undisturbed)
    assert [one[2:] for one in counts(profile)] == [one[2:] for one in counts(undisturbed)]
    keys = [json.loads(line).get("key") for line in journal.read_bytes().splitlines()]
    assert len(keys) == len(set(keys)) == 1 + 2 * OPTIONS.rounds + N_ANSWERS


def test_a_part_that_was_broken_off_is_noted(tmp_path: Path) -> None:
    with (
        serving(FAST) as server,
        proxied(server.url) as proxy,
    ):
        # How many requests the warm-up takes is a matter of time, and what it loses is not measured again.
        proxy.plan = lambda number, path: "cut:2" if number % 50 == 10 and path == "/v1/completions" else ""
        profile = carry_out(plan(proxy.url, server.url), tmp_path / "j")
    assert any("parts were broken off" in note for note in profile.provenance.notes)


# Giving up


def gives_up(planned: CalibrationPlan, journal: Path) -> str:
    with pytest.raises(CalibrationError) as caught:
        carry_out(planned, journal)
    text = str(caught.value)
    assert "\n" not in text
    return text


def after_an_answer(fault: str, journal: Path) -> Callable[[int, str], str]:
    """A fault in all completions once an answer is finished."""

    def finished() -> bool:
        return journal.exists() and b'"answer:' in journal.read_bytes()

    return lambda _, path: fault if path == "/v1/completions" and finished() else ""


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("cut:1", "broke the connection in the middle of an answer"),
        ("500", "answered 500: by the proxy"),
        ("401", r"refused a request without a key; name one with --api-key-env \(401\)"),
    ],
)
def test_a_fault_that_stays_is_told_in_one_line_and_what_was_finished_is_kept(
    fault: str, message: str, undisturbed: Profile, tmp_path: Path
) -> None:
    journal = tmp_path / "j"
    with (
        serving(FAST) as target,
        serving(FAST) as draft,
        proxied(target.url, after_an_answer(fault, journal)) as proxy,
    ):
        text = gives_up(plan(proxy.url, draft.url, patience_s=0.1), journal)
        assert re.search(message, text)
        assert f"target at {proxy.url}" in text
        kept = journal.read_bytes()
        assert b'"answer:' in kept
        proxy.plan = lambda number, path: ""
        profile = carry_out(plan(proxy.url, draft.url), journal)
    assert journal.read_bytes().startswith(kept)
    assert said(profile) == said(undisturbed)


def test_a_server_that_stays_away_is_unreachable(tmp_path: Path) -> None:
    with serving(FAST) as server:
        with proxied(server.url) as proxy:
            gone = proxy.url
        text = gives_up(plan(gone, server.url), tmp_path / "j")
    assert text.startswith(f"target at {gone}/v1: unreachable")


def test_the_proxy_lets_a_server_see_that_its_client_left() -> None:
    from calibrate.engines.http.engine import OpenAIEngine
    from calibrate.engines.protocol import Request

    async def leave(url: str) -> None:
        engine = await OpenAIEngine.start(HttpConfig(name="x", url=url))
        task = asyncio.create_task(engine.generate(Request(prompt="a", max_tokens=500, ignore_eos=True, stop=())))
        async with asyncio.timeout(60):
            while not server._running:
                await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await engine.close()
            while not server.aborted:
                await asyncio.sleep(0.005)

    with serving(Planted(iteration_s=0.01)) as server, proxied(server.url) as proxy:
        asyncio.run(leave(proxy.url))
        assert server.aborted == 1
        assert isinstance(proxy, FaultProxy)


@pytest.mark.parametrize("turns", range(6))
def test_a_proxy_that_stops_leaves_no_connection_open(turns: int) -> None:
    async def connect_and_stop() -> list[socket.socket]:
        proxy = FaultProxy("http://127.0.0.1:9")
        await proxy.start()
        clients = [socket.create_connection(("127.0.0.1", int(proxy.url.rsplit(":", 1)[1]))) for _ in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        await proxy.stop()
        return clients

    clients = asyncio.run(connect_and_stop())
    gc.collect()  # a socket left open is an error here, as every warning is
    for client in clients:
        client.settimeout(10.0)
        with client, suppress(ConnectionError):
            assert client.recv(1) == b""
