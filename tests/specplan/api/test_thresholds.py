"""`specplan.thresholds`: what it chooses, what the command prints and exits with, and the speedups behind it."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from measured_profiles import measured
from refusals import refuses
from screens import Main, check_printed, check_screen, refusal, refused_words

import specplan as sp
from calibrate.record.profile import Profile
from calibrate.thresholds.labelled_decisions import LabelledDecisions
from calibrate.thresholds.risk import Decisions
from sim.configuration import Configuration
from specplan.api.thresholds import closed_form_speedup, replayed_speedup
from specplan.output import SCREEN
from theory import f_async

Rows = list[dict[str, Any]]


def drawn(n: int = 1200) -> Rows:
    """Decisions that are the likelier right the higher their score, six to an answer."""
    draws = random.Random(1)
    scores = [draws.random() ** 0.4 for _ in range(n)]
    return [
        {"score": s, "label": draws.random() < max(s**0.35, 0.995 * (s > 0.97)), "answer": i // 6}
        for i, s in enumerate(scores)
    ]


def separated(right: int = 400, wrong: int = 100) -> Rows:
    """Right pairs at .9, wrong ones at .2, each of its own answer."""
    rows = [(0.9, True)] * right + [(0.2, False)] * wrong
    return [{"score": s, "label": yes, "answer": i} for i, (s, yes) in enumerate(rows)]


def judged(n: int = 1200) -> Rows:
    """What a gate says, and a judge that agrees the likelier the surer the gate is."""
    draws = random.Random(1)
    return [{"gate": p, "judge": draws.random() < p} for p in (draws.random() ** 0.3 for _ in range(n))]


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


@pytest.mark.parametrize(
    ("pairs", "options", "code", "said"),
    [
        (drawn(), {"risk": 0.2}, 0, "CHOSEN"),
        (separated(30, 8), {"sampling": "independent"}, 3, "labelled"),
        (separated(0, 200), {"sampling": "independent"}, 1, "No number of labels"),
    ],
    ids=["certified", "too few labels", "hopeless"],
)
def test_thresholds_are_what_the_command_prints_and_its_exit_code_says_whether_more_labels_would_do(
    tmp_path: Path, run_main: Main, pairs: Rows, options: dict[str, Any], code: int, said: str
) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text("\n".join(map(json.dumps, pairs)), encoding="utf-8")
    found = sp.thresholds(pairs=file, c1=0.2, **options)
    typed = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    check_printed(run_main, ("thresholds", "--pairs", str(file), "--c1", "0.2", *typed), found, code=code)
    assert sp.thresholds(pairs=pairs, c1=0.2, **options).headline() == found.headline()
    assert said in " ".join(found.text().split())
    assert ("No threshold is certified" in found.text()) == (code > 0)


def test_a_risk_that_no_threshold_has_is_named_as_it_was_typed(tmp_path: Path, run_main: Main) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text(json.dumps(drawn(1)[0]), encoding="utf-8")
    said = refusal(run_main, "thresholds", "--pairs", str(file), "--c1", "0.2", "--risk", "0")
    assert "--risk=0.0 must be in (0, 1)" in said


def test_the_chosen_threshold_separates_right_from_wrong() -> None:
    found = sp.thresholds(pairs=separated(), c1=0.2).plain()
    best = found["points"][found["chosen"]]
    assert found["schema"] == "specplan.thresholds"
    assert 0.2 < best["row"]["threshold"] <= 0.9
    assert best["row"]["accepted"] == 0.8
    assert best["speedup"]["value"] == pytest.approx(float(f_async(0.8, 0.2, 4)))
    assert found["bound"]["sampling"] == "per-answer-mean"  # the pairs name their answers


@pytest.mark.parametrize(("risk", "status"), [(0.05, "failed"), (0.0001, "too few")])
def test_a_first_screen_answers_and_fits_80_columns(risk: float, status: str) -> None:
    found = sp.thresholds(pairs=drawn(), c1=0.2, risk=risk)
    assert "-v" in check_screen(found, most=30)[-1]
    chosen = [row["threshold"] for row in found.records() if row["chosen"]]
    assert chosen == ([] if found.threshold is None else [found.threshold])
    assert found.text().count("CHOSEN") == len(chosen)
    assert status in found.text()


def test_a_gate_is_told_by_its_costs() -> None:
    found = sp.thresholds(
        pairs=judged(), gate=True, gate_cost=8.7, judge_cost=45.9, bound="accepted-and-wrong", risk=0.1
    )
    chosen = next(row for row in found.records() if row["chosen"])
    assert chosen["cost"] == pytest.approx(8.7 + (1 - chosen["accepted"]) * 45.9)
    assert max(map(len, found.text().splitlines())) <= SCREEN
    assert found.plain()["schema"] == "specplan.gate"


def test_a_profile_is_replayed_under_each_threshold(tmp_path: Path, run_main: Main) -> None:
    """Threshold .9 accepts every second step, .4 all of them, above .9 none: the speedups of those three profiles."""
    profile = scored(measured([True, False] * 12))
    speedup = replayed_speedup(profile, Configuration(method="lr-async", k1=4))
    low, recorded, high = speedup(0.4), speedup(0.9), speedup(0.95)
    assert low.value > recorded.value > high.value == pytest.approx(503 / 480, abs=0.01)  # one request, 24 steps
    every = replayed_speedup(measured([True] * 24), Configuration(method="lr-async"))(0)
    assert low.value == pytest.approx(every.value)
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


test_bad_arguments_are_refused = refuses(
    sp.thresholds,
    ({}, "profile=None must be given, or pairs"),
    ({"pairs": drawn(12)}, "c1=None must be given"),
    ({"pairs": drawn(12), "c1": 0.2, "gate_cost": 1.0}, "gate_cost=1.0 is for a gate only"),
    ({"pairs": drawn(12), "c1": 0.2, "bound": "accuracy"}, "did you mean"),
    ({"pairs": drawn(12), "c1": 0.2, "score": "cosin"}, "did you mean 'cosine'"),
    ({"pairs": judged(12), "gate": True, "gate_cost": 1.0}, "judge_cost=None must be given"),
    ({"of": measured([True] * 4), "k1": 1}, "k1=1 must be at least 2"),
    ({"of": measured([True] * 4), "gate": True}, "pairs=None must be given"),
)

test_wrong_usage_is_one_line = refused_words(
    "thresholds",
    ("", "--profile must be given, or --pairs, and not both"),
    ("--pairs none.jsonl", "none.jsonl: cannot be read as decisions"),
    ("--pairs P --c1 0.2 --grid a,b", "--grid='a,b' must be numbers in"),
    ("--profile lr-deepseek-gsm8k", "holds no judged steps"),
)
