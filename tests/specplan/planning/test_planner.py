"""The planner: budgets, verdicts, order."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_profiles import measured
from refusals import refuses

import specplan as sp
from calibrate.record.answer_records import BeamStepRecord, CandidatesRecord
from calibrate.record.library import bundled
from calibrate.record.profile import Profile
from calibrate.replay.trials import Trials
from sim.configuration import Configuration
from sim.estimate import proportion
from specplan.planning.planner import Request, _accurate_enough, _ranked, accuracy_loss, plan

ALL, NONE = [True] * 24, [False] * 24


@settings(max_examples=40)
@given(budget=st.integers(1, 200), k1_max=st.integers(1, 12))
def test_candidates_stay_within_the_budget(budget: int, k1_max: int) -> None:
    profile = bundled("lr-deepseek-gsm8k")
    found = Request(max_parallel=budget, k1_max=k1_max).candidates(Trials(profile)).known
    assert all(c.most_sequences * c.k2 <= budget and c.k1 <= k1_max for c in found)
    assert len(set(found)) == len(found)
    if budget == 1:
        assert found == []


def test_methods_are_asked_for_no_more_than_they_take() -> None:
    """ConfSpec's pipeline takes 64 target steps in flight, Lookahead Reasoning more."""
    found = Request(max_parallel=4096, k1_max=70).candidates(Trials(bundled("lr-deepseek-gsm8k")))
    assert "confspec" in found.unknown
    assert max(c.k1 for c in found.known if c.method == "lr-async") == 70


def test_plan_of_a_perfect_draft_uses_it() -> None:
    found = plan(measured(ALL), Request(max_parallel=8))
    assert found.best.prediction.configuration.method == "lr-async"
    assert found.best.prediction.speedup.value > 4.0
    assert found.verdict.startswith("Use LR async with k1 = ")
    values = [row.prediction.speedup.value for row in found.rows]
    assert values == sorted(values, reverse=True)


def test_plan_says_that_plain_decoding_wins() -> None:
    """No draft is ever right and drafting is as slow as deciding: nothing within the budget is faster."""
    found = plan(measured(NONE, draft_s=0.009), Request(methods=("lr-sync",)))
    assert found.best.label == "plain decoding"
    assert (
        found.verdict
        == "Plain decoding wins: no method that could be evaluated within the budget is expected to be faster."
    )
    assert "loses to plain decoding" in found.rows[-1].why


def test_measured_token_counts_make_a_hybrid() -> None:
    verdicts = [mark == "+" for mark in "++-+++--++++-+-+++++-+++"]
    found = plan(measured(verdicts, ngram=True), Request(max_parallel=16))
    labels = [row.label for row in found.rows]
    assert labels[0] == "LR async + prompt lookup"
    assert {"prompt lookup", "LR async", "LR sync", "plain decoding"} < set(labels)


test_wrong_requests_are_refused = refuses(
    Request,
    ({"max_parallel": 0}, "^max_parallel="),
    ({"k1_max": -3}, "^k1_max="),
    ({"k2_max": 0}, "^k2_max="),
    *(({"max_accuracy_loss": loss}, "^max_accuracy_loss=") for loss in (-0.1, 1.5, float("nan"))),
)


def test_what_costs_more_accuracy_than_allowed_comes_last() -> None:
    rows = plan(measured(ALL), Request(max_parallel=8, methods=("lr-sync", "lr-async"))).rows
    plain = next(row.prediction for row in rows if not row.prediction.configuration.speculates)
    plain = replace(plain, accuracy=proportion(90, 100))
    fast = replace(rows[0].prediction, accuracy=proportion(84, 100))
    slow = replace(rows[1].prediction, accuracy=proportion(86, 100))
    assert fast.speedup.value > slow.speedup.value
    ranked = list(_ranked([plain, slow, fast], plain, Request(max_accuracy_loss=0.05)))
    assert [row.prediction for row in ranked] == [slow, plain, fast]
    assert ranked[-1].why.startswith("ruled out: loses 0.06 of the right answers; ")
    assert [row.prediction for row in _ranked([plain, slow, fast], plain, Request(max_accuracy_loss=0.07))] == [
        fast,
        slow,
        plain,
    ]


def test_few_answers_rule_nothing_out_that_chance_may_explain() -> None:
    """13 of 16 right against 86 % of 240: 0.05 less, and the interval reaches 0.93. 8 of 16 are beyond doubt."""
    plain = replace(plan(measured(ALL), Request(methods=())).best.prediction, accuracy=proportion(206, 240))
    few, many = (replace(plain, accuracy=proportion(*counts)) for counts in ((13, 16), (192, 240)))
    assert accuracy_loss(few, plain) < 0.0
    assert accuracy_loss(many, plain) == pytest.approx(14 / 240)
    assert accuracy_loss(replace(plain, accuracy=proportion(8, 16)), plain) > 0.05
    assert accuracy_loss(replace(few, baseline_accuracy=plain.accuracy)) == accuracy_loss(few, plain)
    assert accuracy_loss(replace(few, accuracy=None), plain) == 0.0


def with_beams(n: int) -> Profile:
    """Profile whose answers have n candidates per position and model, all scored; the draft's are wrong."""
    roles = ("reward", "likelihood", "draft-likelihood")
    drafts = CandidatesRecord(tokens=[5] * n, correct=[False] * n, scores=dict.fromkeys(roles, [0.5] * n))
    targets = CandidatesRecord(tokens=[5] * n, correct=[True] * n, scores={"reward": [0.9] * n})
    profile = measured(ALL)
    beams = [BeamStepRecord(drafts=drafts, targets=targets)] * len(ALL)
    answers = [one.model_copy(update={"beams": beams}) for one in profile.answers]
    return profile.model_copy(update={"answers": answers})


def test_beams_are_proposed_as_far_as_candidates_are_recorded() -> None:
    def proposed(n: int, budget: int) -> set[str]:
        found = Request(max_parallel=budget).candidates(Trials(with_beams(n))).known
        return {c.name for c in found if c.spec.level == "beam"}

    assert not {c for c in Request().candidates(Trials(measured(ALL))).known if c.spec.level == "beam"}
    assert {"beam-search width=2", "rsd-beams width=2", "specs width=2", "specs width=2 tau=0.95"} <= proposed(2, 8)
    assert not any("keep=2" in name for name in proposed(2, 8))
    assert "beam-search width=2 keep=2" in proposed(4, 8)
    assert {name.split()[0] for name in proposed(4, 1)} == {"beam-search-draft"}
    assert {name.split()[0] for name in proposed(4, 8)} == {"beam-search", "beam-search-draft", "rsd-beams", "specs"}


def test_the_fastest_setting_that_is_accurate_enough_is_taken() -> None:
    fast, slow = both = [Configuration(method="specs", knobs={"width": n}) for n in (2, 4)]
    accuracy = {fast.name: 0.5, slow.name: 0.9}.get
    assert _accurate_enough(lambda c: accuracy(c.name), both, 0.8) == [slow]
    assert _accurate_enough(lambda c: accuracy(c.name), both, 0.4) == both
    assert _accurate_enough(lambda c: accuracy(c.name), both, 0.99) == [slow]
    assert _accurate_enough(lambda c: accuracy(c.name), both, None) == both


def test_methods_without_data_are_listed_and_do_not_make_plain_decoding_win() -> None:
    found = sp.plan("lr-deepseek-gsm8k", methods=["draft-model", "specs"], n_answers=2)
    assert found.ranking.verdict.startswith("Nothing to compare")
    assert found.ranking.unknown.keys() == {"draft-model", "specs"}
    assert "reward" in found.ranking.unknown["specs"][0]
    text = found.text(verbose=True)
    assert "one answer at a time" in text
    assert "not evaluated: draft-model" in text
