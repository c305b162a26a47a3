"""Profiles survive a round trip, and what does not fit is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calibrate.record.files import write_atomically
from calibrate.record.profile import Profile
from theory.errors import SchemaError


def minimal() -> dict[str, Any]:
    generated = {"tokens": 5, "seconds": 0.1}
    step = {
        "draft": generated,
        "target": {**generated, "final": True},
        "verdict": {"accepted": False, "seconds": 0.01, "prompt_tokens": 9},
    }
    return {
        "schema_version": 1,
        "name": "tiny",
        "source": "measured",
        "provenance": {"created": "2026-01-01"},
        "models": {"target": {"name": "t"}},
        "placement": {"target": "a", "draft": "b", "judge": "a"},
        "engines": {
            name: {
                "device": name,
                "decode": [{"batch": 1, "context": 8, "seconds": 0.01}],
                "prefill": [{"tokens": 4, "seconds": 0.01}],
                "request_s": [0.001],
            }
            for name in "ab"
        },
        "answers": [{"problem": "p", "prompt_tokens": 7, "steps": [step], "baseline": [generated]}],
    }


def test_round_trip(tmp_path: Path) -> None:
    profile = Profile.parse(json.dumps(minimal()))
    profile.write(tmp_path / "p.json")
    assert Profile.read(tmp_path / "p.json") == profile
    assert profile.to_json() == Profile.parse(profile.to_json()).to_json()


def broken(path: str, value: Any) -> dict[str, Any]:
    data = minimal()
    *parents, last = path.split("/")
    place: Any = data
    for part in parents:
        place = place[int(part)] if part.isdigit() else place[part]
    place[last] = value
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (broken("schema_version", 2), r"schema_version=2 must be 1"),
        (broken("answers/0/steps/0/draft/tokens", 0), r"answers\[0\].steps\[0\].draft.tokens: .*got '0'"),
        (broken("answers/0/steps/0/draft/seconds", -1.0), r"answers\[0\].steps\[0\].draft.seconds"),
        (broken("engines/a/decode/0/seconds", float("nan")), r"engines.a.decode\[0\].seconds"),
        (broken("engines/a/decode/0/seconds", float("inf")), r"engines.a.decode\[0\].seconds"),
        (broken("engines/a/unknown", 1), r"engines.a.unknown: extra inputs"),
        (broken("placement", {"target": "a"}), r"placement.draft must name one of the engines \['a', 'b'\]"),
        (broken("answers", []), r"at least one answer"),
        (broken("source", "published"), r"needs the section 'published'"),
        ([1, 2], r"schema_version=None"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(tmp_path: Path, data: Any, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(SchemaError, match=message) as caught:
        Profile.read(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "empty file"), (b"{", "not JSON: .* line 1"), (b"\xff\xfe\x00", "not UTF-8 text")],
)
def test_unreadable_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(SchemaError, match=message):
        Profile.read(path)
    with pytest.raises(SchemaError, match="cannot be read as a profile"):
        Profile.read(tmp_path)
    with pytest.raises(SchemaError, match="No such file"):
        Profile.read(tmp_path / "absent.json")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    write_atomically(path, "old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["p.json"]
