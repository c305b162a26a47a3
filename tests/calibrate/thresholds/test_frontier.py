"""LabelledDecisions from files and profiles, the choice among certified thresholds, and the gate of a cascade."""

import json
from pathlib import Path

import numpy as np
import pytest
from measured_profiles import answer_of

from calibrate.record.answer_records import Generated, StepRecord, VerdictRecord
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


def test_pairs_are_read_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    rows = [
        {"score": 0.9, "label": True, "answer": "a", "text": "ignored"},
        {"score": 1, "label": False, "answer": "a"},
        "",
        {"score": None, "label": True, "answer": "b"},
        {"score": 0.1, "label": None, "answer": 7},
    ]
    labelled = read_decisions(lines(tmp_path / "p.jsonl", *rows))
    assert labelled.decisions.scores.tolist() == [0.9, 1.0]
    assert labelled.decisions.wrong.tolist() == [False, True]
    assert (labelled.n_unscored, labelled.n_unlabelled) == (1, 1)
    assert (labelled.clustered, labelled.decisions.n_answers) == (True, 1)


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
        ('{"score": 1, "label": true, "answer": "a"}\n{"score": 1, "label": true}', r":2: answer: missing, but other"),
    ],
)
def test_bad_lines_are_refused_with_their_place(tmp_path: Path, row: object, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read_decisions(lines(tmp_path / "p.jsonl", row))


def test_a_gate_errs_where_it_keeps_what_the_judge_would_not() -> None:
    rows = [(0.9, True), (0.9, False), (0.2, True), (0.2, False)]
    decisions = read_decisions([{"gate": p, "judge": judge} for p, judge in rows], gate=True).decisions
    assert decisions.scores.tolist() == [0.9, 0.9, 0.8, 0.8]
    assert decisions.wrong.tolist() == [False, True, True, False]
    with pytest.raises(SchemaError, match="gate: must be a probability"):
        read_decisions([{"gate": 1.5, "judge": True}], gate=True)


def test_pairs_of_a_profile_carry_the_answer_and_the_chosen_truth() -> None:
    published = bundled("lr-deepseek-gsm8k")
    answers = [answer_of(step(0.3, True), step(0.4, True), problem="a"), answer_of(step(None, True), problem="b")]
    profile = published.model_copy(update={"answers": answers})
    same = decisions_of_profile(profile)
    assert (same.decisions.wrong.tolist(), same.n_unscored) == ([True, False], 1)
    assert decisions_of_profile(profile, "correct").decisions.wrong.tolist() == [False, True]
    with pytest.raises(SchemaError, match="no judged steps"):
        decisions_of_profile(published)


def test_grids_span_their_scores_and_others_are_refused() -> None:
    assert default_grid("0-9").tolist() == list(range(10))
    assert default_grid("probability").min() == 0.0
    assert default_grid("confidence").min() == 0.5
    assert (default_grid("cosine").min(), default_grid("cosine").max()) == (-1.0, 1.0)
    seven = Decisions([7.0], [True])
    labelled = LabelledDecisions(decisions=seven, clustered=False, n_unscored=0, n_unlabelled=0, source="")
    check_scores(labelled, "0-9")
    with pytest.raises(ParameterError, match=r"holds the score 7, outside \[0, 1\]"):
        check_scores(labelled, "probability")


def test_rejudged_answers_end_where_a_committed_step_ends_them() -> None:
    recorded = answer_of(step(0.9, True), step(0.6, False, draft_final=True), step(None, False, target_final=True))
    low, high = rejudged([recorded], 0.5)[0], rejudged([recorded], 0.95)[0]
    assert [s.verdict.accepted for s in low.steps] == [True, True]  # the accepted draft ends the answer
    assert [s.verdict.accepted for s in high.steps] == [False, False, False]  # without a score: as recorded
    assert rejudged([recorded], 0.7)[0].steps == recorded.steps


def speedup(threshold: float, slope: float = -1.0) -> Estimate:
    value = 2.0 + slope * threshold
    return Estimate(value=value, stderr=0.0, low=value, high=value, n=0)


def test_the_fastest_certified_threshold_is_chosen_and_the_safest_of_equals() -> None:
    """Half at score .9 and right, a quarter at .6 with 4 % wrong, a quarter at .3 with half of them wrong."""
    wrong = np.zeros(4000, dtype=bool)
    wrong[2000:2040] = wrong[3000:3500] = True
    decisions, bound = Decisions(np.repeat([0.9, 0.6, 0.3], [2000, 1000, 1000]), wrong), Bound(level=0.05)
    found = frontier(decisions, [0.9, 0.6, 0.3], bound, speedup)
    assert [p.row.status for p in found.points] == ["certified", "certified", "failed"]
    assert (found.chosen, found.points[1].row.threshold) == (1, 0.6)
    assert found.verdict.startswith("Accept scores >= 0.6: P(wrong | accepted) <= 0.05 with 95 % confidence")
    assert "No number of labels would certify threshold 0.3" in found.advice
    assert found.labels_needed is None
    assert frontier(decisions, [0.9, 0.6, 0.3], bound, lambda threshold: speedup(0.5)).chosen == 0
    assert frontier(decisions, [0.9], bound, lambda t: speedup(1.1)).verdict.endswith("slower than plain decoding.")
    every = frontier(Decisions([0.9] * 500, [False] * 500), [0.9, 0.0], bound, speedup)
    assert every.advice.startswith("Every threshold is certified")


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
    found = frontier(Decisions(*scored), grid, Bound(level=0.05), speedup)
    assert (found.chosen, found.labels_needed) == (None, needed)
    assert "No threshold is certified" in found.verdict
    assert said in found.advice
    if needed is not None:
        more = Decisions([0.9] * (needed // 2) + [0.1] * (needed // 2), [False] * needed)
        assert frontier(more, grid, Bound(level=0.05), speedup).chosen == 0


def test_the_cheapest_certified_gamma_is_chosen() -> None:
    """900 decisions at confidence .9, all as the judge's; 300 at .6, a third of them not."""
    decisions = Decisions([0.9] * 900 + [0.6] * 300, [False] * 1100 + [True] * 100)
    bound = Bound(level=0.05, risk="accepted-and-wrong")
    found = cascade(decisions, bound, gate_cost=1.0, judge_cost=5.0, grid=[0.5, 0.8, 0.95])
    assert [row.accepted for row in found.rows] == [0.0, 0.75, 1.0]
    assert found.costs == (6.0, 2.25, 1.0)
    assert found.chosen == 1
    assert found.break_even == pytest.approx(0.8)
    assert "keeps 75 % of the decisions, costs 2.25 per step against 5" in found.verdict
    dear = cascade(decisions, bound, gate_cost=6.0, judge_cost=5.0)
    assert dear.verdict.startswith("The judge without a gate is cheaper")
    never = cascade(Decisions([0.9] * 300, [True] * 300), Bound(level=0.05), gate_cost=1.0, judge_cost=5.0)
    assert never.chosen is None
    assert "leave every decision to the judge" in never.verdict
