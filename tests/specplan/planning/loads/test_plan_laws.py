"""Laws of every plan from names, whatever the models, GPUs, engines and sizes; by mean values, within seconds."""

import math
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sim.configuration import PLAIN
from specplan.api.planning import plan_models
from specplan.planning.loads.load_plan import NamesPlan
from specplan.show.loads.words import assumed
from specplan.worlds.model_files import shape_of
from theory.errors import ParameterError
from theory.hardware.formats import FORMATS
from theory.hardware.gpus import gpu_named

TARGETS = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-14B-AWQ",
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
    "google/gemma-4-31B-it",
    "openai/gpt-oss-120b",
    "Qwen/Qwen3-30B-A3B-Instruct-2507",
    "zai-org/GLM-4.5-Air-FP8",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
)
FASTER = (
    ("A100 40GB", "A100"),
    ("A100", "H100"),
    ("H100", "H200"),
    ("H200", "B200"),
    ("B200", "B300"),
    ("L4", "L40S"),
    ("RTX 4090", "RTX 5090"),
    ("MI300X", "MI355X"),
)
"""GPUs, the second of each pair with at least as much memory, bandwidth and arithmetic."""
ANSWERS = (1, 8, 64)
WAITING = 0.8
"""Share of the tokens per second that is left with more answers, at least: of a full cache requests lose places."""

SIZES = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from((1, 2, 4, 8)),
        "context": st.sampled_from((2048, 8192, 32768)),
        "engine": st.sampled_from(("vllm", "vllm:0.11.1", "sglang", "trtllm")),
    }
)
SEARCH = settings(max_examples=4, suppress_health_check=list(HealthCheck))


def planned(target: str, gpu: str, **sizes: Any) -> NamesPlan:
    """The plan by mean values; an example that is refused does not count."""
    more = {"answer_tokens": 1024, "concurrency": ANSWERS, "budget": 1e-6, **sizes}
    try:
        return plan_models(target, gpu=gpu, **more).plan
    except ParameterError:  # too little memory, or an engine that does not run there
        assume(False)
        raise


def plain_rates(plan: NamesPlan) -> list[float]:
    """Tokens per second of plain decoding by load."""
    return [next(row.tokens_per_s for row in rows if row.option.configuration == PLAIN) for _, rows in plan.loads]


@SEARCH
@given(target=st.sampled_from(TARGETS), gpu=st.sampled_from([one for pair in FASTER for one in pair]), sizes=SIZES)
def test_a_plan_breaks_no_law_of_physics_or_of_its_own_statements(target: str, gpu: str, sizes: dict[str, Any]) -> None:
    plan, facts = planned(target, gpu, **sizes), shape_of(target)
    rates = plain_rates(plan)
    for (few, slow), (many, fast) in pairwise(zip(ANSWERS, rates, strict=True)):
        assert WAITING * slow <= fast <= 1.05 * slow * many / few
    least = min(
        FORMATS[name].bytes_per_number for name in (facts.precision.weights, facts.precision.expert_format.name)
    )
    readings = facts.shape.active_parameters * least / gpu_named(gpu).sheet.bandwidth
    assert rates[0] * readings < sizes["gpus"], "each token reads the active weights, those that are looked up left out"
    for (_, rows), plain in zip(plan.loads, rates, strict=True):
        for row in rows:
            gain, configuration = row.gain, row.option.configuration
            per_round = max((one.value for one in assumed(plan.deployment, configuration)), default=1.0)
            assert gain.low <= gain.value <= min(gain.high, 1.001 * per_round)
            assert math.isclose(row.tokens_per_s, gain.value * plain, rel_tol=0.01)
            assert (gain.high > 1.05 * gain.value) == (configuration != PLAIN)
            assert row.option.arrangement.gpus <= plan.deployment.gpus == sizes["gpus"]


@SEARCH
@given(target=st.sampled_from(TARGETS), pair=st.sampled_from(FASTER), sizes=SIZES)
def test_a_larger_gpu_more_of_them_and_shorter_prompts_are_no_slower(
    target: str, pair: tuple[str, str], sizes: dict[str, Any]
) -> None:
    sizes = {**sizes, "methods": ["ngram"]}
    rates = plain_rates(planned(target, pair[0], **sizes))
    others = [planned(target, pair[1], **sizes)]
    if sizes["gpus"] < 8:
        others.append(planned(target, pair[0], **{**sizes, "gpus": 2 * sizes["gpus"]}))
    if sizes["context"] > 2048:
        others.append(planned(target, pair[0], **{**sizes, "context": 2048}))
    for other in others:
        for before, after in zip(rates, plain_rates(other), strict=True):
            assert after >= 0.97 * before
