"""Timings measured apart from acceptance: a latency profile, and planning with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibrate.profile import DecodeSample, EngineRecord, ModelRecord, PrefillSample, Profile, Provenance
from calibrate.profiles import bundled
from calibrate.system import system_of
from sim.operations import DRAFT, TARGET
from specplan.cli import cli
from specplan.predict import Configuration, Predictor
from specplan.token_level import _measured_factor
from theory.errors import ParameterError, SchemaError

BASE = "lr-qwen3-gsm8k"
NAMES = {"target": "Qwen3-32B", "draft": "Qwen3-1.7B", "judge": "Qwen2.5-7B-Instruct"}


def engine(
    token_s: float, *, device: str = "gpu", sequence_s: float = 0.0, tokens: tuple[int, ...] = ()
) -> EngineRecord:
    """An engine that takes ``token_s`` per iteration and ``sequence_s`` more for every further row."""
    decode = [
        DecodeSample(batch=b, context=b * n, tokens=q, seconds=token_s + sequence_s * (b * q - 1))
        for b in (1, 2, 8)
        for n in (1024, 4096)
        for q in (1, *tokens)
    ]
    prefill = [PrefillSample(tokens=n, seconds=token_s) for n in (16, 64)]
    return EngineRecord(device=device, decode=decode, prefill=prefill, request_s=[])


def latency(*, draft_s: float = 0.002, target_s: float = 0.02, names: dict[str, str] | None = None) -> Profile:
    """A latency profile of the published pair."""
    return Profile(
        name="gpu-x",
        source="latency",
        provenance=Provenance(created="2026-01-01", device="GPU X"),
        models={role: ModelRecord(name=name) for role, name in (names or NAMES).items()},
        placement={role: role for role in NAMES},
        engines={
            "target": engine(target_s, device="a"),
            "draft": engine(draft_s, device="b"),
            "judge": engine(0.001, device="c"),
        },
    )


def test_a_latency_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    latency().write(path)
    assert Profile.read(path) == latency()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engines": {}}, "placement.target"),
        ({"placement": {"target": "target"}}, "placement"),
        ({"published": bundled(BASE).published}, "timings only"),
    ],
)
def test_what_a_latency_profile_must_and_must_not_hold(change: dict[str, object], message: str) -> None:
    data = latency().model_dump(mode="json")
    data |= {
        name: value.model_dump(mode="json") if hasattr(value, "model_dump") else value for name, value in change.items()
    }
    with pytest.raises(SchemaError, match=message):
        Profile.parse(json.dumps(data))


def test_timings_alone_cannot_be_planned_with() -> None:
    with pytest.raises(ParameterError, match="timings only"):
        system_of(latency())
    with pytest.raises(ParameterError, match="timings only"):
        latency().on_engines_of(latency())
    with pytest.raises(ParameterError, match="holds no timings"):
        bundled(BASE).on_engines_of(bundled(BASE))


def test_timings_of_other_models_are_refused() -> None:
    other = latency(names={**NAMES, "draft": "Qwen3-8B"})
    with pytest.raises(ParameterError, match=r"timings of the draft Qwen3-8B, not of Qwen3-1\.7B"):
        bundled(BASE).on_engines_of(other)


def test_the_measured_timings_are_what_is_simulated() -> None:
    combined = bundled(BASE).on_engines_of(latency())
    system = system_of(combined)
    assert system.costs[system.placement[TARGET]].iteration(1, 500.0) == pytest.approx(0.02)
    assert system.costs[system.placement[DRAFT]].iteration(8, 500.0) == pytest.approx(0.002)
    assert set(system.devices.values()) == {"a", "b", "c"}
    # plain decoding takes one iteration, or one prefill, of 20 ms for every token of every step
    predictor = Predictor(combined, n_answers=2, uncertainty=False)
    found = predictor.predict(Configuration(method="autoregressive"))
    tokens = [sum(min(n, 100) for n in system.behaviour.answer(i).target_lengths()) for i in range(2)]
    assert found.baseline_seconds == pytest.approx(0.02 * sum(tokens) / 2, rel=1e-9)


def test_a_slower_draft_brings_less() -> None:
    one = Configuration(method="lr-async", k1=3)
    fast, slow = (
        Predictor(bundled(BASE).on_engines_of(latency(draft_s=s)), n_answers=2, uncertainty=False).screen(one)
        for s in (0.001, 0.016)
    )
    assert fast > slow


def test_resampled_timings_give_other_costs_than_the_best_estimate() -> None:
    noisy = latency()
    samples = [
        s.model_copy(update={"seconds": s.seconds * f}) for s in noisy.engines["target"].decode for f in (0.9, 1.1)
    ]
    record = noisy.engines["target"].model_copy(update={"decode": samples})
    combined = bundled(BASE).on_engines_of(noisy.model_copy(update={"engines": {**noisy.engines, "target": record}}))
    costs = {system_of(combined, resample=seed).costs["target"].iteration(1, 0.0) for seed in range(4)}
    assert len(costs) > 1


def test_plan_takes_the_timings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.json"
    latency().write(path)
    options = ["plan", "-p", BASE, "--latency", str(path), "--methods", "lr-async", "--k1-max", "2", "-n", "2"]
    cli.main(options, standalone_mode=False)
    said = capsys.readouterr().out
    assert "timings of profile gpu-x: GPU X" in said
    assert "LR async" in said


def test_the_factor_of_a_pass_compares_like_with_like() -> None:
    # 2 % per row; several tokens were measured at fewer contexts than one, and those are the long, slow ones
    record = engine(0.02, sequence_s=4e-4, tokens=(4, 8))
    slow = [
        s.model_copy(update={"seconds": 3.0 * s.seconds}) for s in record.decode if s.context == 4096 and s.batch == 1
    ]
    short = [s for s in record.decode if s.context == 1024 and s.batch == 1 and s.tokens == 1]
    mixed = record.model_copy(update={"decode": [*slow, *short]})
    assert _measured_factor(mixed, 1) == 1.0
    assert _measured_factor(mixed, 4) == pytest.approx(1.0 + 0.02 * 3)
    assert _measured_factor(mixed, 8) == pytest.approx(1.0 + 0.02 * 7)
    assert _measured_factor(mixed, 6) == pytest.approx(1.0 + 0.02 * 5)  # between 4 and 8
    assert _measured_factor(mixed, 9) is None
    assert _measured_factor(engine(0.02), 2) is None
