"""A k for all loads, the places of an engine and its share of the memory, and what stands for options left out."""

from dataclasses import replace

import pytest
from click.testing import CliRunner
from deployments import deployment, head_of, own_layers
from refusals import refused

from calibrate.token_acceptance.schedule import BatchRange, Schedule
from sim.configuration import PLAIN
from specplan.commands.plan import command
from specplan.planning.loads.click_options import DEPLOYMENT, LOADS
from specplan.planning.loads.from_names import sequences_for
from specplan.planning.loads.from_options import deployment_plan
from specplan.planning.loads.load_plan import NamesPlan, plan_loads
from specplan.planning.loads.options import check_named
from specplan.planning.loads.schedule import Depths
from specplan.planning.loads.statements import fixed_k, k_table, schedule_of
from specplan.show.loads.results import plan_as_json
from specplan.show.loads.words import one_k, verdict
from specplan.worlds.request import Limits, Load
from specplan.worlds.world import World
from theory.errors import ParameterError, SpecplanError
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


@pytest.mark.parametrize("chosen", [{"precision": "fp8"}, {"target": "openai/gpt-oss-20b"}])
def test_formats_that_volta_has_no_kernels_for_are_refused(chosen: dict[str, str]) -> None:
    with pytest.raises(ParameterError, match="is not served on NVIDIA V100: take bf16"):
        deployment_plan({**LEFT_OUT, "target": "Qwen/Qwen3-8B", "gpu": "V100", "concurrency": "1", **chosen}, ["ngram"])
