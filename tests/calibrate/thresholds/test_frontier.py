"""LabelledDecisions from files and profiles, the choice among certified thresholds, and the gate of a cascade."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calibrate.record.answer_records import Generated, RecordedAnswer, StepRecord, VerdictRecord
from calibrate.record.library import bundled
from calibrate.thresholds.frontier import cascade, frontier
from calibrate.thresholds.labelled_decisions import (
    LabelledDecisions,
    check_scores,
    decisions_of_profile,
    default_grid,
    read_decisions,
    rejudged,
)
from calibrate.thresholds.risk import Bound, Decisions
from sim.estimate import Estimate
from theory.errors import ParameterError, SchemaError


def lines(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def step(score: float | None, accepted: bool, *, draft_final: bool = False, target_final: bool = False) -> StepRecord:
    return StepRecord(
        draft=Generated(tokens=3, seconds=0.1, final=draft_final, correct=score != 0.4),
        target=Generated(tokens=4, seconds=0.4, final=target_final),
        verdict=VerdictRecord(accepted=accepted, score=score, seconds=0.0, prompt_tokens=9, same_meaning=score != 0.3),
    )


def answer(*steps: StepRecord, name: str = "q") -> RecordedAnswer:
    baseline = [Generated(tokens=4, seconds=0.4, final=True)]
    return RecordedAnswer(problem=name, prompt_tokens=5, steps=list(steps), baseline=baseline)


# labelled decisions


def test_pairs_are_read_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "p.jsonl",
        {"score": 0.9, "label": True, "answer": "a", "text": "ignored"},
        {"score": 1, "label": False, "answer": "a"},
        "",
        {"score": None, "label": True, "answer": "b"},
        {"score": 0.1, "label": None, "answer": 7},
    )
    labelled = read_decisions(file)
    assert labelled.decisions.scores.tolist() == [0.9, 1.0]
    assert labelled.decisions.wrong.tolist() == [False, True]
    assert (labelled.n_unscored, labelled.n_unlabelled, labelled.clustered, labelled.decisions.n_answers) == (
        1,
        1,
        True,
        1,
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", r":1: not JSON"),
        ([1], r":1: must be an object"),
        ({"score": 0.5}, r":1: label: missing"),
        ({"score": "0.5", "label": True}, r":1: score: must be a finite number or null, got '0.5'"),
        ({"score": True, "label": True}, r":1: score: must be a finite number"),
        ('{"score": NaN, "label": true}', r":1: score: must be a finite number"),
        ({"score": 0.5, "label": 1}, r":1: label: must be true, false or null, got 1"),
        ({"score": 0.5, "label": True, "answer": [1]}, r":1: answer: must be a name"),
        ({"score": 0.5, "label": None}, r"no decision has both"),
    ],
)
def test_bad_lines_are_refused_with_their_place(tmp_path: Path, row: object, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read_decisions(lines(tmp_path / "p.jsonl", row))


def test_answers_are_named_in_all_lines_or_none(tmp_path: Path) -> None:
    file = lines(tmp_path / "p.jsonl", {"score": 1, "label": True, "answer": "a"}, {"score": 1, "label": True})
    with pytest.raises(SchemaError, match=r":2: answer: missing, but other lines name one"):
        read_decisions(file)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="No such file"):
        read_decisions(tmp_path / "none.jsonl")


def test_a_gate_errs_where_it_keeps_what_the_judge_would_not(tmp_path: Path) -> None:
    rows = [(0.9, True), (0.9, False), (0.2, True), (0.2, False)]
    file = lines(tmp_path / "g.jsonl", *({"gate": p, "judge": judge} for p, judge in rows))
    labelled = read_decisions(file, gate=True)
    assert labelled.decisions.scores.tolist() == [0.9, 0.9, 0.8, 0.8]
    assert labelled.decisions.wrong.tolist() == [False, True, True, False]
    with pytest.raises(SchemaError, match="gate: must be a probability"):
        read_decisions(lines(tmp_path / "h.jsonl", {"gate": 1.5, "judge": True}), gate=True)


def test_pairs_of_a_profile_carry_the_answer_and_the_chosen_truth() -> None:
    profile = bundled("lr-deepseek-gsm8k").model_copy(
        update={"answers": [answer(step(0.3, True), step(0.4, True), name="a"), answer(step(None, True), name="b")]}
    )
    same = decisions_of_profile(profile)
    assert (same.decisions.wrong.tolist(), same.n_unscored) == ([True, False], 1)
    assert decisions_of_profile(profile, "correct").decisions.wrong.tolist() == [False, True]
    with pytest.raises(SchemaError, match="no judged steps"):
        decisions_of_profile(bundled("lr-deepseek-gsm8k"))


def test_grids_span_their_scores_and_others_are_refused() -> None:
    assert default_grid("0-9").tolist() == list(range(10))
    assert default_grid("probability").min() == 0.0
    assert default_grid("confidence").min() == 0.5
    assert (default_grid("cosine").min(), default_grid("cosine").max()) == (-1.0, 1.0)
    labelled = LabelledDecisions(
        decisions=Decisions([7.0], [True]), clustered=False, n_unscored=0, n_unlabelled=0, source=""
    )
    check_scores(labelled, "0-9")
    with pytest.raises(ParameterError, match=r"holds the score 7, outside \[0, 1\]"):
        check_scores(labelled, "probability")


def test_rejudged_answers_end_where_a_committed_step_ends_them() -> None:
    recorded = answer(step(0.9, True), step(0.6, False, draft_final=True), step(None, False, target_final=True))
    low, high = rejudged([recorded], 0.5)[0], rejudged([recorded], 0.95)[0]
    assert [s.verdict.accepted for s in low.steps] == [True, True]  # the accepted draft ends the answer
    assert [s.verdict.accepted for s in high.steps] == [False, False, False]  # without a score: as recorded
    assert recorded.steps[1].verdict.accepted is False  # the record itself is not changed
    assert rejudged([recorded], 0.7)[0].steps == recorded.steps


# the choice


def steps_down(n: int) -> Decisions:
    """Half at score .9 and right, a quarter at .6 with 4 % wrong, a quarter at .3 with half of them wrong."""
    quarter = n // 4
    scores = np.repeat([0.9, 0.6, 0.3], [2 * quarter, quarter, quarter])
    wrong = np.zeros(scores.size, dtype=bool)
    wrong[2 * quarter : 2 * quarter + quarter // 25] = True
    wrong[3 * quarter : 3 * quarter + quarter // 2] = True
    return Decisions(scores, wrong)


def exact(value: float) -> Estimate:
    return Estimate(value=value, stderr=0.0, low=value, high=value, n=0)


def faster_when_lower(threshold: float) -> Estimate:
    return exact(2.0 - threshold)


def test_the_fastest_certified_threshold_is_chosen() -> None:
    found = frontier(steps_down(4000), [0.9, 0.6, 0.3], Bound(level=0.05), faster_when_lower)
    assert [p.row.status for p in found.points] == ["certified", "certified", "failed"]
    assert found.best.row.threshold == 0.6
    assert found.verdict.startswith("Accept scores >= 0.6: P(wrong | accepted) <= 0.05 with 95 % confidence")
    assert "No number of labels would certify threshold 0.3" in found.advice
    assert found.labels_needed is None


def test_of_equally_fast_thresholds_the_safest_is_chosen() -> None:
    found = frontier(steps_down(4000), [0.9, 0.6, 0.3], Bound(level=0.05), lambda threshold: exact(1.5))
    assert found.best.row.threshold == 0.9


@pytest.mark.parametrize(
    ("scored", "grid", "needed", "said"),
    [
        # A walk of half of 5 % needs 72 accepted without an error; half of the labels are accepted, so 144 labels.
        (([0.9] * 30 + [0.1] * 30, [False] * 60), [0.9], 144, "about 144 labelled decisions"),
        (([0.9] * 500, [True] * 500), [0.9], None, "No number of labels would certify"),
        (([0.9] * 6, [True] * 6), [0.95, 0.5], None, "would certify a threshold: the lowest observed risk, 1,"),
        (([0.1] * 6, [True] * 6), [0.95], None, "No threshold accepts anything: nothing can be certified."),
    ],
    ids=["few labels", "hopeless", "errors", "nothing accepted"],
)
def test_what_is_not_certified_says_what_would_help(
    scored: tuple[list[float], list[bool]], grid: list[float], needed: int | None, said: str
) -> None:
    found = frontier(Decisions(*scored), grid, Bound(level=0.05), faster_when_lower)
    assert (found.chosen, found.labels_needed) == (None, needed)
    assert "No threshold is certified" in found.verdict
    assert said in found.advice


def test_as_many_labels_as_were_said_to_be_needed_certify() -> None:
    more = Decisions([0.9] * 72 + [0.1] * 72, [False] * 144)
    assert frontier(more, [0.9], Bound(level=0.05), faster_when_lower).chosen == 0


def test_a_slow_choice_is_called_slow() -> None:
    found = frontier(steps_down(4000), [0.9], Bound(level=0.05), lambda threshold: exact(0.9))
    assert found.verdict.endswith("slower than plain decoding.")
    every = frontier(Decisions([0.9] * 500, [False] * 500), [0.9, 0.0], Bound(level=0.05), faster_when_lower)
    assert every.advice.startswith("Every threshold is certified")


# the gate


def gate_decisions(folder: Path, probabilities: list[float], judged: list[bool]) -> Decisions:
    rows = ({"gate": p, "judge": judge} for p, judge in zip(probabilities, judged, strict=True))
    return read_decisions(lines(folder / "gate.jsonl", *rows), gate=True).decisions


def test_the_cheapest_certified_gamma_is_chosen(tmp_path: Path) -> None:
    """900 decisions at confidence .9, all as the judge's; 300 at .6, a third of them not."""
    probabilities = [0.9] * 450 + [0.1] * 450 + [0.6] * 300
    judged = [True] * 450 + [False] * 450 + [True] * 200 + [False] * 100
    found = cascade(
        gate_decisions(tmp_path, probabilities, judged),
        Bound(level=0.05, risk="accepted-and-wrong"),
        gate_cost=1.0,
        judge_cost=5.0,
        grid=[0.5, 0.8, 0.95],
    )
    assert [row.accepted for row in found.rows] == [0.0, 0.75, 1.0]
    assert found.costs == (6.0, 2.25, 1.0)
    assert found.chosen == 1
    assert found.break_even == pytest.approx(0.8)
    assert "keeps 75 % of the decisions, costs 2.25 per step against 5" in found.verdict


def test_a_dear_gate_is_told_to_stay_away(tmp_path: Path) -> None:
    decisions = gate_decisions(tmp_path, [0.9] * 300, [True] * 300)
    found = cascade(decisions, Bound(level=0.05, risk="accepted-and-wrong"), gate_cost=6.0, judge_cost=5.0)
    assert found.verdict.startswith("The judge without a gate is cheaper")


def test_a_gate_that_disagrees_is_not_certified(tmp_path: Path) -> None:
    decisions = gate_decisions(tmp_path, [0.9] * 300, [False] * 300)
    found = cascade(decisions, Bound(level=0.05), gate_cost=1.0, judge_cost=5.0)
    assert found.chosen is None
    assert "leave every decision to the judge" in found.verdict
