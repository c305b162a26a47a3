"""Token-level methods and hybrids: exact predictions, what is planned and run, and the command lines."""

import json
from dataclasses import replace

import pytest
from measured_profiles import measured, speculated
from refusals import refused

from calibrate.engines.speculation import Speculation
from calibrate.models.local import TorchModels
from calibrate.models.servers import RemoteModels
from calibrate.record.token_records import PassSample
from calibrate.replay.trials import Trials
from sim.configuration import Configuration
from sim.roles import TARGET
from specplan.check.validating import validation
from specplan.check.validating.questions import configurations_of
from specplan.planning.planner import Request, plan
from specplan.planning.predict import Predictor
from specplan.worlds.drafters.naming import kind
from theory.errors import ParameterError

PROFILE = speculated(measured([False] * 8))
"""Iterations of 10 ms, 1 ms for the draft; passes of 3 tokens in 12 ms: 7 for the 20 tokens after the first."""


def test_a_draft_model_alone_and_below_steps_is_predicted_exactly() -> None:
    """56 passes of 12 ms for 167 iterations of 10 ms; prefills of 1 ns are all that is left: 1e-6.

    LR sync, no draft ever right: each of 8 steps waits for one draft of 20 ms, then takes 84 ms.
    """
    predictor = Predictor(PROFILE, uncertainty=False)
    found = predictor.predict(Configuration(method="draft-model", k2=3))
    assert found.speedup.value == pytest.approx(1670 / 672, rel=1e-6)
    assert found.tokens_per_pass == pytest.approx(3.0)
    assert found.token_settings == {"k2": 3}
    hybrid = predictor.predict(Configuration(method="lr-sync", k1=2, token="draft-model", k2=3))
    assert hybrid.speedup.value == pytest.approx(1670 / 832, rel=1e-3)


def test_resampled_answers_widen_the_interval() -> None:
    """Answers that differ in tokens per pass make the prediction unsure; answers all alike do not."""
    one = Configuration(method="draft-model", k2=3)
    alike = Predictor(PROFILE).predict(one)
    record = PROFILE.token[0]
    slow = record.answers[0].model_copy(
        update={
            "requests": [r.model_copy(update={"passes": [PassSample(2, 0)] * 20}) for r in record.answers[0].requests]
        }
    )
    mixed = type(record).counted("draft-model", record.settings, [slow, *record.answers[1:]])
    unsure = Predictor(PROFILE.model_copy(update={"token": [mixed]})).predict(one)
    assert alike.errors["profile"] < 1e-9
    assert unsure.errors["profile"] > 0.05


def test_the_planner_tries_what_is_recorded_alone_and_below_steps() -> None:
    found = Request(methods=("draft-model", "prompt-lookup", "lr-sync"), k1_max=2).candidates(Trials(PROFILE)).known
    names = [one.name for one in found]
    assert names == ["draft-model k2=3", "lr-sync k1=2", "lr-sync k1=2 + draft-model k2=3"]
    assert kind(found[-1]) == "lr-sync+draft-model"
    assert plan(PROFILE, Request(methods=("draft-model",))).best.label == "draft-model speculation"


def test_a_token_method_that_loses_is_shown_alone_and_not_put_below() -> None:
    profile = speculated(measured([False] * 8), pass_s=0.050)
    found = plan(profile, Request(methods=("draft-model", "lr-sync"), k1_max=2))
    assert {row.label for row in found.rows} == {"plain decoding", "draft-model speculation", "LR sync"}
    why = {row.label: row.why for row in found.rows}
    assert "loses to plain decoding" in why["draft-model speculation"]


def test_validate_combines_methods_windows_and_depths() -> None:
    names = [c.name for c in configurations_of("lr-async", (), [1, 2], [3, 4], token="draft-model")]
    assert names == [f"lr-async k1={k1} + draft-model k2={k2}" for k1 in (1, 2) for k2 in (3, 4)]
    names = [c.name for c in configurations_of("prompt-lookup,draft-model", (), [], [4])]
    assert names == ["prompt-lookup k2=4", "draft-model k2=4"]
    with pytest.raises(ParameterError, match="token-set"):
        configurations_of("lr-async", (), [], [], token_settings=("k2=3",))


def test_a_prediction_is_run_with_the_settings_it_rests_on_over_http_on_the_server_that_speculates_so() -> None:
    predictor = Predictor(speculated(PROFILE, "prompt-lookup", k2=5), uncertainty=False)
    lookup = predictor.predict(Configuration(method="lr-async", token="prompt-lookup", k2=4))
    spec = validation.real_configuration(lookup, TorchModels())
    assert spec.speculation == {TARGET: Speculation(method="ngram", k2=4)}
    stepwise = predictor.predict(Configuration(method="lr-async"))
    assert validation.real_configuration(stepwise, TorchModels()).speculation == {}
    plain = RemoteModels(target="http://localhost:1", draft="http://localhost:2")
    with pytest.raises(ParameterError, match=r"prompt-lookup .*k2=4.* needs a server with this method; .*: none"):
        validation.real_configuration(lookup, plain)
    config = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    models = replace(plain, speculative=json.dumps([{"server": "http://localhost:3#fast", **config}]))
    assert [setting.key for setting in models.token_settings()] == ["prompt-lookup k2=4 max_ngram=3"]
    assert validation.real_configuration(lookup, models).speculation == {TARGET: Speculation(method="ngram", k2=4)}
    with pytest.raises(ParameterError, match=r"configured are .*: prompt-lookup k2=4 max_ngram=3"):
        models.speculation("prompt-lookup", {"k2": 5})


test_servers_that_speculate_are_checked = refused(
    lambda speculative: RemoteModels(target="http://localhost:1", draft="http://localhost:2", speculative=speculative),
    ("{", "must be JSON"),
    ("[1]", "must be a list of objects"),
    ('[{"method": "ngram"}]', "must name the server"),
    ('[{"server": "x", "method": "ngram", "num_speculative_tokens": 1, "prompt_lookup_max": 2}]', "http"),
    ('[{"server": "http://x", "method": "nothing", "num_speculative_tokens": 1}]', "must be one of"),
    (json.dumps([{"server": "http://x", "method": "eagle", "model": "m", "num_speculative_tokens": 1}] * 2), "twice"),
)
