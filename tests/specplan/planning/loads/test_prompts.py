"""Up to which prompts speculation pays."""

import pytest
from deployments import deployment, head_of, own_layers

from specplan.planning.loads.load_plan import NamesPlan, plan_loads
from specplan.planning.loads.options import pays
from specplan.planning.loads.statements import LENGTHS, ByPrompt, by_prompt
from specplan.show.loads.words import by_prompts
from specplan.worlds.drafters.known_acceptance import known_acceptances
from specplan.worlds.request import Limits, Load


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
