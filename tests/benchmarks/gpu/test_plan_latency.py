"""A latency profile that the scripts made is what ``plan`` uses by itself, and nothing that does not fit is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibrate.costs.fit import fit_cost
from calibrate.record.library import FOLDER_VARIABLE, bundled, latencies
from calibrate.record.profile import ModelRecord, Profile
from calibrate.replay.system import system_of
from specplan.cli import main
from specplan.planning.latency import difference, timed
from theory.errors import ParameterError, SchemaError

FAST = ("--methods", "lr-async", "--k1-max", "2", "-n", "2")


@pytest.fixture
def wanted(profile: Profile) -> Profile:
    """The published acceptance of a pair whose models are the toys."""
    return bundled("lr-qwen3-gsm8k").model_copy(update={"name": "wanted", "models": profile.models})


def on_gpu(profile: Profile, device: str, name: str = "gpu") -> Profile:
    """The toys' timings as if another machine had been measured."""
    provenance = profile.provenance.model_copy(update={"device": device})
    return profile.model_copy(update={"provenance": provenance, "name": name})


def folder_with(path: Path, *profiles: Profile) -> Path:
    path.mkdir(exist_ok=True)
    for one in profiles:
        one.write(path / f"{one.name}.json")
    return path


def test_the_only_one_that_fits_is_taken(wanted: Profile, profile: Profile, tmp_path: Path) -> None:
    folder = folder_with(tmp_path, profile)
    found = timed(wanted, folder=folder)
    assert found.profile == wanted.on_engines_of(profile)
    assert found.latency == "toy"
    (line,) = found.lines()
    assert "toy" in line
    assert "the only one of these models" in line
    # its costs are those of the toys, not of the published pair
    target = fit_cost(profile.engines[profile.placement["target"]]).cost
    assert system_of(found.profile).costs["target"] == target != system_of(wanted).costs["target"]


def test_the_plan_says_so(
    wanted: Profile,
    profile: Profile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = folder_with(tmp_path / "own", profile)
    wanted.write(tmp_path / "wanted.json")
    options = ["plan", "-p", str(tmp_path / "wanted.json"), *FAST]
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    for more, expected in (
        ((), "toy"),
        (("--latency", "none"), None),
        (("--latency", str(folder / "toy.json")), "toy"),
    ):
        with pytest.raises(SystemExit) as left:
            main([*options, *more, "--json"])
        assert left.value.code in (0, None)
        plan = json.loads(capsys.readouterr().out)
        assert plan["latency"]["profile"] == expected
        assert any("published figures only" in one for one in plan["assumptions"]) == (expected is None)
    with pytest.raises(SystemExit):
        main(options)
    assert f"timings of latency profile toy ({profile.provenance.cpu}): the only one" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"judge": {"name": "Another"}}, "its judge is Another"),
        ({"target": {"n_parameters": 7}}, "its target has 7 parameters"),
        ({"draft": {"dtype": "bfloat16"}}, "its draft is in bfloat16, not in float32"),
    ],
)
def test_what_nearly_fits_is_not_used_and_named(
    wanted: Profile, profile: Profile, tmp_path: Path, change: dict[str, dict[str, object]], reason: str
) -> None:
    models = {role: model.model_copy(update=change.get(role, {})) for role, model in profile.models.items()}
    other = profile.model_copy(update={"models": models})
    found = timed(wanted, folder=folder_with(tmp_path, other))
    assert found.latency is None
    assert found.profile == wanted
    (line,) = found.lines()
    assert reason in line
    with pytest.raises(ParameterError, match=f"does not fit wanted: {reason}"):
        timed(wanted, latency=str(tmp_path / "toy.json"))


def test_other_models_are_not_mentioned(profile: Profile, tmp_path: Path) -> None:
    published = bundled("lr-deepseek-gsm8k")
    found = timed(published, folder=folder_with(tmp_path, profile))
    assert (found.profile, found.lines()) == (published, [])
    lonely = profile.model_copy(update={"models": {"target": profile.models["target"]}})
    assert difference(published, lonely) == "toy names no draft"


def test_two_that_fit_are_a_question(wanted: Profile, profile: Profile, tmp_path: Path) -> None:
    new, old = on_gpu(profile, "NVIDIA H200", "new"), on_gpu(profile, "NVIDIA A100-SXM4-80GB", "old")
    folder = folder_with(tmp_path, new, old)
    with pytest.raises(ParameterError, match=r"new\.json \(NVIDIA H200\); .*old\.json \(NVIDIA A100"):
        timed(wanted, folder=folder)
    assert timed(wanted, folder=folder, gpu="h200").latency == "new"
    assert timed(wanted, folder=folder, gpu="A100 80GB").latency == "old"
    folder_with(folder, new.model_copy(update={"name": "newer"}))
    with pytest.raises(ParameterError, match="does not decide"):
        timed(wanted, folder=folder, gpu="h200")
    (folder / "copy.json").write_bytes((folder / "new.json").read_bytes())
    assert len(latencies(folder)[0]) == 3  # a copy is no second candidate


def test_a_gpu_without_timings_is_refused(wanted: Profile, profile: Profile, tmp_path: Path) -> None:
    folder = folder_with(tmp_path, on_gpu(profile, "NVIDIA A100"))
    for latency in ("auto", "none"):
        with pytest.raises(ParameterError, match=r"no timings of .* on it, only on 8 x H100"):
            timed(wanted, latency=latency, folder=folder, gpu="H200")
    assert timed(wanted, folder=folder, gpu="H100").profile == wanted  # that is where it was published
    with pytest.raises(ParameterError, match="was measured on NVIDIA A100, not on gpu='H200'"):
        timed(wanted, latency=str(folder / "gpu.json"), gpu="H200")
    for nothing in ("", " - "):
        with pytest.raises(ParameterError, match="must name a GPU"):
            timed(wanted, gpu=nothing)


def test_a_profile_with_timings_of_its_own_keeps_them(wanted: Profile, profile: Profile, tmp_path: Path) -> None:
    mine = wanted.on_engines_of(on_gpu(profile, "NVIDIA L4"))
    folder = folder_with(tmp_path, on_gpu(profile, "NVIDIA H200"))
    assert timed(mine, folder=folder).latency is None
    assert timed(mine, folder=folder, gpu="H200").latency == "gpu"


def test_bad_files_are_named(
    wanted: Profile, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path, profile)
    (folder / "broken.json").write_text('{"source": "lat')
    (folder / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (folder / "plan.json").write_text('{"schema": "specplan.plan"}')
    (folder / "list.json").write_text("[1]")
    found = timed(wanted, folder=folder)
    assert found.latency == "toy"
    assert [line.rpartition("/")[2] for line in found.notes] == [
        f"{name}.json: cannot be read as JSON" for name in ("broken", "bytes")
    ]
    (folder / "bad.json").write_text('{"schema_version": 1, "source": "latency"}')
    with pytest.raises(SchemaError, match=r"bad\.json: .*required"):
        timed(wanted, folder=folder)
    with pytest.raises(ParameterError, match=r"latency-folder=.*must be a folder"):
        timed(wanted, folder=tmp_path / "none")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(ParameterError, match=f"{FOLDER_VARIABLE}=.*must be a folder"):
        timed(wanted)
    with pytest.raises(ParameterError, match="neither a file nor a bundled profile"):
        timed(wanted, latency="h300")


def test_the_bundled_profiles_are_looked_at_without_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    found, passed_over = latencies()
    assert passed_over == []
    assert all(one.source == "latency" and isinstance(one.models["target"], ModelRecord) for one in found.values())
