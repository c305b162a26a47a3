"""Plans on several types of GPUs: costs, bounds, break-even loads."""

import json
from dataclasses import replace

import pytest
from screens import refused_words

import specplan as sp
from specplan.output import SCREEN
from specplan.planning.loads.gpu_types import GpuPlans, Priced
from specplan.show.loads.reports import break_evens, cheapest
from specplan.show.loads.results import GpusPlan
from specplan.worlds.request import Load
from theory.errors import ParameterError

SMALL = {"answer_tokens": 200, "context": 400, "methods": ["ngram"]}


@pytest.fixture(scope="module")
def found() -> GpusPlan:
    return sp.plan_gpus("Qwen/Qwen3-8B", {"H100": 2.5, "L40S": 1.0}, concurrency=[1, 16], **SMALL)


def test_costs_are_those_of_all_gpus_by_what_they_write(found: GpusPlan) -> None:
    prices = {"NVIDIA H100 SXM": 2.5, "NVIDIA L40S": 1.0}
    for rows in found.plans.loads:
        assert {one.gpu for one in rows} == set(prices)
        assert [one.per_million for one in rows] == sorted(one.per_million for one in rows)
        for one in rows:
            dollars = prices[one.gpu] * one.gpus / 3600.0
            assert one.per_million == pytest.approx(1e6 * dollars / one.row.tokens_per_s)
            assert one.dollars.per_answer == pytest.approx(dollars / one.row.answers_per_s)
            assert one.low < one.per_million < one.high


def test_every_view_says_the_same(found: GpusPlan) -> None:
    screen, whole, data = found.text(), found.text(verbose=True), found.plain()
    assert max(map(len, screen.splitlines())) <= SCREEN
    assert max(map(len, whole.splitlines())) <= SCREEN
    assert len(screen.splitlines()) <= 40
    assert screen.startswith(found.headline()[:40])
    assert whole.count("vllm serve") >= 2
    for load in data["loads"]:
        for row in load["gpus"]:
            assert f"{row['per_million_tokens']['value']:.3g} [" in screen
    assert json.loads(json.dumps(data))["unit"] == "dollars"
    report = found.report()
    assert report.lead == found.headline()
    assert len(found.records()) == 4


def crossing(found: GpusPlan, costs: dict[str, tuple[float, float]], *, meets: bool = True) -> GpuPlans:
    """The plans with other costs at both loads, and perhaps with a type that misses the bounds at the first."""

    def changed(one: Priced, place: int) -> Priced:
        kept = meets or place or one.gpu != "NVIDIA L40S"
        dollars = replace(one.dollars, per_million_tokens=costs[one.gpu][place])
        return replace(one, dollars=dollars, row=replace(one.row, meets=kept))

    loads = [[changed(one, place) for one in rows] for place, rows in enumerate(found.plans.loads)]
    ordered = (tuple(sorted(rows, key=lambda one: (not one.row.meets, one.per_million))) for rows in loads)
    return replace(found.plans, loads=tuple(ordered))


def test_break_evens_are_where_the_lines_on_logarithms_cross(found: GpusPlan) -> None:
    made = crossing(found, {"NVIDIA H100 SXM": (2.0, 1.0), "NVIDIA L40S": (1.0, 2.0)})
    ((load, below, above),) = made.break_evens()
    assert load == pytest.approx(4.0)
    assert (below.gpu, above.gpu) == ("NVIDIA L40S", "NVIDIA H100 SXM")
    assert break_evens(made) == "Break-even: from about 4 answers at once H100 SXM is cheaper than L40S."
    loads = tuple(
        tuple(replace(one, load=Load(concurrency=n)) for one in rows)
        for n, rows in zip((64, 256), made.loads, strict=True)
    )
    assert "from about 130 answers at once" in break_evens(replace(made, loads=loads)), "no 1.3e+02"
    near = crossing(found, {"NVIDIA H100 SXM": (1.0001, 1.0), "NVIDIA L40S": (1.0, 2.0)})
    assert "from about 1 answer at once H100" in break_evens(near)
    flat = crossing(found, {"NVIDIA H100 SXM": (2.0, 2.0), "NVIDIA L40S": (1.0, 1.0)})
    assert break_evens(flat) == "Break-even: none; L40S is the cheapest at all these loads."


def test_what_misses_the_bounds_is_not_the_cheapest(found: GpusPlan) -> None:
    made = crossing(found, {"NVIDIA H100 SXM": (2.0, 2.0), "NVIDIA L40S": (1.0, 1.0)}, meets=False)
    assert "cheapest is 1 x H100 SXM" in cheapest(made, made.loads[0])
    assert "no other type meets the bounds" in cheapest(made, made.loads[0])
    assert [load for load, _, _ in made.break_evens()] == pytest.approx([16.0])
    made = crossing(found, {"NVIDIA H100 SXM": (2.0, 1.0), "NVIDIA L40S": (1.0, 2.0)})
    missed = tuple(replace(one, row=replace(one.row, meets=False)) for one in made.loads[1])
    none = replace(made, loads=(made.loads[0], missed))
    assert none.break_evens() == []
    assert break_evens(none) == "Break-even: none; L40S is the cheapest at the loads at which any meets the bounds."


def test_costs_that_are_close_are_not_told_apart(found: GpusPlan) -> None:
    near = crossing(found, {"NVIDIA H100 SXM": (1.05, 9.0), "NVIDIA L40S": (1.0, 1.0)})
    assert "1.05 times as much, less than the uncertainty of passes" in cheapest(near, near.loads[0])
    assert "9.00 times as much." in cheapest(near, near.loads[1])


def test_more_gpus_are_taken_where_the_fewest_miss_the_bounds() -> None:
    """Weights of 65 GB take 14 ms from the memory of an H200: no single token is faster, with or without lookups."""
    asked = {"answer_tokens": 100, "context": 200, "methods": ["ngram"], "concurrency": 1, "acceptance": {"ngram": 0.1}}
    found = sp.plan_gpus("Qwen/Qwen3-32B", ["H200"], slo_tpot=12, **asked).plans
    (best,) = found.loads[0]
    assert (best.gpus, best.row.meets) == (2, True)
    assert not found.priced
    assert best.per_million == pytest.approx(2.0 * 1e6 / 3600.0 / best.row.tokens_per_s)


def test_more_gpus_are_taken_where_the_fewest_finish_less_than_arrives() -> None:
    """A rate that one of the two types finishes on one GPU and the other on two; one that neither does is refused."""
    asked = {"answer_tokens": 200, "context": 400, "methods": ["ngram"], "answer_spread": 0.0, "no_curve": True}
    one = sp.plan_gpus("Qwen/Qwen3-32B", ["H100"], concurrency=128, gpus=1, **asked).plans.loads[0][0]
    rate = 1.2 * one.row.answers_per_s
    found = sp.plan_gpus("Qwen/Qwen3-32B", {"H100": 2.0, "H200": 3.0}, rate=[0.1, rate], **asked)
    few, many = found.plans.loads
    assert [row.load.per_second for row in (few[0], many[0])] == pytest.approx([0.1, rate])
    assert {row.gpu: row.gpus for row in few} == {"NVIDIA H100 SXM": 1, "NVIDIA H200 SXM": 1}
    assert {row.gpu: row.gpus for row in many}["NVIDIA H100 SXM"] == 2
    assert few[0].low == few[0].per_million == few[0].high, "all of it is given"
    assert "Break-even" in found.text()
    with pytest.raises(ParameterError, match=r"must be below .* 1 x NVIDIA H100 SXM finish: take more \(--gpus\)"):
        sp.plan_gpus("Qwen/Qwen3-32B", ["H100"], rate=100.0 * rate, gpus=1, **asked)


test_types_and_prices_that_do_not_fit_are_one_line = refused_words(
    "plan --target Qwen/Qwen3-8B --gpu",
    ("H100,H200 --gpu-price H100=2.5", "has no price of NVIDIA H200 SXM, which --gpu names"),
    ("H100,H200 --gpu-price 2.5", "must name its GPU, since 2 are planned for"),
    ("H100,H100-SXM", "must name NVIDIA H100 SXM once"),
    ("H100,FOO", "--gpu='FOO' is not known"),
    ("H100,,H200", "--gpu='' is not known"),
    ("H100,H200 --gpu-price H100=1,H200=2,B200=3", "has a price of NVIDIA B200 SXM, and --gpu names NVIDIA H100 SXM"),
    ("H100,H200 --gpu-price H100=-1,H200=2", "dollars, such as H100=2.5"),
    ("MI300X --engine trtllm", "does not run on AMD MI300X"),
    ("L4,A10 --gpus 1 --precision bf16 --target Qwen/Qwen3-32B", "hold too little for Qwen/Qwen3-32B"),
)


def test_a_type_that_does_not_hold_the_model_is_named_with_the_reason() -> None:
    found = sp.plan_gpus("Qwen/Qwen3-32B", ["H200", "L4"], concurrency=1, gpus=1, **SMALL)
    assert set(found.plans.refused) == {"NVIDIA L4"}
    assert "Not planned for L4: " in found.text()
