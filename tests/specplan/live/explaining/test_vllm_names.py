"""The names under which the installed vLLM counts are those that are read."""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

from specplan.live.explaining.reading import _HISTOGRAMS, _USAGE, COUNTERS


def names_in(*files: str) -> set[str]:
    found = find_spec("vllm")
    assert found is not None
    assert found.submodule_search_locations
    trees = (ast.parse((Path(found.submodule_search_locations[0]) / file).read_text()) for file in files)
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.vllm
def test_vllm_counts_under_the_names_that_are_read() -> None:
    written = names_in("v1/metrics/loggers.py", "v1/spec_decode/metrics.py")
    counters = {name.removesuffix("_total") for name in COUNTERS["vllm"].values()}  # prometheus_client adds the ending
    assert counters <= written
    assert set(_HISTOGRAMS["vllm"].values()) <= written
    assert {_USAGE["vllm"], "vllm:cache_config_info"} <= written
    spec = ("drafts", "draft_tokens", "accepted_tokens", "accepted_tokens_per_pos")
    assert {f"vllm:spec_decode_num_{name}" for name in spec} <= written
