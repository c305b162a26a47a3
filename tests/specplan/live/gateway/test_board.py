"""The board and the alerts name metrics and labels that a gateway has."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from gateways import planted_gateway
from openai import BadRequestError
from openai_server import Planted
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from sim.configuration import Configuration
from specplan.live.gateway.plans import Expected

METHOD = Configuration.parse("lr-sync")
BOARD = Path(__file__).parents[4] / "docs" / "board"
PANELS: list[dict[str, Any]] = json.loads((BOARD / "grafana.json").read_text())["panels"]
RULES: list[dict[str, Any]] = yaml.safe_load((BOARD / "alerts.yml").read_text())["groups"][0]["rules"]


async def metrics(n_answers: int, *, trust_plan: bool) -> list[Metric]:
    """What a gateway shows after answers, of which one is handed on and one is refused."""
    planned = {METHOD: Expected(acceptance=0.7)}
    async with planted_gateway(METHOD, planted=Planted(steps=2), expected=planned, trust_plan=trust_plan) as served:
        for seed in range(n_answers):
            await served.answer("one", seed=seed)
        await served.answer("one", logprobs=1)
        with pytest.raises(BadRequestError):
            await served.answer("one", max_tokens=10**6)
        return list(text_string_to_metric_families(served.serving.metrics.page().decode()))


async def test_all_metrics_and_labels_are_those_of_a_gateway() -> None:
    """Of one that runs its plan, and of one that measures."""
    families = [*await metrics(4, trust_plan=True), *await metrics(12, trust_plan=False)]
    names = {sample.name for family in families for sample in family.samples} | {
        f"{family.name}_total" for family in families if family.type == "counter"
    }
    labels = {label for family in families for sample in family.samples for label in sample.labels} | {"reason", "what"}
    exprs = [target["expr"] for panel in PANELS for target in panel["targets"]] + [rule["expr"] for rule in RULES]
    assert {name for expr in exprs for name in re.findall(r"specplan_\w+", expr)} <= names
    grouped = {label for expr in exprs for group in re.findall(r"by \(([^)]*)\)", expr) for label in group.split(", ")}
    said = json.dumps([target["legendFormat"] for panel in PANELS for target in panel["targets"]])
    said += json.dumps([rule["annotations"] for rule in RULES])
    assert grouped | {"".join(found) for found in re.findall(r"{{(\w+)}}|\$labels\.(\w+)", said)} <= labels


def test_panels_do_not_overlap_and_say_what_they_show() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in PANELS]
    assert len(set(places)) == len(PANELS)
    assert all(panel["title"] and panel["description"].endswith(".") for panel in PANELS)
