"""``specplan methods``, and configurations by the catalogue."""

from __future__ import annotations

import json
import math

import pytest
from click.testing import CliRunner
from refusals import refuses

from sim.catalogue import methods
from sim.configuration import Configuration, parse_knobs
from specplan.cli import cli
from specplan.output import SCREEN
from theory.errors import ParameterError

PROFILE = "lr-deepseek-gsm8k"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False, standalone_mode=False)
    return result.stdout


def test_methods_lists_every_method_of_the_catalogue() -> None:
    text = run("methods")
    assert max(map(len, text.splitlines())) <= SCREEN
    every = run("methods", "-v")
    data = json.loads(run("methods", "--json"))
    assert [one["name"] for one in data["methods"]] == list(methods())
    for name, one in methods().items():
        assert name in text
        assert one.paper in every
        described = run("methods", name)
        assert max(map(len, described.splitlines())) <= SCREEN
        assert one.paper in " ".join(described.split())
        assert all(knob.name in described for knob in one.knobs)


def test_knobs_come_from_fields_settings_and_defaults() -> None:
    configuration = Configuration(method="confspec", k1=2, knobs={"gamma": 0.8})
    assert (configuration.k1, configuration.width, configuration.knobs["gamma"]) == (2, 1, 0.8)
    assert configuration.name == "confspec k1=2 gamma=0.8"
    assert Configuration(method="spec-cot").width == 3
    assert Configuration(method="lr-async", knobs={"k1": 7}).k1 == 7
    assert configuration.knobs["schedule"] == "async"


def test_equal_configurations_hash_alike_and_a_knob_tells_them_apart() -> None:
    one = Configuration(method="confspec", k1=2, width=1, knobs={"gamma": 0.8})
    same = Configuration(method="confspec", knobs={"k1": 2, "gamma": 0.8})
    other = Configuration(method="confspec", k1=2, knobs={"gamma": 0.7})
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert hash(one) != hash(other)  # equal by chance once in 2**61 runs


def test_a_configuration_in_plain_data_has_its_knobs_and_their_shortcuts() -> None:
    lookup = {"k2": 4, "max_ngram": None}
    assert Configuration(method="prompt-lookup", k2=4, rules="eager").plain() == {
        "method": "prompt-lookup",
        "k1": 1,
        "k2": 4,
        "width": 1,
        "rules": "paper",
        "knobs": lookup,
        "token": "prompt-lookup",
        "token_knobs": lookup,
    }


test_a_bad_configuration_is_named = refuses(
    Configuration,
    ({"method": "lr-asink"}, "^method=.* did you mean 'lr-async'"),
    ({"method": "lr-async", "k1": 0}, "^k1=0"),
    ({"method": "lr-async", "k1": 2, "knobs": {"k1": 3}}, "contradicts the knob k1=3"),
    ({"method": "prompt-lookup", "k1": 2}, "^k1=2 must be 1 for the method prompt-lookup"),
    ({"method": "spec-reason", "width": 2}, "width=2 must be 1"),
    ({"method": "autoregressive", "k2": 2}, "^k2=2 must be 1"),
    ({"method": "confspec", "knobs": {"gamma": math.nan}}, "gamma=nan"),
    ({"method": "lr-async", "k1": True}, "^k1=True"),
    ({"method": "lr-async", "k1": 2.0}, "^k1=2.0"),
    ({"method": "lr-async", "width": -1}, "^width=-1"),
    ({"method": "lr-async", "rules": "mine"}, "^rules='mine'"),
)


def test_settings_are_read_as_typed() -> None:
    assert parse_knobs("spec-cot", ("width=2", "select=choice")) == {"width": 2, "select": "choice"}
    with pytest.raises(ParameterError, match="NAME=VALUE"):
        parse_knobs("spec-cot", ("width",))
    with pytest.raises(ParameterError, match="knob='wide'"):
        parse_knobs("spec-cot", ("wide=2",))
    with pytest.raises(ParameterError, match="k1='3' must not be given twice"):
        run("simulate", "-p", PROFILE, "--set", "k1=2", "--set", "k1=3")


def test_an_unknown_method_gets_a_suggestion() -> None:
    with pytest.raises(ParameterError, match="did you mean 'confspec'"):
        run("methods", "confspek")
