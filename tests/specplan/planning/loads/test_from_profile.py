"""Plans from a profile under load: many answers at once, arrivals, bounds on times, and copies of the engines."""

from typing import Any

import pytest
from screens import refused_words

import specplan as sp
from sim.configuration import PLAIN
from specplan.planning.loads.load_plan import LoadPlan, LoadRow
from specplan.show.plans import ProfilePlan
from theory.errors import ParameterError

METHODS = ["lr-async", "prompt-lookup"]
NAME = "lr-qwen3-gsm8k"


@pytest.fixture(scope="module")
def found() -> ProfilePlan:
    return sp.plan(NAME, methods=METHODS, concurrency=[1, 16], n_answers=8)


def loads(plan: ProfilePlan) -> LoadPlan:
    assert plan.loads is not None
    return plan.loads


def rows(plan: ProfilePlan, place: int) -> dict[str, LoadRow]:
    return {row.option.kind: row for row in loads(plan).loads[place][1]}


def test_one_answer_at_once_is_the_plan_for_one_answer(found: ProfilePlan) -> None:
    planned = {row.prediction.configuration: row.prediction for row in found.ranking.rows}
    one = rows(found, 0)
    assert {row.option.configuration for row in one.values()} == set(planned)
    for row in one.values():
        alone = planned[row.option.configuration]
        assert row.gain.value == alone.speedup.value
        assert (row.gain.low, row.gain.high) == pytest.approx((alone.speedup.low, alone.speedup.high), rel=1e-12)
        assert 1.0 / row.answers_per_s == pytest.approx(alone.seconds_per_answer, rel=1e-9)


def test_shared_engines_cost_steps_and_drafts_of_tokens(found: ProfilePlan) -> None:
    """Parallel steps get in each other's way; prompt lookup loses what 16 times 8 drafted tokens add to a pass."""
    one, many = ({kind: row.gain for kind, row in rows(found, place).items()} for place in (0, 1))
    for kind in ("lr-async", "lr-async+prompt-lookup"):
        assert many[kind].value < one[kind].value
    left = many["prompt-lookup"].value / one["prompt-lookup"].value
    assert left == pytest.approx(
        (1 + 15 * 0.0049) / (1 + 15 * (0.0049 + 8 * 0.0012)), rel=0.03
    )  # contexts are left out
    assert all(g.low <= g.value <= g.high for g in many.values())


def test_so_many_copies_with_one_answer_each_gain_what_one_answer_gains(found: ProfilePlan) -> None:
    copied = sp.plan(NAME, methods=METHODS, concurrency=[4, 64], copies=4, n_answers=8)
    few, many = rows(copied, 0), rows(copied, 1)
    for kind, alone in rows(found, 0).items():
        assert few[kind].gain.value == alone.gain.value
        assert few[kind].tokens_per_s == pytest.approx(4.0 * alone.tokens_per_s)
    for kind, sixteen in rows(found, 1).items():
        assert many[kind].gain == sixteen.gain
        assert many[kind].tokens_per_s == pytest.approx(4.0 * sixteen.tokens_per_s)
    assert "4 copies" in copied.text(verbose=True)


@pytest.mark.parametrize("numbers", [[0], [1, 257], ["x"], [""], [1.5]])
def test_impossible_numbers_of_answers_are_refused(numbers: list[Any]) -> None:
    with pytest.raises(ParameterError, match="concurrency"):
        sp.plan(NAME, concurrency=numbers)


def test_answers_that_arrive_take_as_long_as_those_in_a_loop_of_as_many(found: ProfilePlan) -> None:
    """At a rate at which about one answer is in flight it meets few others: it gains what one answer gains."""
    alone = rows(found, 0)
    arriving = sp.plan(NAME, methods=["prompt-lookup"], rate=0.1 * alone[PLAIN.method].answers_per_s, n_answers=8)
    seen = rows(arriving, 0)
    for kind, row in seen.items():
        assert row.gain.value == pytest.approx(alone[kind].gain.value, rel=0.15), kind
        assert row.served.mean("seconds") > 0.0
    assert seen[PLAIN.method].gain.value == 1.0
    data = arriving.plain()
    assert (data["at_once"], data["arrivals"][0]["load"]) == ([], loads(arriving).loads[0][0].text)


def test_more_arrivals_than_the_engines_finish_are_refused_unless_there_are_copies(found: ProfilePlan) -> None:
    most = max(row.answers_per_s for row in rows(found, 1).values())
    with pytest.raises(ParameterError, match=f"the answers per second that the engines of {NAME} finish"):
        sp.plan(NAME, methods=["prompt-lookup"], rate=50.0 * most, n_answers=4)


def test_bounds_on_times_rank_and_count(found: ProfilePlan) -> None:
    """Half of plain decoding's time per token: with the bound only what is fast enough meets it, and is good."""
    plain = rows(found, 0)[PLAIN.method]
    bound = 1e3 / plain.tokens_per_s / 1.2
    bounded = sp.plan(NAME, methods=["prompt-lookup"], concurrency=1, slo_tpot=bound, n_answers=4)
    fast, slow = loads(bounded).loads[0][1]
    assert (fast.option.kind, slow.option.kind) == ("prompt-lookup", PLAIN.method)
    assert (fast.meets, slow.meets) == (True, False)
    assert 0.0 <= slow.goodput < fast.goodput <= 1.01 * fast.served.answers_per_s
    assert "bounds" in bounded.text(verbose=True)
    with pytest.raises(ParameterError, match=r"slo_tpot=.* has no use without a load"):
        sp.plan(NAME, slo_tpot=10.0)


test_options_that_do_not_fit_are_refused = refused_words(
    "plan",
    (f"-p {NAME} --copies 2", "copies=2 has no use without a load"),
    ("--target Qwen/Qwen3-8B --max-accuracy-loss 0", "--max-accuracy-loss needs --profile"),
    ("--target Qwen/Qwen3-8B --copies 2", "--copies needs --profile: --gpus says how many GPUs there are"),
)
