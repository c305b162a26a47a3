"""Plans as `specplan plan --json` writes them, and whom they ask."""

import json
from typing import Any

import pytest

from sim.catalogue import methods
from sim.configuration import Configuration
from specplan.live.gateway.plans import PLAIN, ServingPlan, helpers_of, parse_plan
from specplan.live.gateway.servers import Endpoints
from theory.errors import ParameterError, SchemaError


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the command writes for a profile, at two loads."""
    from click.testing import CliRunner

    from specplan.cli import cli

    words = "plan --profile lr-deepseek-gsm8k --methods lr-async,lr-sync -n 2 --k1-max 2 --concurrency 1,64 --json"
    found = CliRunner().invoke(cli, words.split())
    data: dict[str, Any] = json.loads(found.stdout)
    return data


def read(data: Any) -> ServingPlan:
    return parse_plan(json.dumps(data), "plan.json")


def test_a_plan_by_load_has_the_best_of_each(written: dict[str, Any]) -> None:
    plan = read(written)
    for load, configuration in plan.by_load:
        rows = [row for row in written["at_once"] if row["answers"] == load]
        best = max(rows, key=lambda row: row["gain"]["value"])
        gains = best["gain"]["value"] > 1.0
        assert configuration == (Configuration.parse(best["configuration"]) if gains else PLAIN)
    assert [load for load, _ in plan.by_load] == [1, 64]
    assert plan.defaults.temperature == written["advice"]["client"]["temperature"]
    best = written["rows"][0]
    assert plan.expected[plan.by_load[0][1]].acceptance == best["acceptance"]
    named = Configuration(method=best["configuration"]["method"], knobs=best["configuration"]["knobs"])
    assert read({**written, "at_once": []}).configurations == (named,)  # without loads it is the first row


def test_what_may_gain_is_tried_where_plain_decoding_is_planned(written: dict[str, Any]) -> None:
    def row(answers: int, name: str, value: float, high: float) -> dict[str, Any]:
        return {"answers": answers, "configuration": name, "gain": {"value": value, "low": 0.5, "high": high}}

    rows = [
        row(1, "lr-async k1=2", 1.3, 1.5),
        row(8, "lr-async k1=2", 0.9, 1.1),
        row(8, "lr-async k1=3", 0.8, 1.2),
        row(64, "lr-async k1=2", 0.6, 0.9),
    ]
    plan = read({**written, "at_once": rows})
    assert [plan.at(n).name for n in (1, 8, 64)] == ["lr-async k1=2", PLAIN.name, PLAIN.name]
    assert [plan.candidate(n).name for n in (1, 8, 64)] == ["lr-async k1=2", "lr-async k1=2", PLAIN.name]
    alone = plan.servable(frozenset())  # without a draft what is only tried is left out
    assert [alone.candidate(n).name for n in (1, 8, 64)] == ["lr-async k1=2", PLAIN.name, PLAIN.name]
    served = Endpoints(target="http://127.0.0.1:1", draft="http://127.0.0.1:2", judge="http://127.0.0.1:1")
    assert plan.servable(served.helpers).tried == plan.tried


def by_load(load: str) -> dict[str, Any]:
    """What makes of a plan one by names, for a load."""
    rows = [{"configuration": "autoregressive", "gain": {"value": 1.0}}]
    return {"schema": "specplan.load-plan", "target": "t", "loads": [{"load": load, "rows": rows}]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "specplan.validation"}, "is not a plan"),
        ({"schema_version": 2}, "schema_version"),
        ({"rows": []}, "rows"),
        ({"rows": None}, "rows"),
        ({"at_once": [{"answers": 0, "configuration": "x", "gain": {"value": 1}}]}, "answers"),
        ({"at_once": [{"answers": 1, "configuration": "warp-drive k1=2", "gain": {"value": 2.0}}]}, "warp-drive"),
        (by_load("2/s"), "--concurrency"),
        (by_load("trace"), "--concurrency"),
    ],
)
def test_what_is_no_plan_is_told(written: dict[str, Any], change: dict[str, Any], said: str) -> None:
    with pytest.raises((SchemaError, ParameterError), match=said):
        read({**written, **change})


def test_every_method_is_served_or_refused_by_name() -> None:
    refused = []
    for name in methods():
        if name.startswith("specs"):
            with pytest.raises(ParameterError, match="cannot be served"):
                helpers_of(Configuration(method=name))
            refused.append(name)
        else:
            assert helpers_of(Configuration(method=name)) <= {"draft", "judge", "scorer"}
    assert refused


def test_servers_that_a_method_asks_must_be_named(written: dict[str, Any]) -> None:
    plan = read(written)
    with pytest.raises(ParameterError, match="draft"):
        Endpoints(target="http://127.0.0.1:1").check(plan)
    with pytest.raises(ParameterError, match=r"--judge http://127\.0\.0\.1:1"):
        Endpoints(target="http://127.0.0.1:1", draft="http://127.0.0.1:2").check(plan)


def test_servers_to_which_keys_would_go_in_clear_are_told() -> None:
    named = Endpoints(
        target="http://models.example:8000#big", draft="http://127.0.0.1:1", judge="https://judge.example/v1"
    )
    assert named.in_clear == ("models.example:8000",)
    assert Endpoints(target="http://localhost:8000", scorer="http://[::1]:9/v1").in_clear == ()
    eagle = '[{"method": "eagle", "num_speculative_tokens": 3, "server": "http://fast.example/v1"}]'
    assert Endpoints(target="http://localhost:8000", speculative=eagle).in_clear == ("fast.example",)
