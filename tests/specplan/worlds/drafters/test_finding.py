"""What exists for a target, and which pairs are none."""

from dataclasses import replace

import pytest
from refusals import refused

from specplan.worlds.configs.blocks import BlockSizes
from specplan.worlds.drafters.finding import (
    _table,
    check_draft,
    check_head,
    family_draft,
    find_block,
    find_head,
    head_named,
    published_heads,
)
from specplan.worlds.drafters.naming import head_kind
from specplan.worlds.known_models import known_models
from specplan.worlds.model_files import shape_of
from specplan.worlds.request import ServedModel
from theory.errors import ParameterError
from theory.hardware.shapes import Experts

LLAMA, LMSYS = "meta-llama/Llama", "lmsys/SGLang-EAGLE3-Llama"
HEAD_32B, HEAD_70B = "RedHatAI/Qwen3-32B-speculator.eagle3", "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B"


@pytest.mark.parametrize(
    ("target", "head", "draft"),
    [
        ("deepseek-ai/DeepSeek-R1", "mtp", None),
        ("XiaomiMiMo/MiMo-V2-Flash", "mtp", None),
        ("google/gemma-4-31B-it", "google/gemma-4-31B-it-assistant", "google/gemma-4-E2B-it"),
        *((name, HEAD_32B, "Qwen/Qwen3-0.6B") for name in ("Qwen/Qwen3-32B", "Qwen/Qwen3-32B-FP8")),
        (f"{LLAMA}-3.3-70B-Instruct", HEAD_70B, f"{LLAMA}-3.2-1B-Instruct"),
        ("openai/gpt-oss-120b", "nvidia/gpt-oss-120b-Eagle3-v2", None),
        ("Qwen/Qwen2.5-72B-Instruct", None, "Qwen/Qwen2.5-7B-Instruct"),  # smaller ones have another vocab_size
        ("Qwen/Qwen3-0.6B", None, None),
        ("google/gemma-2-27b-it", None, "google/gemma-2-2b-it"),  # gemma-2b is of another generation
        (f"{LLAMA}-4-Maverick-17B-128E-Instruct-FP8", "nvidia/Llama-4-Maverick-17B-128E-Eagle3", None),
    ],
)
def test_what_exists_for_well_known_targets(target: str, head: str | None, draft: str | None) -> None:
    facts = shape_of(target)
    found = find_head(facts).facts
    assert (None if found is None else "mtp" if found.architecture == "mtp" else found.name) == head
    assert family_draft(facts) == draft
    if found is not None:
        check_head(facts, found)
    if draft is not None:
        check_draft(facts, shape_of(draft), tokens=True)
        assert facts.shape.vocab == shape_of(draft).shape.vocab


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "Qwen/Qwen3-30B-A3B-Instruct-2507"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", None),
    ],
)
def test_a_draft_of_the_family_reads_what_the_target_is_to_read(target: str, draft: str | None) -> None:
    assert family_draft(shape_of(target), 40_960) == "Qwen/Qwen3-0.6B"
    assert family_draft(shape_of(target), 100_000) == draft


def test_every_published_head_is_of_a_known_target_and_fits_it() -> None:
    known = {name for model in known_models() for name in model.names}
    for one in _table():
        assert (one.block is not None) == (one.drafts == "block")
        for target in one.targets:
            assert target in known
            if one.drafts == "block":
                block = find_block(shape_of(target), [one.method], named=one.head).facts
                assert (block.name, block.architecture, block.block) == (one.head, one.method, one.sizes)
                check_head(shape_of(target), block, "block")
            else:
                found = find_head(shape_of(target), [one.method]).facts
                assert found.name == one.head or one not in published_heads(target)[:1]
                check_head(shape_of(target), found)
                assert head_kind(ServedModel.published(found)) == one.method


def test_what_is_passed_over_has_a_reason() -> None:
    assert {"suffix", "medusa"} <= set(find_head(shape_of("Qwen/Qwen3-8B")).passed_over)
    both = replace(shape_of("Qwen/Qwen3-8B"), next_token_layers=1)
    chosen = find_head(both)
    assert chosen.facts.architecture == "mtp"
    assert "--eagle RedHatAI/Qwen3-8B-speculator.eagle3" in chosen.passed_over["eagle3"]
    wanted = find_head(both, ["eagle3"]).facts
    assert wanted.name == "RedHatAI/Qwen3-8B-speculator.eagle3"


def test_dspark_is_planned_before_dflash_and_any_other_by_name() -> None:
    target = shape_of("Qwen/Qwen3-8B")
    first = find_block(target)
    assert (first.facts.architecture, first.facts.block) == ("dspark", BlockSizes(least=1, trained=7, most=7))
    assert "--block z-lab/Qwen3-8B-DFlash-b16" in first.passed_over["dflash"]
    other = find_block(target, named="z-lab/qwen3-8b-dflash-b16").facts
    assert (other.architecture, other.block) == ("dflash", BlockSizes(least=1, trained=15, most=15))
    assert find_block(shape_of("Qwen/Qwen3-32B")).facts is None


def test_a_drafter_in_the_checkpoint_has_the_target_s_layers() -> None:
    target = shape_of("deepseek-ai/DeepSeek-V4-Pro-0813")
    own = find_block(target).facts
    assert own.in_target
    assert own.shape.n_layers == 3
    assert own.shape.has_experts
    assert own.precision == target.precision
    assert own.block == BlockSizes(least=1, trained=5, most=7)
    assert find_block(shape_of("deepseek-ai/DeepSeek-V4-Pro")).facts is None


def test_layers_of_a_block_drafter_may_have_fewer_experts_and_predict_nothing_one_by_one() -> None:
    target = shape_of("deepseek-ai/DeepSeek-V4.1-Flash")
    own = find_block(target).facts
    (layers,) = own.shape.layers
    assert isinstance(layers.feed_forward, Experts)
    assert (layers.count, layers.feed_forward.count, layers.feed_forward.per_token) == (3, 128, 3)
    assert own.shape.parameters - own.shape.embeddings == pytest.approx(3 * 128 * 3 * 5120 * 2304, rel=0.05)
    assert find_head(target).facts is None


QWEN = "Qwen/Qwen3-8B"
HEADS = {"block": find_block(shape_of(QWEN)).facts, "head": find_head(shape_of(QWEN)).facts}
test_what_is_no_head_of_a_target_is_refused_by_what_differs = refused(
    lambda target, head, option="eagle": check_head(shape_of(target), HEADS.get(head) or shape_of(head), option),
    ("Qwen/Qwen3-32B", f"{LMSYS}-3.3-70B-Instruct-Specforge", "hidden_size 8192, not 5120"),
    ("Qwen/Qwen3-32B", HEAD_70B, "target_hidden_size 8192, not 5120"),
    ("Qwen/Qwen3-14B", "lmsys/SGLang-EAGLE3-Llama-4-Scout-17B-16E-Instruct-SpecForge", "vocab_size 202048, not 151936"),
    (QWEN, QWEN, "num_hidden_layers 36, heads have at most 8"),
    (QWEN, "block", "eagle", "drafts blocks .dspark.: name it with --block"),
    (QWEN, "head", "block", "drafts token by token: name it with --eagle"),
    (QWEN, QWEN, "block", "is no block drafter: num_hidden_layers 36, block drafters have at most 8"),
)


def test_a_published_head_may_be_named_for_its_target_and_for_models_of_its_sizes() -> None:
    target, head = shape_of("Qwen/Qwen3-32B"), HEAD_32B
    assert head_named(head, target) == find_head(target).facts
    assert head_named(head.lower(), replace(target, name="my fine-tuned copy")).name == head
    with pytest.raises(ParameterError, match=f"eagle='{head}' is a head of Qwen/Qwen3-32B, not of Qwen/Qwen3-8B"):
        head_named(head, shape_of("Qwen/Qwen3-8B"))
    assert head_named(HEAD_70B, target).reads_hidden == 8192, "known by its own sizes"


def test_a_draft_of_another_vocabulary_may_draft_steps_but_no_tokens() -> None:
    target, draft = shape_of("meta-llama/Llama-3.3-70B-Instruct"), shape_of("Qwen/Qwen3-0.6B")
    with pytest.raises(ParameterError, match="vocab_size 151936, not 128256; take a draft of the target's family"):
        check_draft(target, draft, tokens=True)
    check_draft(target, draft, tokens=False)
    padded = shape_of("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B"), shape_of("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B")
    check_draft(*padded, tokens=True)  # one tokenizer, embeddings padded to 152064 and 151936
