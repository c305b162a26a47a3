"""Timings measured apart from acceptance: a latency profile, and planning with it."""

from pathlib import Path

import pytest
from refusals import refused
from screens import Main

from calibrate.costs.sweep import fit_passes
from calibrate.record.engine_records import DecodeSample, EngineRecord, PrefillSample
from calibrate.record.library import bundled, load
from calibrate.record.profile import ModelRecord, Profile, Provenance
from calibrate.replay.system import system_of
from sim.configuration import Configuration
from sim.engines.pass_costs import PassTable
from sim.roles import DRAFT, TARGET
from specplan.cli import cli
from specplan.planning.latency import timed
from specplan.planning.predict import Predictor
from theory.errors import SchemaError

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


def moved(sample: DecodeSample, factor: float) -> DecodeSample:
    return sample.model_copy(update={"seconds": sample.seconds * factor})


def latency(*, draft_s: float = 0.002, target_s: float = 0.02, names: dict[str, str] | None = None) -> Profile:
    """A latency profile of the published pair."""
    return Profile(
        name="gpu-x",
        source="latency",
        provenance=Provenance(created="2026-01-01", device="GPU X"),
        models={role: ModelRecord(name=name) for role, name in (names or NAMES).items()},
        placement={role: role for role in NAMES},
        engines={
            role: engine(seconds, device=device)
            for role, seconds, device in (("target", target_s, "a"), ("draft", draft_s, "b"), ("judge", 0.001, "c"))
        },
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engines": {}}, "placement.target"),
        ({"placement": {"target": "target"}}, "placement"),
        ({"published": bundled(BASE).published}, "timings only"),
    ],
)
def test_what_a_latency_profile_must_and_must_not_hold(change: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Profile.parse(latency().model_copy(update=change).model_dump_json())


test_timings_alone_cannot_be_planned_with = refused(
    lambda call: call(),
    (lambda: system_of(latency()), "timings only"),
    (lambda: latency().on_engines_of(latency()), "timings only"),
    (lambda: bundled(BASE).on_engines_of(bundled(BASE)), "holds no timings"),
    (
        lambda: bundled(BASE).on_engines_of(latency(names={**NAMES, "draft": "Qwen3-8B"})),
        r"timings of the draft Qwen3-8B, not of Qwen3-1\.7B",
    ),
)


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


def test_the_order_of_engines_in_memory_does_not_move_the_interval(tmp_path: Path) -> None:
    """A file has its engines sorted; every resampled variant must be the same before and after it is written."""
    found = latency()
    noisy = {
        name: record.model_copy(update={"decode": [moved(s, f) for s in record.decode for f in (0.8, 1.2)]})
        for name, record in found.engines.items()
    }
    assert len(noisy) > 1
    backwards = {name: noisy[name] for name in sorted(noisy, reverse=True)}
    profile = bundled(BASE).on_engines_of(found.model_copy(update={"engines": backwards}))
    profile.write(tmp_path / "x.json")
    again = Profile.read(tmp_path / "x.json")
    assert list(again.engines) != list(profile.engines)
    variants = [(system_of(profile, resample=seed), system_of(again, resample=seed)) for seed in range(8)]
    assert all(one.costs == other.costs and one.fits == other.fits for one, other in variants)
    assert len({one.costs["target"].iteration(1, 0.0) for one, _ in variants}) > 2


def test_plan_takes_the_timings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.json"
    latency().write(path)
    options = ["plan", "-p", BASE, "--latency", str(path), "--methods", "lr-async", "--k1-max", "2", "-n", "2"]
    cli.main(options, standalone_mode=False)
    said = capsys.readouterr().out
    assert "timings of latency profile gpu-x (GPU X" in " ".join(said.split())
    assert "LR async" in said


def test_passes_are_fitted_by_their_tokens_and_interpolated() -> None:
    """2 % per row, exactly linear in rows, at every batch: the table gives back what it was made from."""
    record = engine(0.02, sequence_s=4e-4, tokens=(4, 8))
    table = PassTable(fit_passes(record))
    for rows in (1, 4, 6, 8, 10):  # 6 lies between measured ones, 10 beyond them
        for batch in (1, 2, 8):
            expected = 0.02 + 4e-4 * (batch * rows - 1)
            assert table.seconds(rows, batch, 0.0) == pytest.approx(expected, rel=1e-6)
    assert set(fit_passes(engine(0.02))) == {1}


def test_timings_of_a_widened_pair_count_as_those_of_its_shapes(run_main: Main, tmp_path: Path) -> None:
    """From a measured profile to a plan of published models on its timings."""
    path, own_path, measured = tmp_path / "timings.json", tmp_path / "wide.json", bundled("h100-torch")
    wide = {role: model.model_copy(update={"dtype": "bfloat16"}) for role, model in measured.models.items()}
    measured.model_copy(update={"models": wide}).write(own_path)
    words = [f"--model={role}={name}" for role, name in NAMES.items()]
    assert run_main("profile", "latency", str(own_path), *words, "-o", str(path))[0] == 0
    made = load(str(path))
    assert made.source == "latency"
    assert made.engines == measured.engines
    assert {role: made.models[role].name for role in NAMES} == NAMES
    assert measured.models["target"].name in made.provenance.notes[-1]
    own, other = (
        Predictor(timed(bundled("lr-qwen3-gsm8k"), latency=which).profile, n_answers=2, uncertainty=False)
        for which in ("none", str(path))
    )
    one = Configuration(method="lr-async", k1=3)
    assert own.predict(one).baseline_seconds != other.predict(one).baseline_seconds
    code, _, err = run_main("profile", "latency", "h100-torch", "--model", "jury=X")
    assert (code, "model='jury' must be a role of the profile: draft, judge, target" in err) == (2, True)
    code, _, err = run_main("profile", "latency", "lr-qwen3-gsm8k")
    assert (code, "holds no timings" in err) == (2, True)
