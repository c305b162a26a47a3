"""Adaptive verification in plans: chosen by its law, simulated like a fixed k, planned only where it gains."""

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from deployments import block_of, deployment, head_of

from sim.configuration import PLAIN, Configuration
from specplan.planning.loads.load_plan import plan_loads
from specplan.planning.loads.options import Considered, Option, considered
from specplan.planning.loads.schedule import Depths
from specplan.planning.loads.search import Best, best_of_each_kind
from specplan.planning.loads.statements import adaptive_steps, schedule_of
from specplan.show.loads.results import named_row_as_json
from specplan.show.loads.words import named, policies
from specplan.worlds.arrangements import Arrangement
from specplan.worlds.beliefs import CONFIDENCE
from specplan.worlds.costs import RoundCost
from specplan.worlds.drafters.naming import method_name
from specplan.worlds.request import Limits, Load
from specplan.worlds.world import World
from theory.adaptive.steps import DEFAULT_SLOTS, AdaptiveSteps, shares_of_steps
from theory.adaptive.verification import CHOOSING
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named

TOKEN = "block-drafter"
WANTED = deployment(block=block_of("Qwen/Qwen3-8B"))
WORLD = World(WANTED)
DEPTHS = Depths(WORLD)
CONTEXT = 200.0
"""Tokens cached of an answer of `WANTED`, mean."""


def chosen(least: float = 0.3) -> Configuration:
    """All tokens drafted, those verified of which this is the least chance; 0: all."""
    return Configuration(method=TOKEN, k2=8, knobs={"least": least})


def rate(configuration: Configuration, batch: int) -> float:
    """Tokens per second of a batch."""
    seconds = WORLD.round_cost(configuration, 1).iteration(batch, batch * CONTEXT)
    return batch * WORLD.passes(configuration).tokens / seconds


@pytest.mark.parametrize("batch", [16, 64, 256])
def test_what_is_chosen_is_at_least_as_fast_as_any_fixed_number(batch: int) -> None:
    best = DEPTHS.adaptive(TOKEN, 1, batch)
    fixed = max(rate(Configuration(method=TOKEN, k2=k + 1), batch) for k in DEPTHS.ks(TOKEN))
    assert best is None or rate(best, batch) >= fixed * 0.995


def test_a_round_costs_what_is_verified_and_drafts_all() -> None:
    both = chosen(), Configuration(method=TOKEN, k2=8)
    less, more = (WORLD.round_cost(one, 1).iteration(256, 256 * CONTEXT) for one in both)
    rows = [round(WORLD.passes(one).rows, 2) for one in both]
    target = [WORLD.cost(WANTED.target, 1, rows=n, token=TOKEN) for n in rows]
    alone = [one.iteration(256, 256 * CONTEXT) for one in target]
    assert less < more
    assert more - less == pytest.approx(alone[1] - alone[0], rel=1e-9), "drafting is the same"
    assert WORLD.passes(both[0]).tokens < WORLD.passes(both[1]).tokens


def test_a_round_that_chooses_reads_prompts_beside_single_tokens_so_that_it_stays_in_graphs() -> None:
    alone = WORLD.cost(WANTED.target, 1, token=TOKEN).reading(64, 512.0)
    assert WORLD.round_cost(chosen(), 1).reading(64, 512.0) == alone
    assert WORLD.round_cost(chosen(0.0), 1).reading(64, 512.0) != alone


def test_choosing_takes_what_was_measured_on_gpus_of_its_maker() -> None:
    for gpu, factor in (("H100", 1.0), ("MI355X", CHOOSING["AMD"])):
        cost = World(deployment(block=WANTED.block, gpu=gpu_named(gpu))).round_cost(chosen(), 1)
        assert isinstance(cost, RoundCost)
        unasked = replace(cost, factor=1.0)
        assert cost.iteration(8, 8 * CONTEXT) == pytest.approx(factor * unasked.iteration(8, 8 * CONTEXT), rel=1e-12)


@pytest.mark.parametrize(
    ("changed", "adapts"),
    [
        ({}, True),
        ({"engine_version": "0.32.0"}, True),
        ({"engine_version": "0.27.1"}, False),
        ({"engine": engine_named("sglang")}, False),
        ({"block": block_of("Qwen/Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16")}, False),
    ],
)
def test_only_engines_that_adapt_are_planned_to(changed: dict[str, Any], adapts: bool) -> None:
    found = considered(deployment(**{"block": WANTED.block, **changed}), [TOKEN, "prompt-lookup"])
    assert TOKEN in found.tokens
    assert found.adaptive == ([TOKEN] if adapts else [])


def searched(
    adaptive: Sequence[str], speeds: tuple[float, float], answers: int = 64, before: Best = MappingProxyType({})
) -> Best:
    """The best of each kind where a fixed number of tokens and adaptive verification gain so much."""

    def speed(option: Option, _: int) -> float:
        return 1.0 if option.configuration == PLAIN else speeds[option.configuration.least > 0.0]

    place, adapted = Arrangement(tp=1, replicas=1), chosen(0.2)
    every = Considered(plain=[place], tokens={TOKEN: [place]}, adaptive=list(adaptive))
    return best_of_each_kind(every, speed, lambda *_: 7, answers, before, lambda *_: adapted)


@pytest.mark.parametrize(
    ("fixed", "adaptive", "kinds"),
    [
        (1.2, 1.4, {"autoregressive", TOKEN, f"{TOKEN} adaptive"}),
        (1.2, 1.205, {"autoregressive", TOKEN}),
        (1.2, 1.1, {"autoregressive", TOKEN}),
    ],
)
def test_it_is_a_kind_of_its_own_where_it_gains(fixed: float, adaptive: float, kinds: set[str]) -> None:
    assert set(searched([TOKEN], (fixed, adaptive))) == kinds
    assert set(searched([], (fixed, adaptive))) == {"autoregressive", TOKEN}


def test_it_is_looked_at_again_where_fixed_numbers_were_given_up() -> None:
    few = searched([TOKEN], (0.7, 1.3))
    many = searched([TOKEN], (0.7, 1.3), 128, few)
    assert set(many) == {"autoregressive", f"{TOKEN} adaptive"}


def test_a_plan_says_what_the_policy_is_worth() -> None:
    planned = plan_loads(WANTED, [Load(concurrency=64)], Limits(), [TOKEN])
    ((_, many),) = planned.loads
    best = many[0]
    assert best.option.configuration.least > 0.0
    fixed = next(row for row in many if row.option.kind == TOKEN)
    assert policies(planned) == (
        f"Adaptive verification, gain by load: 64: adaptive {best.gain.value:.2f}, best fixed k "
        f"{fixed.gain.value:.2f}, none 1."
    )
    assert best.gain.value > fixed.gain.value
    assert best.errors[CONFIDENCE] > 0.0
    assert CONFIDENCE not in fixed.errors
    assert best.in_vain["target"] < fixed.in_vain["target"]
    assert method_name(WANTED, best.option.configuration) == "dspark adaptive"
    assert named(planned, best.option) == f"dspark adaptive, k <= {best.option.configuration.k2 - 1}"
    assert named_row_as_json(planned, best)["adaptive_verification"] is True
    assert schedule_of(planned, best.option) is None
    curve = planned.curve
    assert curve.gains[f"{TOKEN} adaptive"][-1] > curve.gains[TOKEN][-1]


HEADED = deployment(head=head_of("Qwen/Qwen3-8B"), engine=engine_named("sglang"))


def alone(k: int) -> Configuration:
    return Configuration(method="eagle", k2=k + 1) if k else PLAIN


@pytest.mark.parametrize("batch", [2, 12, 40])
def test_adaptive_steps_are_worth_what_a_run_of_the_controller_makes_of_them(batch: int) -> None:
    """Rounds of one batch, drawn one by one, each with the steps that the controller chooses after those before it."""
    world, rng = World(HEADED), np.random.default_rng(batch)
    rates = world.beliefs.accepted("eagle", 8)
    seconds = {k: world.round_cost(alone(k), 1).iteration(batch, batch * CONTEXT) for k in (0, 1, 3, 5, 7)}
    control, spent, committed = AdaptiveSteps(DEFAULT_SLOTS, 3), 0.0, 0
    for _ in range(3000):
        k = control.steps(batch)
        right = np.minimum(np.cumprod(rng.random((batch, 7)) < rates, axis=1).sum(axis=1), k)
        control.observe(right.tolist())
        spent, committed = spent + seconds[k], committed + batch + int(right.sum())
    rule = DEFAULT_SLOTS[max(size for size in DEFAULT_SLOTS if size <= batch)]
    shares = shares_of_steps(rule, rates, batch)
    cost, passes = world.mixed({alone(k): share for k, share in shares.items()}, 1)
    rate = batch * passes.tokens / cost.iteration(batch, batch * CONTEXT)
    assert rate == pytest.approx(committed / spent, rel=0.02)
    assert sum(passes.pmf) == pytest.approx(1.0)


def test_a_plan_for_sglang_says_what_its_controller_is_worth() -> None:
    plan = plan_loads(HEADED, [Load(concurrency=2), Load(concurrency=64)], Limits(), ["eagle"], curve=False)
    worth = {load.concurrency: gains for load, gains in adaptive_steps(plan).items()}
    assert 1.2 < worth[2][0] <= worth[2][1] * 1.02
    assert worth[64][0] == pytest.approx(1.05, abs=0.08), (
        "its own slots draft nothing from 64 on, but fewer decode while prompts are read"
    )
    assert policies(plan) == (
        "SGLang's adaptive steps (--speculative-adaptive with its own slots), gain by load: "
        f"2: adaptive {worth[2][0]:.2f}, best fixed k {worth[2][1]:.2f}, none 1; "
        f"64: adaptive {worth[64][0]:.2f}, best fixed k {worth[64][1]:.2f}, none 1."
    )
    assert adaptive_steps(plan_loads(WANTED, [Load(concurrency=2)], Limits(), [TOKEN])) == {}
