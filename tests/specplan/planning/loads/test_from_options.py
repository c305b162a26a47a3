"""From options to a deployment: what stands where an option is left out."""

import pytest

from specplan.planning.loads.click_options import DEPLOYMENT, LOADS
from specplan.planning.loads.from_options import deployment_plan
from theory.errors import ParameterError

LEFT_OUT = dict.fromkeys((*DEPLOYMENT, *LOADS, "gpu"))
SPARSE = {
    "target": "deepseek-ai/DeepSeek-V3.2",
    "gpus": 8,
    "tp": 8,
    "concurrency": "1",
    "no_curve": True,
    "max_accuracy_loss": 0.0,
}


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
