"""Block drafters from configurations, their known acceptance, and when an engine cannot serve them."""

from typing import Any

import numpy as np
import pytest
from deployments import block_of, deployment
from refusals import refused

from specplan.planning.loads.options import considered
from specplan.planning.loads.schedule import Depths
from specplan.worlds.beliefs import Beliefs
from specplan.worlds.configs.blocks import BlockSizes, usual_sizes
from specplan.worlds.drafters.finding import check_head
from specplan.worlds.drafters.known_acceptance import KnownAcceptance, known_acceptances
from specplan.worlds.drafters.naming import drafter_name, drafters
from specplan.worlds.model_files import block_drafter, facts_of_config, shape_of
from specplan.worlds.world import World
from theory.block_drafting import DFLASH, at_length
from theory.errors import ParameterError, SchemaError

V4 = "deepseek-ai/DeepSeek-V4-Pro-0813"
LAYERS = {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}
PLAIN_FILE = {
    **LAYERS,
    "architectures": ["DFlashDraftModel"],
    "block_size": 16,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
}
SPECULATORS = {
    "architectures": ["DSparkSpeculator"],
    "speculators_model_type": "dspark",
    "block_size": 8,
    "draft_vocab_size": 32000,
    "aux_hidden_state_layer_ids": [2, 18, 33],
    "transformer_layer_config": LAYERS,
}


def facts(config: dict[str, Any]) -> Any:
    return facts_of_config(config, name="drafter", where="config.json")


def test_a_configuration_tells_the_method_and_the_size_of_its_blocks() -> None:
    """DFlash's first position is the last token; DSpark's drafts already (`sample_from_anchor`)."""
    plain, other = facts(PLAIN_FILE), facts(SPECULATORS)
    assert (plain.architecture, plain.block) == ("dflash", BlockSizes(least=1, trained=15, most=15))
    assert (other.architecture, other.block) == ("dspark", BlockSizes(least=1, trained=8, most=8))
    nested = {key: value for key, value in PLAIN_FILE.items() if key != "block_size"}
    nested["dflash_config"] = {**PLAIN_FILE["dflash_config"], "block_size": 10}
    assert facts(nested).block == BlockSizes(least=1, trained=9, most=9)
    assert facts({**SPECULATORS, "sample_from_anchor": False}).block.most == 7
    assert facts({**SPECULATORS, "markov_rank": 0}).architecture == "dflash", (
        "DSpark without the head that knows the token before"
    )
    for one in (plain, other):
        check_head(shape_of("Qwen/Qwen3-8B"), one, "block")


def test_a_drafter_reads_the_joined_states_and_shares_embeddings() -> None:
    dense = facts_of_config({**LAYERS, "tie_word_embeddings": True}, name="five layers", where="config.json")
    plain, other = facts(PLAIN_FILE), facts(SPECULATORS)
    joins = plain.shape.parameters - dense.shape.parameters
    assert joins == pytest.approx(5 * 4096 * 4096, rel=0.01)
    assert other.shape.vocab == 32000
    assert other.shape.parameters < plain.shape.parameters
    usual = block_drafter(shape_of("Qwen/Qwen3-8B"), "dflash")
    assert usual.shape.parameters == pytest.approx(plain.shape.parameters, rel=0.01)
    assert usual.block == usual_sizes("dflash")


test_sizes_that_are_none_are_one_line = refused(
    lambda size: facts({**PLAIN_FILE, "block_size": size}),
    *(
        (size, r"block_size: must be an integer in \[2, 64\] in the configuration")
        for size in (None, 0, 1, 66, True, "16", 7.0)
    ),
    error=SchemaError,
)
test_sizes_rise = refused(
    lambda least, trained, most: BlockSizes(least=least, trained=trained, most=most),
    *((*sizes, "must rise from 1 to at most 64") for sizes in ((0, 1, 1), (2, 1, 3), (1, 4, 3), (1, 1, 65))),
)


@pytest.mark.parametrize(("drafter", "method"), [("", "dspark"), ("z-lab/Qwen3-8B-DFlash-b16", "dflash")])
def test_acceptance_is_of_the_engines_method_and_of_the_length_of_the_block(drafter: str, method: str) -> None:
    known = known_acceptances([f"{method}=3.0/round@7"])
    wanted = deployment(block=block_of("Qwen/Qwen3-8B", drafter), acceptance=known)
    assert drafter_name(wanted, "block-drafter") == method
    assert method in drafters(wanted)
    beliefs = Beliefs(wanted)
    assert beliefs.tokens_per_pass("block-drafter", 8) == pytest.approx(3.0)
    short, long = (beliefs.accepted("block-drafter", k2) for k2 in (4, 16))
    assert short[0] > beliefs.accepted("block-drafter", 8)[0] > long[0]
    assert beliefs.moves(steps=False, token="block-drafter") == ()
    other = "dflash" if method == "dspark" else "dspark"
    unknown = Beliefs(deployment(block=wanted.block, acceptance=known_acceptances([f"{other}=3.0/round@7"])))
    assert unknown.moves(steps=False, token="block-drafter") == ("token acceptance",), "what is known is of one method"


def test_a_rate_without_the_tokens_it_was_measured_with_holds_at_any_length() -> None:
    known = known_acceptances(["dflash=0.7"])["dflash"]
    assert known.of_block(15, DFLASH) == (0.7,) * 15
    measured = known_acceptances(["dflash=2.6/round@3"])["dflash"]
    assert measured.of_block(3, DFLASH) == pytest.approx(measured.first(3))
    assert np.allclose(measured.of_block(15, DFLASH), at_length(measured.first(15), 3, 15))


def test_only_tokens_that_the_blocks_have_are_drafted() -> None:
    own = deployment(target=V4, gpus=8, block=block_of(V4))
    assert list(Depths(World(own)).ks("block-drafter")) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({"block": None}, "a block drafter (DFlash, DSpark); none for the target is in the table (--block)"),
        ({"k": 9}, "--k of 1 to 7: that is what its blocks draft"),
        ({"engine_version": "0.18.0"}, "vllm 0.25 or later: 0.18.0 has no dspark"),
        (
            {"engine_version": "0.19.1", "block": block_of("Qwen/Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16")},
            "vllm 0.20 or later: 0.19.1 has no dflash",
        ),
    ],
)
def test_what_an_engine_cannot_serve_is_said_in_one_line(changed: dict[str, Any], missing: str) -> None:
    wanted = deployment(**{"block": block_of("Qwen/Qwen3-8B"), **changed})
    assert considered(wanted, ["block-drafter"]).unknown["block-drafter"] == (missing,)


def test_tokens_per_round_of_blocks_that_nobody_drafts_are_refused() -> None:
    """Unless they were measured position by position."""
    block = block_of("Qwen/Qwen3-8B")
    with pytest.raises(ParameterError, match=r"acceptance='dspark at k = 9' must be measured at a k of 1 to 7 \(@K\)"):
        deployment(block=block, acceptance=known_acceptances(["dspark=3/round@9"]))
    curve = KnownAcceptance(per_position=(0.5,) * 9, source="measured", drafted=9)
    assert deployment(block=block, acceptance={"dspark": curve}).acceptance
