"""``specplan thresholds``: what it prints and exits with, and the speedups behind it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from measured_profiles import measured
from screens import Main, refusal

from calibrate.record.profile import Profile
from calibrate.thresholds.labelled_decisions import LabelledDecisions
from calibrate.thresholds.risk import Decisions
from sim.configuration import Configuration
from specplan.planning.threshold_speedup import closed_form_speedup, replayed_speedup
from theory import f_async


def pairs_file(path: Path, right: int = 400, wrong: int = 100) -> str:
    """Right pairs at .9, wrong ones at .2, each of its own answer."""
    rows = [(0.9, True)] * right + [(0.2, False)] * wrong
    text = (json.dumps({"score": s, "label": g, "answer": i}) for i, (s, g) in enumerate(rows))
    path.write_text("\n".join(text), encoding="utf-8")
    return str(path)


def scored(profile: Profile) -> Profile:
    """The profile with the scores .9 (accepted) and .4 (rejected) on its verdicts, and all of one meaning."""
    answers = []
    for answer in profile.answers:
        steps = []
        for step in answer.steps:
            update = {"score": 0.9 if step.verdict.accepted else 0.4, "same_meaning": step.verdict.accepted}
            steps.append(step.model_copy(update={"verdict": step.verdict.model_copy(update=update)}))
        answers.append(answer.model_copy(update={"steps": steps}))
    return profile.model_copy(update={"answers": answers})


def test_the_chosen_threshold_separates_right_from_wrong(tmp_path: Path, run_main: Main) -> None:
    code, out, err = run_main("thresholds", "--pairs", pairs_file(tmp_path / "p.jsonl"), "--c1", "0.2", "--json")
    found = json.loads(out)
    assert (code, err, found["schema"]) == (0, "", "specplan.thresholds")
    best = found["points"][found["chosen"]]
    assert 0.2 < best["row"]["threshold"] <= 0.9
    assert best["row"]["accepted"] == 0.8
    assert best["speedup"]["value"] == pytest.approx(float(f_async(0.8, 0.2, 4)))
    assert found["bound"]["sampling"] == "per-answer-mean"  # the pairs name their answers


@pytest.mark.parametrize(
    ("right", "wrong", "code", "text"), [(30, 8, 3, "labelled"), (0, 200, 1, "No number of labels")]
)
def test_exit_codes_tell_too_few_from_hopeless(
    tmp_path: Path, run_main: Main, right: int, wrong: int, code: int, text: str
) -> None:
    file = pairs_file(tmp_path / "p.jsonl", right, wrong)
    status, out, err = run_main("thresholds", "--pairs", file, "--c1", "0.2", "--sampling", "independent")
    assert (status, err) == (code, "")
    assert "No threshold is certified" in out
    assert text in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--profile must be given, or --pairs, and not both"),
        (("--pairs", "none.jsonl"), "none.jsonl: cannot be read as decisions"),
        (("--pairs", "P"), "--c1 must be given"),
        (("--pairs", "P", "--c1", "0.2", "--risk", "0"), "--risk=0.0 must be in (0, 1)"),
        (("--pairs", "P", "--c1", "0.2", "--bound", "accuracy"), "did you mean"),
        (("--pairs", "P", "--c1", "0.2", "--grid", "a,b"), "--grid='a,b' must be numbers in"),
        (("--pairs", "P", "--c1", "0.2", "--score", "cosin"), "did you mean 'cosine'?"),
        (("--profile", "lr-deepseek-gsm8k"), "holds no judged steps"),
    ],
)
def test_wrong_usage_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_main: Main, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs_file(tmp_path / "P")
    assert message in refusal(run_main, "thresholds", *arguments)


def test_a_profile_is_replayed_under_each_threshold(tmp_path: Path, run_main: Main) -> None:
    """Threshold .9 accepts every second step, .4 all of them, above .9 none: the speedups of those three profiles."""
    profile = scored(measured([True, False] * 12))
    speedup = replayed_speedup(profile, Configuration(method="lr-async", k1=4))
    low, recorded, high = speedup(0.4), speedup(0.9), speedup(0.95)
    assert low.value > recorded.value > high.value == pytest.approx(503 / 480, abs=0.01)  # one request, 24 steps
    assert low.value == pytest.approx(
        replayed_speedup(measured([True] * 24), Configuration(method="lr-async"))(0).value
    )
    path = tmp_path / "profile.json"
    profile.write(path)
    code, out, _ = run_main(
        "thresholds", "--profile", str(path), "--sampling", "independent", "--risk", "0.2", "--json"
    )
    found = json.loads(out)
    assert code == 0
    assert found["points"][found["chosen"]]["speedup"]["value"] == recorded.value


def test_the_closed_form_has_the_interval_of_the_acceptance() -> None:
    decisions = Decisions([0.9] * 50 + [0.1] * 50, [False] * 100)
    labelled = LabelledDecisions(decisions=decisions, clustered=False, n_unscored=0, n_unlabelled=0, source="")
    found = closed_form_speedup(labelled, c1=0.1, k1=3)(0.5)
    assert found.value == float(f_async(0.5, 0.1, 3))
    assert found.low < found.value < found.high
    assert closed_form_speedup(labelled, c1=0.1, k1=3)(0.95).value == 1.0
