"""Commands for well-known models hold together: GPUs, splits, experts and what drafts."""

import pytest
from command_grid import GPUS, TARGETS, commands
from told_commands import told

from specplan.worlds.drafters.naming import block_kind, head_kind
from theory.hardware.shapes import Experts


@pytest.mark.parametrize("target", TARGETS)
def test_every_command_uses_the_gpus_that_it_names_and_breaks_no_block(target: str) -> None:
    seen = set()
    for gpu in GPUS:
        for wanted, configuration, command in commands(target, gpu):
            values = told(command)
            devices = len(values["gpus"])
            tp, dp = (int(values.get(f"--{name}-parallel-size", "1")) for name in ("tensor", "data"))
            assert tp * dp == devices
            assert values["served"] == wanted.target.name
            whole = "--enable-expert-parallel" in values
            for group in wanted.target.facts.shape.layers:
                forward = group.feed_forward
                assert group.attention.heads % tp == 0
                if isinstance(forward, Experts):
                    blocks = wanted.target.precision.expert_format.name == "fp8-block" and not whole
                    assert forward.intermediate % (128 * tp if blocks else 1) == 0
                    assert not whole or forward.count % devices == 0
            config = values.get("--speculative-config", {})
            assert bool(config) == configuration.speculates
            seen.add(config.get("method"))
            if configuration.token == "eagle":
                assert config["method"] == head_kind(wanted.head)
            if configuration.token == "block-drafter":
                assert config["method"] == block_kind(wanted.block)
                assert ("model" in config) != wanted.block.facts.in_target
    assert {None, "ngram"} <= seen, "plain decoding and n-grams run everywhere"
