"""How many tokens are drafted and verified: by batch, as given, and adaptively; places, and options left out."""

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from deployments import block_of, deployment, head_of, own_layers
from refusals import refused

from calibrate.token_acceptance.schedule import BatchRange, Schedule
from sim.configuration import PLAIN, Configuration
from specplan.commands.plan import command
from specplan.planning.loads.click_options import DEPLOYMENT, LOADS
from specplan.planning.loads.from_names import sequences_for
from specplan.planning.loads.from_options import deployment_plan
from specplan.planning.loads.load_plan import NamesPlan, plan_loads
from specplan.planning.loads.options import Considered, Option, check_named, considered
from specplan.planning.loads.schedule import Depths
from specplan.planning.loads.search import Best, best_of_each_kind
from specplan.planning.loads.statements import adaptive_steps, fixed_k, k_table, schedule_of
from specplan.show.loads.results import named_row_as_json, plan_as_json
from specplan.show.loads.words import named, one_k, policies, verdict
from specplan.worlds.arrangements import Arrangement
from specplan.worlds.beliefs import CONFIDENCE
from specplan.worlds.costs import RoundCost
from specplan.worlds.drafters.naming import method_name
from specplan.worlds.request import Limits, Load
from specplan.worlds.world import World
from theory.adaptive.steps import DEFAULT_SLOTS, AdaptiveSteps, shares_of_steps
from theory.adaptive.verification import CHOOSING
from theory.errors import ParameterError, SpecplanError
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named

HEAD = head_of("Qwen/Qwen3-8B")


@pytest.fixture(scope="module")
def planned() -> NamesPlan:
    wanted = deployment(head=HEAD, k=2, max_num_seqs=4, memory_share=0.6)
    return plan_loads(wanted, [Load(concurrency=n) for n in (1, 16)], Limits(), ["eagle"])


def test_a_given_k_is_drafted_at_every_load(planned: NamesPlan) -> None:
    drafting = [row for _, rows in planned.loads for row in rows if row.option.configuration.speculates]
    assert drafting
    assert {row.option.configuration.k2 for row in drafting} == {3}
    options = [option for some in planned.curve.options.values() for option in some if option is not None]
    assert {option.configuration.k2 for option in options} == {3}
    assert one_k(planned).startswith("k = 2 at all loads, as given with --k, loses at most ")


def test_every_k_loses_what_the_best_k_makes_more(planned: NamesPlan) -> None:
    found = k_table(planned)
    assert {1, 16} <= set(found.answers)
    for place, answers in enumerate(found.answers):
        losses = [row[place] for row in found.losses]
        assert min(losses) == 0.0
        assert max(losses) < 1.0
        sequences = min(answers, 4)  # no more have a place
        assert losses == planned.depths.losses("eagle", 1, sequences)
    data = plan_as_json(planned)["k_table"]
    assert [row["k"] for row in data["rows"]] == list(range(1, len(found.losses) + 1))


def test_k_is_that_of_the_batch_which_the_cache_holds() -> None:
    """Four answers fit: beyond them others wait, the batch stays, and with it the k that is best for it."""
    full = Depths(World(deployment(gpu=gpu_named("RTX 4090"), head=HEAD, context=8192, answer_tokens=4096)))
    empty = Depths(World(deployment(gpu=gpu_named("H200"), head=HEAD, context=8192, answer_tokens=4096)))
    assert full.losses("eagle", 1, 8) == full.losses("eagle", 1, 1024)
    assert full.k("eagle", 1, 8) == full.k("eagle", 1, 1024)
    assert empty.k("eagle", 1, 1024) < empty.k("eagle", 1, 8)
    table = Schedule((BatchRange(1, 8, 4), BatchRange(9, 1024, 1)))
    given = (Depths(World(replace(one._world.deployment, k=table))).k("eagle", 1, 64) for one in (full, empty))
    assert tuple(given) == (4, 1), "vLLM looks up the batch that runs"


def test_answers_beyond_the_places_wait(planned: NamesPlan) -> None:
    (_, few), (_, many) = planned.loads
    assert few[0].limit != "places"
    assert many[0].limit == "places"
    assert many[0].served.percentiles("ttft_s")[50] > 5.0 * few[0].served.percentiles("ttft_s")[50]
    assert sequences_for(planned.deployment, PLAIN, 16) == 4


def test_a_given_table_is_drafted_by_batch() -> None:
    table = Schedule((BatchRange(1, 2, 3), BatchRange(3, 8, 1), BatchRange(9, 64, 0)))
    loads = [Load(concurrency=n) for n in (1, 4, 16)]
    plan = plan_loads(deployment(head=HEAD, k=table), loads, Limits(), ["eagle"], curve=False)
    drafted = {
        load.concurrency: {row.option.configuration.k2 - 1 for row in rows if row.option.configuration.speculates}
        for load, rows in plan.loads
    }
    assert drafted == {1: {3}, 4: {1}, 16: set()}
    assert one_k(plan).startswith("k by batch, as given with --k, loses at most ")
    schedule = schedule_of(plan, plan.loads[0][1][0].option)
    assert [schedule.at(n) for n in (1, 4, 16)] == [3, 1, 0]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("[[1, 4, 3], [4, 8, 1]]", "k=[4, 8, 1] must be [first, last, K] with first <= last and K >= 0, after the end"),
        ("[[1, 4, 3], [8, 16, 1]]", "k=[1, 4, 3] leaves a gap before 8; vLLM would draft 3 there: say [1, 7, 3]"),
        ("[[2, 4, 3]]", "k=[[2, 4, 3]] must start at batch size 1: add [1, LAST, K]"),
        ("[[1, 4]]", "k[0]: must be three integers [first, last, K]"),
        ("[[1, 4, 3]", "k: not JSON"),
        ("[[1, 4, 0]]", "k=0 must be an integer in [1, 32]"),
    ],
)
def test_tables_that_overlap_or_leave_gaps_are_one_line(table: str, told: str) -> None:
    run = CliRunner().invoke(command, ["--target", "Qwen/Qwen3-8B", "--k", table], standalone_mode=False)
    assert isinstance(run.exception, SpecplanError)
    assert told in str(run.exception)
    assert "\n" not in str(run.exception)


test_settings_outside_their_range_are_refused = refused(
    lambda wrong: deployment(**wrong), ({"k": 0}, r"k=0 must be an integer in \[1, 32\]"), ({"k": 33}, "k=33 must be")
)


def test_layers_that_draft_in_turn_draft_whole_turns() -> None:
    """vLLM 0.32 (`SpeculativeConfig`) refuses 4 tokens of 3 layers."""
    own = deployment(target=(name := "stepfun-ai/Step-3.7-Flash"), head=own_layers(name), gpus=8)
    assert list(Depths(World(own)).ks("eagle")) == [1, 2, 3, 6]
    check_named(replace(own, k=6), ["mtp"])
    table = Schedule((BatchRange(1, 8, 6), BatchRange(9, 64, 4)))
    for k in (4, table):
        with pytest.raises(ParameterError, match="--k of at most 3 or a multiple of it, not 4: 3 layers draft in turn"):
            check_named(replace(own, k=k), ["mtp"])


def test_a_table_that_drafts_nothing_loses_what_drafting_would_gain() -> None:
    wanted = deployment(head=HEAD, k=Schedule((BatchRange(1, 8, 4), BatchRange(9, 64, 0))))
    found = plan_loads(wanted, [Load(concurrency=n) for n in (1, 16)], Limits(), ["eagle"], curve=False)
    free = plan_loads(deployment(head=HEAD), [Load(concurrency=16)], Limits(), ["eagle"], curve=False)
    gain = free.loads[0][1][0].gain.value
    assert gain > 1.2
    fixed = fixed_k(found)
    assert fixed.loss == pytest.approx(1.0 - 1.0 / gain, abs=0.1), "of rounds alone, without the reading of prompts"


def test_methods_that_are_far_behind_were_compared() -> None:
    wanted = deployment(draft="Qwen/Qwen3-4B", gpus=2)
    (load, rows), *_ = (found := plan_loads(wanted, [Load(concurrency=1)], Limits(), ["lr-async"], curve=False)).loads
    assert [row.option.configuration for row in rows] == [PLAIN]
    assert "leave speculation off" in verdict(found, load, rows)
    (load, rows), *_ = (alone := plan_loads(wanted, [Load(concurrency=1)], Limits(), [], curve=False)).loads
    assert "nothing was compared" in verdict(alone, load, rows)


LEFT_OUT = dict.fromkeys((*DEPLOYMENT, *LOADS, "gpu"))
SPARSE = {"target": "deepseek-ai/DeepSeek-V3.2", "gpus": 8, "tp": 8, "concurrency": "1", "no_curve": True}


@pytest.mark.parametrize(
    ("chosen", "cache"),
    [
        ({"engine": "sglang", "gpu": "B200"}, "fp8"),
        ({"engine": "sglang", "gpu": "B200", "cache": "bf16"}, "bf16"),
        ({"engine": "sglang", "gpu": "H200"}, "bf16"),
        ({"engine": "vllm", "gpu": "B200"}, "bf16"),
        ({"engine": "sglang", "gpu": "B200", "target": "Qwen/Qwen3-8B"}, "bf16"),
    ],
)
def test_the_cache_of_sparse_attention_is_the_one_that_its_engine_makes(chosen: dict[str, str], cache: str) -> None:
    plan = deployment_plan({**LEFT_OUT, **SPARSE, **chosen}, ["ngram"])
    assert plan.deployment.target.precision.cache == cache


@pytest.mark.parametrize(
    "named", [{}, {"eagle": "RedHatAI/Qwen3-8B-speculator.eagle3", "block": "deepseek-ai/dspark_qwen3_8b_block7"}]
)
def test_a_cache_that_is_given_is_that_of_all_drafters_named_or_found(named: dict[str, str]) -> None:
    told = {"target": "Qwen/Qwen3-8B", "cache": "fp8", "concurrency": "1", "no_curve": True, **named}
    found = deployment_plan({**LEFT_OUT, **told}, ["eagle3", "dspark", "draft-model"]).deployment
    drafters = (found.target, found.head, found.block, found.draft)
    assert [one.precision.cache for one in drafters] == 4 * ["fp8"]


@pytest.mark.parametrize("chosen", [{"precision": "fp8"}, {"target": "openai/gpt-oss-20b"}])
def test_formats_that_volta_has_no_kernels_for_are_refused(chosen: dict[str, str]) -> None:
    with pytest.raises(ParameterError, match="is not served on NVIDIA V100: take bf16"):
        deployment_plan({**LEFT_OUT, "target": "Qwen/Qwen3-8B", "gpu": "V100", "concurrency": "1", **chosen}, ["ngram"])


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
    return best_of_each_kind(every, speed, lambda *_: 7, answers, before, lambda *_: adapted, lambda *_: None)


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
