"""A validation says with what it was run: everything in effect, in its text and in its JSON."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from screens import Main
from told_engines import RECORDED, Told, runs_are

from calibrate.models.asking import bundled_problems
from calibrate.record.journal import Journal
from calibrate.record.profile import Profile
from calibrate.running.interleaved import BASELINE, RealConfiguration, RealRun, Runs
from calibrate.running.problem import Problem
from calibrate.running.wall_clock import WallClock
from sim.timeline import Counts
from specplan.check.validating.run_record import as_lines, effective, of_questions


async def ran(
    clock: WallClock, problems: Sequence[Problem], methods: Mapping[str, RealConfiguration], **options: Any
) -> Runs:
    """Twice as fast as plain decoding, whatever it is."""
    runs = {
        name: [
            RealRun(problem=p.name, seconds=seconds + i / 100, counts=Counts(), correct=True, false_accepts=0)
            for i, p in enumerate(problems)
        ]
        for name, seconds in {BASELINE: 1.0, **dict.fromkeys(methods, 0.5)}.items()
    }
    return Runs(by_name=runs)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, run_main: Main) -> Callable[..., str]:
    """``specplan validate`` on a recorded profile whose engines only tell; returns what it printed."""
    runs_are(monkeypatch, "validation.run_interleaved", ran)

    def validate(*words: str) -> str:
        code, out, err = run_main("validate", "-p", str(RECORDED), "--k1", "2", "-n", "3", "--seed", "7", *words)
        assert (code, err) == (0, "")
        return out

    return validate


def test_json_and_the_text_have_every_parameter_in_effect(run: Callable[..., str]) -> None:
    below = ("--token", "prompt-lookup", "--k2", "3")
    told = json.loads(run("--json", *below))["effective"]
    profile = Profile.read(RECORDED)
    assert told["settings"].items() >= {**profile.settings, "max_steps": 64, "max_answer_tokens": 1600}.items()
    assert "{draft step}" in told["settings"]["judge_prompt"]
    assert [told["models"][role]["engine"] for role in ("target", "draft", "judge")] == ["target", "draft", "target"]
    draft = {**Told("draft", 1).describe(), "model": "folder/draft"}
    assert told["engines"]["draft"] == {name: value for name, value in draft.items() if name != "pid"}
    assert told["profile"]["engine_version"] == "2.13.0+cpu"
    assert {"python", "os", "n_cores", "specplan"} <= told["machine"].keys()
    asked = {"n": 3, "order_seed": 7, "confidence": 0.95, "source": "bundled task, fresh questions of seed 7"}
    assert told["questions"].items() >= asked.items()
    (name, method), *others = told["methods"].items()
    assert (name, others) == ("lr-async k1=2 + prompt-lookup k2=3", [])
    assert {"method": "lr-async", "k1": 2, "k2": 3, "rules": "paper", "width": 1}.items() <= method.items()
    assert (method["token"], method["token_knobs"]["k2"]) == ("prompt-lookup", 3)
    assert [method["speculation"]["target"][knob] for knob in ("method", "k2", "max_ngram")] == ["ngram", 3, 1]
    first, _, rest = run("-v", *below).partition("Run with\n========\n\n")
    assert "lr-async k1=2" in first
    lines = " ".join(rest.split("\n\n")[0].split())
    assert sorted(lines.split()) == sorted(word for line in as_lines(told) for word in line.split())  # JSON is sorted
    for words in ("temperature=0.6", "versions.torch=9.9.0", "cores=[1]", " n=3 ", "method=lr-async k1=2 k2=3 "):
        assert words in lines


def test_fresh_questions_are_known_by_what_they_ask() -> None:
    first, second = (bundled_problems(2, seed, "validation") for seed in (1, 2))
    told = [of_questions(problems, "f.jsonl", 0, 0.95)["sha256"] for problems in (first, first, second)]
    assert told[0] == told[1] != told[2]


def test_what_is_unset_is_left_out_and_text_is_quoted() -> None:
    part = {"a": None, "b": 0, "c": False, "d": "two words", "e": {"f": 1.5}, "g": [], "h": "x=1"}
    run = {"one": part, "many": {"x": {"k": 1}, "y": {"k": 2}}}
    assert as_lines(run) == ['one: b=0 c=false d="two words" e.f=1.5 h="x=1"', "many x: k=1", "many y: k=2"]
    assert effective(one={"path": Path("p")})["one"] == {"path": "p"}


def test_what_is_broken_off_can_go_on_and_only_that(
    monkeypatch: pytest.MonkeyPatch, run_main: Main, tmp_path: Path
) -> None:
    """Ctrl-C after a first run; then other settings, which are refused, and the same, which take up the journal."""
    output, seen = tmp_path / "result.txt", []

    async def interrupted(clock: Any, problems: Any, methods: Any, *, journal: Journal, **options: Any) -> Runs:
        seen.append(len(journal))
        journal.add(f"{len(journal)} run", {})
        if len(journal) == 1:
            raise KeyboardInterrupt
        return await ran(clock, problems, methods)

    runs_are(monkeypatch, "validation.run_interleaved", interrupted)
    words = ("validate", "-p", str(RECORDED), "-n", "3", "-o", str(output))
    code, _, said = run_main(*words, "--k1", "2")
    assert code == 130
    assert f"interrupted; what is finished is kept in {output}.part: the same command goes on from there" in said
    code, _, said = run_main(*words, "--k1", "3")
    assert code == 2
    assert "with other settings (runs) is in progress there" in said
    assert not output.exists()
    assert run_main(*words, "--k1", "2") == (0, "", "")
    assert seen == [0, 1]
    assert "lr-async k1=2" in output.read_text()
    assert not output.with_name("result.txt.part").exists()
