"""Statements about loads and prompts: each says what its table says, and no two contradict."""

import math
import re
from pathlib import Path

import pytest
from deployments import deployment, head_of, own_layers
from hypothesis import given
from hypothesis import strategies as st

from sim.configuration import Configuration
from specplan.api.planning import plan_models
from specplan.planning.loads.limits import LIMITS, runs_out
from specplan.planning.loads.load_plan import NamesPlan, plan_loads
from specplan.planning.loads.options import pays
from specplan.planning.loads.schedule import NOISE, Depths, smoothed
from specplan.planning.loads.statements import LENGTHS, ByPrompt, Pays, by_prompt
from specplan.show.loads.words import by_prompts
from specplan.worlds.arrangements import Arrangement
from specplan.worlds.drafters.known_acceptance import known_acceptances
from specplan.worlds.request import Limits, Load
from specplan.worlds.world import World
from theory.hardware.engines import engine_named

GAINS = st.dictionaries(st.sampled_from([2**i for i in range(9)]), st.floats(0.5, 3.0), min_size=1)


@given(gains=GAINS)
def test_the_sentence_says_of_every_load_what_its_gain_says(gains: dict[int, float]) -> None:
    found = Pays.of(gains)
    sentence = found.sentence()
    for n, gain in gains.items():
        assert pays(gain) == any(low <= n <= high for low, high in found.ranges())
        assert pays(gain) == _said(sentence, n)
    off = found.off_from
    assert not any(pays(gain) for n, gain in gains.items() if off is not None and n >= off)
    assert off is not None or pays(gains[max(gains)])
    earlier = [n for n in gains if off is not None and n < off]
    assert not earlier or pays(gains[max(earlier)])


def _said(sentence: str, n: int) -> bool:
    """Whether a reader would take it that speculation pays at a load."""
    numbers = [int(number) for number in re.findall(r"\d+", sentence)]
    if sentence.startswith("Leave"):
        return False
    if sentence.startswith("Switch speculation off from"):
        return n < numbers[0]
    if "answers at once on, not below" in sentence:
        return n >= numbers[0]
    ranges = re.findall(r"(\d+)(?: to (\d+))?", sentence)
    return any(int(low) <= n <= int(high or low) for low, high in ranges)


def test_sentences_word_for_word() -> None:
    assert Pays.of({1: 1.4, 2: 1.1, 4: 0.9, 8: 0.8}).sentence() == "Switch speculation off from 4 answers at once."
    assert Pays.of({1: 1.4, 2: 0.9, 4: 1.1}).sentence() == (
        "Speculation pays at 1 and 4 answers at once, not at other loads."
    )
    assert Pays.of({1: 0.9, 128: 1.2}).sentence() == "Speculation pays from 128 answers at once on, not below."
    assert Pays.of({1: 1.005}).sentence().startswith("Leave speculation off")
    assert Pays.of({8: 1.4}).sentence() == "Speculation pays at 8 answers at once."
    assert Pays.of({}).sentence() == ""


@given(
    rates=st.lists(st.lists(st.floats(0.5, 2.0), min_size=3, max_size=3), min_size=1, max_size=6),
    noise=st.floats(0.0, 0.3),
)
def test_a_smoothed_choice_loses_at_most_the_noise_and_rises_as_seldom_as_can_be(
    rates: list[list[float]], noise: float
) -> None:
    chosen = smoothed(rates, noise)
    assert all(row[place] >= max(row) * (1.0 - noise) for row, place in zip(rates, chosen, strict=True))
    near = [[p for p, rate in enumerate(row) if rate >= max(row) * (1.0 - noise)] for row in rates]
    level = max(near[0])  # the greedy path: as high as it may begin, down no further than it must
    for allowed in near[1:]:
        below = [p for p in allowed if p <= level]
        if not below:
            return
        level = max(below)
    assert chosen == sorted(chosen, reverse=True), "it can fall throughout, so it does"


@pytest.mark.parametrize("token", ["prompt-lookup", "draft-model"])
def test_depths_lose_at_most_the_noise(token: str) -> None:
    depths = Depths(World(deployment(draft="Qwen/Qwen3-0.6B", gpus=2, context=900, answer_tokens=400)))
    for size in (1, 8, 64, 512):
        best = max(depths._rate(Configuration(method=token, k2=k + 1), 1, size) for k in range(1, 8))
        mine = depths._rate(Configuration(method=token, k2=depths.k(token, 1, size) + 1), 1, size)
        assert mine >= best * (1.0 - NOISE)
    fixed = depths.fixed(token, 1, 64)
    assert 1 <= fixed.k <= 7
    assert 0.0 <= fixed.loss < 1.0
    assert depths.fixed(token, 1, 1).loss <= NOISE + 1e-9
    schedule = depths.schedule(token, 1, 64)
    drafted = [entry.k for entry in schedule.ranges]
    assert drafted == sorted(drafted, reverse=True)
    assert (schedule.at(63) > 0, schedule.at(64), schedule.at(1024)) == (True, 0, 0)


def test_batch_sizes_of_a_schedule_are_those_of_one_copy_of_the_attention() -> None:
    wanted = deployment(target=(r1 := "deepseek-ai/DeepSeek-R1"), head=own_layers(r1), gpus=8)
    depths, split = Depths(World(wanted)), Arrangement(tp=8, dp=8, replicas=1).split
    found = depths.schedule("eagle", split, 64)
    assert found.at(8) == 0
    assert all(found.at(n) == depths.k("eagle", split, 8 * n) for n in range(1, 8))


@pytest.mark.parametrize(
    ("target", "version", "sequences", "context", "configuration", "limit"),
    [
        ("Qwen/Qwen3-32B", "0.18.0", 1, 100.0, "autoregressive", "bandwidth"),
        ("Qwen/Qwen3-32B", "0.18.0", 1000, 100.0, "autoregressive", "arithmetic"),
        ("Qwen/Qwen3-8B", "0.18.0", 64, 30_000.0, "autoregressive", "cache reads"),
        ("Qwen/Qwen3-0.6B", "0.18.0", 1, 100.0, "autoregressive", "kernels"),
        ("Qwen/Qwen3-0.6B", "0.11.1", 256, 100.0, "autoregressive", "host"),
        ("Qwen/Qwen3-8B", "0.18.0", 1, 100.0, "draft-model k2=8", "draft"),
    ],
)
def test_what_runs_out_first(
    target: str, version: str, sequences: int, context: float, configuration: str, limit: str
) -> None:
    world = World(deployment(target=target, draft="Qwen/Qwen3-4B", engine=engine_named("vllm", version)))
    assert runs_out(world, Configuration.parse(configuration), 1, sequences, context) == limit
    assert limit in LIMITS


def planned(*answers: int, known: str = "") -> NamesPlan:
    wanted = deployment(head=head_of("Qwen/Qwen3-8B"), gpus=1, acceptance=known_acceptances([known]) if known else {})
    return plan_loads(wanted, [Load(concurrency=n) for n in answers], Limits(), ["eagle"])


@pytest.fixture(scope="module")
def plan() -> NamesPlan:
    return planned(1, 8)


def test_gains_of_heads_fall_beyond_the_prompts_of_their_priors(plan: NamesPlan) -> None:
    first, last = by_prompt(plan)
    assert (first.answers, last.answers) == (1, 8)
    for one in (first, last):
        assert list(one.gains) == [length for length in LENGTHS if length + 200 <= 40960], "Qwen3-8B reads no more"
        gains = list(one.gains.values())
        assert gains == sorted(gains, reverse=True)
    sentence = next(by_prompts(plan))
    assert sentence.startswith("By prompt, on the same GPUs, eagle3, k = ")
    assert f"with 1 at once, reading prompts not counted: 2k {first.gains[2048]:.2f}, 8k" in sentence


def test_a_draft_that_reads_less_ends_no_other_method_s_gains() -> None:
    target = "Qwen/Qwen3-Next-80B-A3B-Instruct"
    wanted = deployment(target=target, head=own_layers(target), draft="Qwen/Qwen3-0.6B", gpus=4)
    (found,) = by_prompt(plan_loads(wanted, [Load(concurrency=1)], Limits(), ["eagle"], curve=False))
    assert list(found.gains) == list(LENGTHS), "the draft reads 40,960 tokens"


@pytest.mark.parametrize(
    ("gains", "turns", "advice"),
    [
        ({2048: 1.5, 8192: 1.2, 32768: 0.9}, (11264,), "switch it off beyond 11k"),
        ({2048: 1.5, 8192: 1.2}, (), ""),
        ({2048: 0.9, 8192: 1.2}, (3072,), "switch it on from 3k"),
        ({2048: 1.2, 8192: 0.9, 32768: 1.2}, (3072, 20480), "switch it off beyond 3k and on from 20k"),
        ({}, (), ""),
    ],
)
def test_it_is_switched_on_and_off_where_that_turns(
    plan: NamesPlan, gains: dict[int, float], turns: tuple[int, ...], advice: str
) -> None:
    option = plan.loads[0][1][0].option
    assert ByPrompt(option=option, answers=1, gains=gains, turns=turns).advice == advice


@pytest.mark.parametrize(("known", "turns"), [("eagle3=0.2", True), ("", False)])
def test_plans_in_which_plain_decoding_is_best_tell_at_which_prompts_it_is_not(known: str, turns: bool) -> None:
    """A head that is seldom right loses while passes are bound by arithmetic, and gains where the cache binds them."""
    (found,) = by_prompt(planned(256, known=known))
    assert (found.turns != ()) == turns
    for turn in found.turns:
        shorter, longer = max(n for n in found.gains if n <= turn), min(n for n in found.gains if n > turn)
        assert pays(found.gains[shorter]) != pays(found.gains[longer])


def test_the_first_screen_says_which_gpus_idle_and_at_which_loads_answers_wait() -> None:
    sizes = {"gpu": "H100", "gpus": 3, "context": 40960, "answer_tokens": 1000, "no_curve": True}
    screen = plan_models("Qwen/Qwen3-8B", methods=["ngram"], concurrency=[1, 64], **sizes).text()
    assert "\nLoad 1: 1 of the 3 GPUs idles; a copy takes 2.\n" in screen
    assert "\nLoad 64: answers wait for room in the cache; more GPUs, --cache fp8 or a smaller" in screen


def test_one_k_is_compared_where_its_method_is_best() -> None:
    """The block drafter leaves too little cache for four answers: a head is best there, of which its k says nothing."""
    both = {"methods": ["dspark", "eagle3"], "no_curve": True}
    found = plan_models("Qwen/Qwen3-8B", gpu="RTX 4090", concurrency=[1, 4], **both)
    first, second = (rows[0].option.configuration for _, rows in found.plan.loads)
    assert first.token != second.token
    assert "Simpler" not in found.text()
    assert "To run it: " in found.text(), "the drafter came with a later version than the costs are of"
    elsewhere = plan_models("Qwen/Qwen3-8B", engine="sglang", concurrency=[1], methods=["dspark"], no_curve=True)
    assert "vLLM 0.25" not in elsewhere.text(), "SGLang is what runs"
    short = {"context": 900, "answer_tokens": 400, "methods": ["eagle3"], "no_curve": True}
    alike = plan_models("Qwen/Qwen3-8B", concurrency=[1, 64], **short).text()
    assert "Simpler: one k = 3 wherever eagle3 is best" in " ".join(alike.split())


def test_what_moves_the_gain_is_said_by_its_largest_part_over_the_loads() -> None:
    found = plan_models("Qwen/Qwen3-8B", concurrency=[1, 64], methods=["eagle3"], no_curve=True)
    most = max(part for _, rows in found.plan.loads for part in rows[0].errors.values())
    told = f"a factor of {math.exp(most):.2f} either way"
    assert f"Most of the interval, {told}, is token acceptance." in " ".join(found.text().split())
    assert f"which moves the gain by {told}; to narrow it" in " ".join(found.text(verbose=True).split())


def test_arrivals_that_plain_decoding_cannot_serve_have_no_gain() -> None:
    found = plan_models("Qwen/Qwen3-8B", methods=["eagle3"], rate=0.5, no_curve=True)
    assert "plain decoding cannot keep up" in found.text()
    for screen in (found.text(), found.text(verbose=True)):
        assert not re.search(r"\binf\b", screen)
    assert found.plain()["k_table"] is None, "nobody said how many answers are in flight at once"


def test_positions_that_were_not_measured_are_said_to_be_assumed(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("position,unconditional\n1,0.9\n2,0.81\n")
    for k, said in (
        (2, "2 positions of own.csv"),
        (3, "; position 3 is assumed"),
        (5, "; positions 3 to 5 are assumed"),
    ):
        found = plan_models("Qwen/Qwen3-8B", methods=["eagle3"], acceptance=[f"eagle3={file}"], k=str(k), no_curve=True)
        screen = " ".join(found.text().split())
        assert said in screen
        assert ("assumed to be accepted" in screen) == (k > 2)
