"""Several workers over one hub, here in one process, each at a URL of its own: one decides for all of them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import httpx
import pytest
from gateways import PATIENT, PlantedGateway, planted_gateway
from openai_server import Planted
from pair_servers import running

from sim.configuration import Configuration
from sim.roles import DRAFT, JUDGE, TARGET
from specplan.live.comparing.comparison import Verdict
from specplan.live.gateway.control import Limits
from specplan.live.gateway.plans import PLAIN, Expected, ServingPlan
from specplan.live.gateway.workers.channel import Channel
from specplan.live.gateway.workers.hub import Hub
from specplan.live.gateway.workers.remote import Remote

SYNC = Configuration.parse("lr-sync k1=2")


@dataclass
class Workers:
    """A gateway of one process, what it shares with workers, and the workers' clients and channels."""

    served: PlantedGateway
    hub: Hub
    remotes: list[Remote] = field(default_factory=list)
    channels: list[Channel] = field(default_factory=list)
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    async def asked(self, worker: int, prompt: str, **more: Any) -> httpx.Response:
        body = {"prompt": prompt, "seed": 1, "max_tokens": 200, **more}
        return await self.clients[worker].post("/v1/completions", json=body)

    async def text(self, worker: int, prompt: str, **more: Any) -> str:
        answer = (await self.asked(worker, prompt, **more)).raise_for_status().json()
        return str(answer["choices"][0]["text"])

    async def state(self, worker: int) -> dict[str, Any]:
        return dict((await self.clients[worker].get("/health")).json())

    async def page(self, worker: int) -> str:
        return (await self.clients[worker].get("/metrics")).text

    async def left_at(self, n: int) -> None:
        """Wait until so many answers are in flight."""
        async with asyncio.timeout(30):
            while self.served.serving.control.in_flight != n:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def workers(
    configuration: Configuration, *, limits: Limits = PATIENT, trust_plan: bool = True, **more: Any
) -> AsyncIterator[Workers]:
    """Two workers."""
    plan = ServingPlan(by_load=((1, configuration),))
    async with AsyncExitStack() as stack:
        gateway = planted_gateway(configuration, limits=limits, trust_plan=trust_plan, **more)
        served = await stack.enter_async_context(gateway)
        both = Workers(served, Hub(served.serving, plan))
        for number in range(2):
            ours, theirs = socket.socketpair()
            stack.callback(both.hub.connect(ours).channel.close)
            channel = Channel(theirs, lambda events, i=number: both.remotes[i].take(events), lambda: None)
            stack.callback(channel.close)
            remote = Remote(channel, plan, limits, measures=not trust_plan, profiled=False)
            both.remotes.append(remote)
            both.channels.append(channel)
            url = await stack.enter_async_context(running(remote.application(served.serving.answering.servers)))
            both.clients.append(await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=300.0)))
        yield both


@pytest.mark.parametrize("configuration", [SYNC, PLAIN])
async def test_texts_are_those_of_one_process_and_pages_are_of_all_workers(configuration: Configuration) -> None:
    async with workers(configuration, planted=Planted(steps=3)) as both:
        prompts = [f"question {i}" for i in range(3)]
        one = [(await both.served.answer(prompt)).choices[0].text for prompt in prompts]
        two = [await asyncio.gather(*(both.text(worker, prompt) for prompt in prompts)) for worker in (0, 1)]
        pages = [await both.page(worker) for worker in (0, 1)]
        states = [await both.state(worker) for worker in (0, 1)]
        refused = await both.asked(0, "x", max_tokens=10**6)
        await asyncio.sleep(0.1)  # what is only counted waits for other events
        page = await both.page(1)
    assert [one, one] == two
    assert refused.status_code == 400
    for text in pages:
        assert 'specplan_answers_total{finish="stop"} 9.0' in text
        assert "specplan_in_flight 0.0" in text
    assert ("specplan_draft_steps_total{" in pages[0]) == (configuration is SYNC)
    assert 'specplan_requests_refused_total{status="400"} 1.0' in page
    assert states[0] == states[1]
    assert (states[0]["method"], states[0]["in_flight"], states[0]["workers"]) == (configuration.name, 0, 2)


async def test_no_more_are_admitted_than_the_most_by_all_workers_together() -> None:
    async with workers(SYNC, planted=Planted(iteration_s=0.01), limits=Limits(in_flight=3)) as both:
        answers = await asyncio.gather(*(both.asked(i % 2, f"question {i}") for i in range(8)))
        statuses = sorted(one.status_code for one in answers)
        assert both.served.serving.control.in_flight == 0
    assert statuses == [200] * 3 + [429] * 5
    (refused,) = {(one.headers["retry-after"], one.json()["error"]["code"]) for one in answers if one.is_error}
    assert refused == ("1", "too_many_requests")


async def test_a_place_is_free_at_the_other_worker_when_a_client_learns_that_its_answer_has_ended() -> None:
    async with workers(SYNC, planted=Planted(steps=1), limits=Limits(in_flight=1)) as both:
        for number in range(12):
            (await both.asked(number % 2, f"question {number}", stream=number % 4 < 2)).raise_for_status()
            assert both.served.serving.control.in_flight == 0


def by_role(passes: Mapping[str, float], **alike: Any) -> dict[str, Planted]:
    """Planted servers whose passes take so many seconds."""
    return {role: Planted(acceptance=0.9, iteration_s=seconds, **alike) for role, seconds in passes.items()}


async def test_what_loses_by_all_answers_is_off_in_both_workers() -> None:
    said: list[str] = []
    planted = by_role({TARGET: 0.003, DRAFT: 0.03, JUDGE: 0.0005}, steps=4, step_tokens=(6, 8))
    methods: list[list[str]] = [[], []]
    looks: list[int] = []
    async with workers(SYNC, planted=planted, trust_plan=False, tell=said.append) as both:
        for worker, remote in enumerate(both.remotes):
            remote.watching.add(partial(looks.append, worker))

        async def asks(worker: int) -> None:
            for number in range(60):
                answer = await both.asked(worker, f"question {worker} {number}")
                methods[worker] += answer.headers["x-specplan-method"].split("; ")
                if said:
                    return

        await asyncio.gather(asks(0), asks(1))
        wanted = [remote.wanted() for remote in both.remotes]
        last = [(await both.asked(worker, "last")).headers["x-specplan-method"] for worker in (0, 1)]
        state, page = await both.state(0), await both.page(1)
    assert said == [f"at 2 in flight {SYNC.name} pauses: it lost what trials may lose"]
    assert [set(one) for one in methods] == [{PLAIN.name, SYNC.name}] * 2
    assert [one[0] for one in methods] == [PLAIN.name] * 2  # before anything is known
    assert set(looks) == {0, 1}
    assert wanted == [PLAIN, PLAIN]
    assert last == [PLAIN.name, PLAIN.name]
    assert state["lost_answers"] > 1.0
    assert [one["verdict"] != "gains" for one in state["measured"] if one["load"] == 2] == [True]
    assert "specplan_lost_answers" in page


@pytest.mark.slow
async def test_what_gains_by_all_answers_is_on_in_both_workers() -> None:
    said: list[str] = []
    planted = by_role({TARGET: 0.006, DRAFT: 0.0005, JUDGE: 0.0005}, steps=8, step_tokens=(8, 12))
    numbers = count()
    async with workers(SYNC, planted=planted, trust_plan=False, tell=said.append) as both:
        measured = both.served.serving.control.measured
        assert measured is not None

        async def asks(worker: int) -> None:
            while (number := next(numbers)) < 400:
                await both.text(worker, f"question {number}", seed=number)
                if any(one.verdict is not Verdict.UNKNOWN for one in measured.comparisons.values()):
                    return

        await asyncio.gather(asks(0), asks(1))
        for number in range(20):  # a block of plain decoding may be under way, and is known one step late
            if [remote.wanted() for remote in both.remotes] == [SYNC, SYNC]:
                break
            await asyncio.gather(*(both.text(worker, f"later {worker} {number}") for worker in (0, 1)))
        assert [remote.wanted() for remote in both.remotes] == [SYNC, SYNC]
        state, page = await both.state(0), await both.page(1)
    assert f"at 2 in flight {SYNC.name} gains and is on" in said[-1]
    (known,) = (one for one in state["measured"] if one["load"] == 2)
    assert (known["verdict"], known["method"]) == ("gains", SYNC.name)
    assert known["tokens_per_second"]["low"] > 1.0
    assert f'specplan_verdict{{load="2",method="{SYNC.name}"}} 1.0' in page
    assert 'specplan_gain{end="low",load="2",of="tokens_per_second"}' in page


@pytest.mark.parametrize(("expected", "drifts"), [(0.95, True), (0.6, False)])
async def test_drift_is_said_once(expected: float, drifts: bool) -> None:
    said: list[str] = []
    planned = {SYNC: Expected(acceptance=expected)}
    planted = Planted(steps=12, acceptance=0.6, step_tokens=(2, 4))
    async with workers(SYNC, planted=planted, expected=planned, tell=said.append) as both:
        await asyncio.gather(*(both.text(i % 2, f"{i}", seed=i) for i in range(8)))
        states = [(await both.state(worker))["drift"] for worker in (0, 1)]
        page = await both.page(0)
    assert len(said) == len(states[0]) == len(states[1]) == drifts
    assert ('specplan_drift_evidence{what="acceptance"} 1.0' in page) == drifts
    if drifts:
        assert said[0].startswith("drift: acceptance of drafts is 0.")
        assert "predicted was 0.95 [0.90, 1.00]" in said[0]


async def test_a_helper_that_fails_for_one_worker_is_done_without_in_both() -> None:
    async with workers(SYNC, planted=Planted(steps=3)) as both:
        await both.served.kill(DRAFT)
        assert (await both.text(0, "one")).count("\n\n") == 2
        other = await both.asked(1, "two")
        state = await both.state(1)
        page = await both.page(1)
    assert other.headers["x-specplan-method"] == PLAIN.name
    assert state["paused"]
    assert 'specplan_fallbacks_total{reason="failed",role="draft"} 1.0' in page


@pytest.mark.parametrize("trust_plan", [True, False])
async def test_the_answers_of_a_worker_that_is_gone_have_left(trust_plan: bool) -> None:
    async with workers(SYNC, planted=Planted(iteration_s=0.01, steps=6), trust_plan=trust_plan) as both:
        asked = [asyncio.ensure_future(both.text(i % 2, f"question {i}")) for i in range(4)]
        await both.left_at(4)
        gone = both.hub.links[0]
        while not trust_plan and not gone.answers:  # those that are compared have begun
            await asyncio.sleep(0.005)
        both.channels[0].close()
        await asyncio.wait_for(gone.closed.wait(), 30)
        assert both.served.serving.control.in_flight == gone.n_lost == 2
        for one in asked[::2]:
            one.cancel()
        assert [(await one).count("\n\n") for one in asked[1::2]] == [5, 5]
        await both.left_at(0)
        assert both.hub.links == [link for link in both.hub.links if link is not gone]
        assert (await both.state(1))["workers"] == 1
