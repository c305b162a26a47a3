"""What a first-time user met: files lost, internal errors, silence, endless runs, names that nobody typed.

Each line is typed as it was then. `test_hostile_inputs` and `test_hostile_lines` search the classes that they are of.
"""

import json
import os
import stat
from pathlib import Path

import pytest
from hostile_worlds import World, complaints, hostile_world, run

from calibrate.record.library import bundled

SIMULATE = "simulate -p profile.json -n 2"
PAIRS = "thresholds --pairs pairs.jsonl --c1 0.1"
OPENAI = "calibrate openai --prompts bundled -n 2 --patience 0 -o out.json"
NOBODY = "--target http://127.0.0.1:1 --draft http://127.0.0.1:1"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A folder with good and hostile files."""
    made = hostile_world(tmp_path, monkeypatch)
    profile = bundled("lr-deepseek-gsm8k").to_json()
    (tmp_path / "bom.json").write_text("\ufeff" + profile, encoding="utf-8")
    return made


REFUSED = {
    # lost or damaged
    "profile schema -o device --force": "--output='device' is a device",
    "validate -p profile.json --timeline x.bmp": "--timeline='x.bmp' must end in",
    f"{SIMULATE} --timeline same.json -o same.json": "--timeline",
    "plan -p profile.json -o profile.json --force": "--profile",
    "profile show profile.json -o profile.json --force": "PROFILE",
    "reproduce hardware tables -o tables/one.csv --force": "FOLDER",
    "profile schema -o fifo --force": "--output='fifo' is a device, a pipe",
    "profile schema -o prompts.jsonl": "--output='prompts.jsonl' exists",
    "validate -p profile.json --prompts prompts.jsonl -o link-to-input --force": "--prompts",
    f"{PAIRS} -o pairs.jsonl --force": "--pairs",
    "validate -p profile.json --prompts prompts.jsonl -o prompts.jsonl --force": "--prompts",
    # internal errors
    "profile check deep.json": "nested too deep",
    "acceptance deep.json": "",
    "acceptance deep-yaml.yaml": "",
    f"{SIMULATE} --set verifier=embedding": "verifier=embedding",
    "plan -p half-name.json": "half of a surrogate pair",
    f"calibrate openai --prompts half.json -o out.json -n 2 {NOBODY}": "half of a surrogate pair",
    # accepted or ignored in silence
    f"{SIMULATE} --corruption nan": "--corruption=nan must be a number in [0, 1]",
    "profile check alpha1-2.json": "alpha1",
    f"{SIMULATE} --timeline t.png --answer 2": "--answer=2",
    f"{SIMULATE} --set k1=0": "--k1=0 must",
    f"{SIMULATE} --token prompt-lookup --k2 999": "k2=999",
    f"{SIMULATE} --timeline t.png --until 1e-300": "--until=1e-300 must be",
    "profile check twice.json": "a key comes twice in one object: 'name'",
    "profile check version-true.json": "schema_version=True must be 1",
    f'{OPENAI} {NOBODY} --speculative http://127.0.0.1:1 {{"method":"ngram","method":"ngram"}}': "a key comes twice",
    f"{PAIRS} --label correct": "--label",
    f"{PAIRS} --method lr-sync": "--method",
    "acceptance dynamic.json --from vllm-dynamic --max-batch 0": "--max-batch=0 must be",
    "acceptance dynamic.json --from vllm-dynamic --max-batch 3": "--max-batch",
    "methods lr-async --gaps": "--gaps",
    # slow or endless
    "profile diff profile.json profile.json --confidence nan": "--confidence=nan must be",
    "profile diff profile.json profile.json --confidence 1": "--confidence=1.0 must be",
    "plan -p /dev/zero": "it is a device: give a regular file",
    f"{PAIRS.replace('pairs.jsonl', 'fifo')}": "it is a pipe",
    "profile check sparse.json": "larger than",
    # messages
    f"{PAIRS} --gate --gate-cost -1 --judge-cost 2": "--gate-cost=-1.0 must",
    "plan -p ": "--profile='' must not be empty",
}
"""Lines that must fail, and what their one line of an error must say."""


@pytest.mark.parametrize("line", REFUSED)
def test_it_is_refused_in_one_line_that_names_what_was_typed(world: World, line: str) -> None:
    words = line.split(" ")
    before = world.state()
    code, out, err = run(words)
    assert (code, out) == (2, ""), err
    assert err.count("\n") == 1
    assert err.startswith("specplan: error: ")
    assert REFUSED[line] in err
    assert "internal" not in err
    assert world.state() == before


def test_a_device_stays_one_and_a_link_is_followed(world: World) -> None:
    assert run(["profile", "schema", "-o", "/dev/null", "--force"])[0] == 2
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    (world.folder / "link").symlink_to("kept.json")
    (world.folder / "kept.json").write_text("old", encoding="utf-8")
    (world.folder / "kept.json").chmod(0o664)
    assert run(["profile", "schema", "-o", "link", "--force"])[0] == 0
    assert (world.folder / "link").is_symlink()
    assert json.loads((world.folder / "kept.json").read_text(encoding="utf-8"))["title"] == "Profile"
    assert (world.folder / "kept.json").stat().st_mode & 0o777 == 0o664
    before = os.umask(0o027)
    try:
        assert run(["profile", "schema", "-o", "new.json"])[0] == 0
    finally:
        os.umask(before)
    assert (world.folder / "new.json").stat().st_mode & 0o777 == 0o640
    assert run([*SIMULATE.split(), "--timeline", "picture.png"])[0] == 0
    assert (world.folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert not list(world.folder.glob(".specplan*"))


@pytest.mark.parametrize(
    ("wrong", "corrected"),
    [
        (f"{OPENAI} --target http://127.0.0.1:2 --draft http://127.0.0.1:1", f"{OPENAI} {NOBODY}"),
        ("calibrate torch -n 2 --device bogus -o out.json", "calibrate torch -n 2 --device hugo -o out.json"),
    ],
)
def test_a_calibration_that_never_began_is_in_nobodys_way(world: World, wrong: str, corrected: str) -> None:
    before = world.state()
    for line in (wrong, corrected):
        code, _, err = run(line.split(" "))
        assert code in (1, 2), err
        assert "other settings" not in err
    assert world.state() == before


def test_a_byte_order_mark_is_passed_over(world: World) -> None:
    assert run(["profile", "check", "bom.json"])[0] == 0


def test_names_are_shown_short_and_in_one_line(world: World) -> None:
    for name in ("long-name.json", "forged.json"):
        for command in (["profile", "check"], ["profile", "show"], ["plan", "-n", "2", "--k1-max", "1", "-p"]):
            code, out, err = run([*command, name])
            assert "\x1b" not in out + err
            assert "n" * 1000 not in out + err
            assert not any(line.startswith("Use LR") for line in (out + err).splitlines())
            assert code in (0, 2)
    long = "y" * 5000
    for words in (["plan", "-p", long], ["plan", "-p", "profile.json", "--methods", long], ["profile", "show", long]):
        assert not complaints(world, words)
        assert len(run(words)[2]) < 2000


def test_no_error_shows_the_name_of_a_temporary_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("calibrate.record.files.os.fsync", full)
    code, _, err = run(["profile", "schema", "-o", "new.json"])
    assert (code, err) == (1, "specplan: error: new.json: No space left on device\n")
    assert not (world.folder / "new.json").exists()
