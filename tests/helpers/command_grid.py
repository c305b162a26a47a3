"""Commands for well-known models x GPU x arrangement x method, as a plan prints them."""

from collections.abc import Iterator
from typing import Final

from deployments import deployment, model

from calibrate.token_acceptance.schedule import BatchRange, Schedule
from sim.configuration import PLAIN, Configuration
from specplan.planning.loads.options import considered
from specplan.worlds.drafters.finding import family_draft, find_block, find_head
from specplan.worlds.request import Deployment, ServedModel
from specplan.worlds.running.settings import settings_of
from theory.errors import ParameterError
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named

TARGETS: Final = (
    "meta-llama/Llama-3.1-8B-Instruct",  # dense, EAGLE-3 head
    "meta-llama/Llama-3.3-70B-Instruct",
    "meta-llama/Llama-3.1-405B-Instruct-FP8",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-32B-FP8",
    "Qwen/QwQ-32B",  # no head
    "Qwen/Qwen2.5-72B-Instruct",
    "mistralai/Mistral-Small-24B-Instruct-2501",
    "google/gemma-3-27b-it",
    "microsoft/phi-4",
    "Qwen/Qwen3-30B-A3B",  # mixtures
    "Qwen/Qwen3-30B-A3B-FP8",
    "Qwen/Qwen3-235B-A22B-FP8",
    "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
    "openai/gpt-oss-20b",  # mxfp4
    "openai/gpt-oss-120b",
    "deepseek-ai/DeepSeek-R1",  # MTP layers, latent attention
    "zai-org/GLM-4.5-Air",
    "MiniMaxAI/MiniMax-M2",
    "deepseek-ai/DeepSeek-V4-Pro-0813",  # a block drafter in the checkpoint
)
GPUS: Final = ("H100", "H200", "B200")
_METHODS: Final = ("prompt-lookup", "draft-model", "eagle", "block-drafter")
_SCHEDULE: Final = Schedule((BatchRange(1, 15, 3), BatchRange(16, 63, 1), BatchRange(64, 1024, 0)))


def served(target: str, gpu: str, version: str, gpus: int = 8) -> Deployment:
    """A target on GPUs with the drafters that exist for it."""
    facts = model(target).facts
    head, block, draft = find_head(facts).facts, find_block(facts).facts, family_draft(facts)
    return deployment(
        target=target,
        head=None if head is None else ServedModel.published(head),
        block=None if block is None else ServedModel.published(block),
        draft=draft,
        gpu=gpu_named(gpu),
        gpus=gpus,
        engine=engine_named("vllm"),
        engine_version=version,
        context=8192,
        answer_tokens=4096,
    )


def commands(
    target: str, gpu: str, version: str = "0.32.0", gpus: int = 8
) -> Iterator[tuple[Deployment, Configuration, str]]:
    """Each command of vLLM for a target and a GPU, with what it runs; none where the GPUs do not hold it."""
    wanted = served(target, gpu, version, gpus)
    try:
        found = considered(wanted, _METHODS)
    except ParameterError:
        return
    places = [(PLAIN, place) for place in found.plain]
    places += [(Configuration(method=name, k2=4), place) for name, some in found.tokens.items() for place in some]
    for configuration, place in places:
        schedule = _SCHEDULE if configuration.token else None
        made = settings_of(wanted, configuration, place, sequences=64, schedule=schedule)
        yield from ((wanted, configuration, one) for one in made.commands if "vllm serve" in one)
