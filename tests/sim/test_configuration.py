"""Configurations: a method with its knobs and a token level below it, and their names."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from refusals import refused, refuses

from sim.catalogue import method
from sim.configuration import METHOD_NAMES, TOKEN_METHOD_NAMES, Configuration, parse_knobs


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


def test_a_token_level_method_is_its_own_token_level() -> None:
    one = Configuration(method="prompt-lookup", knobs={"k2": 5})
    assert (one.token, one.k2, one.token_knobs["k2"], one.is_hybrid) == ("prompt-lookup", 5, 5, False)
    assert one == Configuration(method="prompt-lookup", k2=5)
    assert one.name == "prompt-lookup k2=5"
    assert Configuration(method="draft-model").k2 == 3


def test_a_hybrid_names_both_levels() -> None:
    one = Configuration(method="lr-async", k1=2, token="draft-model", token_knobs={"k2": 4})
    assert one.name == "lr-async k1=2 + draft-model k2=4"
    assert (one.k2, one.is_hybrid, one.speculates) == (4, True, True)
    assert one.with_token("draft-model", {"k2": 6}) == Configuration(method="lr-async", k1=2, token="draft-model", k2=6)


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
    ({"method": "autoregressive", "token": "prompt-lookup"}, "must not be given for plain decoding"),
    ({"method": "lr-async", "token": "lr-sync"}, "token='lr-sync' must be one of"),
    ({"method": "prompt-lookup", "token": "draft-model"}, "is a token-level method itself"),
    ({"method": "lr-async", "token": "draft-model", "k2": 1}, "k2=1 must be an integer in"),
    ({"method": "draft-model", "k2": 2000}, "k2=2000"),
    ({"method": "draft-model", "k2": 3, "knobs": {"k2": 4}}, "contradicts the knob k2=4"),
    ({"method": "lr-async", "token": "draft-model", "k2": 3, "token_knobs": {"k2": 4}}, "contradicts the knob k2=4"),
    ({"method": "lr-async", "token": "draft-model", "token_knobs": {"max_ngram": 2}}, "knob='max_ngram'"),
    ({"method": "lr-async", "token_knobs": {"k2": 2}}, "need a token-level method"),
)


test_bad_settings_are_named = refused(
    lambda *settings: parse_knobs("spec-cot", settings),
    ("width", "NAME=VALUE"),
    ("wide=2", "knob='wide'"),
    ("width=2", "width=3", "width='3' must not be given twice"),
)


@given(data=st.data(), name=st.sampled_from(METHOD_NAMES), below=st.sampled_from([None, *TOKEN_METHOD_NAMES]))
def test_a_configuration_is_read_back_from_its_name(data: st.DataObject, name: str, below: str | None) -> None:
    spec, options = method(name), dict[str, Any]()
    if spec.has("k1"):
        options["k1"] = data.draw(st.integers(1, 9))
    if below is not None and spec.level == "step":
        options["token"] = below
    one = Configuration(method=name, **options)
    assert Configuration.parse(one.name) == one


test_a_configuration_that_cannot_be_read_is_refused = refused(
    Configuration.parse,
    ("", "must be METHOD"),
    ("lr-async +", "must be METHOD"),
    ("nothing k1=2", "must be one of"),
    ("lr-async k1", "NAME=VALUE"),
    ("lr-async k1=0", "k1"),
    ("lr-async + lr-sync", "must be one of"),
)
