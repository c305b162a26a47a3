"""Every method of the catalogue through the gateway, on planted servers: the text is that of a run by `validate`."""

from __future__ import annotations

import pytest
from openai_server import Planted

from calibrate.models.servers import RemoteModels
from sim.catalogue import methods
from sim.configuration import Configuration
from specplan.live.gateway.plans import helpers_of

pytest.importorskip("uvicorn", reason="needs the extra serve")

from gateways import planted_gateway

SERVED = [one.name for one in methods().values() if not one.name.startswith("specs") and not one.ablation]


@pytest.mark.parametrize("name", SERVED)
async def test_the_text_is_that_of_the_generator_run_directly(name: str) -> None:
    configuration = Configuration(method=name)
    async with planted_gateway(configuration, planted=Planted(steps=3, acceptance=0.6)) as served:
        answer = await served.answer("one", seed=5, extra_body={"metadata": {"stream": "q"}})
        at = served.endpoints
        models = RemoteModels(target=at.target, draft=at.draft, judge=at.judge, seed=5, gate=False)
        async with models.open() as (_, clock):
            session = await clock.run(configuration.algorithm()(await clock.root("one")), stream="q")
            await clock.close()
        counted = served.serving.metrics.registry.get_sample_value
        written = {step.role: 0.0 for step in session.committed}
        for step in session.committed:
            written[step.role] += 1.0
        for role, n in written.items():
            assert counted("specplan_committed_steps_total", {"role": role}) == n
    assert answer.choices[0].text == session.text
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == sum(step.n_tokens for step in session.committed)
    if "judge" in helpers_of(configuration):
        assert served.servers["judge"].bodies
