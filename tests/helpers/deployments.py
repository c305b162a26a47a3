"""Small deployments: a Qwen3 target on H100 GPUs, with short answers so that plans take no time."""

from functools import cache
from typing import Any

from specplan.planning.loads.options import Option
from specplan.worlds.arrangements import Arrangement
from specplan.worlds.drafters.finding import find_block
from specplan.worlds.model_files import draft_head, shape_of
from specplan.worlds.request import Deployment, Load, ServedModel
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named


@cache
def model(name: str) -> ServedModel:
    """A well-known model in the formats that it is published in."""
    return ServedModel.published(shape_of(name))


@cache
def head_of(name: str) -> ServedModel:
    """An EAGLE head of the usual size for a model."""
    return ServedModel.published(draft_head(model(name).facts, "eagle3"))


@cache
def own_layers(name: str) -> ServedModel:
    """The layers for further tokens of a model that has them."""
    return ServedModel.published(draft_head(model(name).facts, "mtp"))


@cache
def block_of(name: str, drafter: str = "") -> ServedModel:
    """The block drafter that is published for a model: the one of a name, or the first."""
    facts = find_block(model(name).facts, named=drafter).facts
    assert facts is not None
    return ServedModel.published(facts)


def deployment(**changed: Any) -> Deployment:
    """Qwen3-8B on one H100, answers of 200 tokens after prompts of 100; changed as told."""
    told: dict[str, Any] = {
        "target": "Qwen/Qwen3-8B",
        "gpu": gpu_named("H100"),
        "gpus": 1,
        "engine": engine_named("vllm"),
        "context": 300,
        "answer_tokens": 200,
        **changed,
    }
    for role in ("target", "draft", "judge"):
        if isinstance(told.get(role), str):
            told[role] = model(told[role])
    return Deployment(**told)


def arrangement_of(tp: int = 1, replicas: int = 1, own_gpus: int = 0) -> Arrangement:
    """An arrangement of a target alone, or with GPUs of its draft's own."""
    return Arrangement(tp=tp, replicas=replicas, own_gpus=own_gpus, drafting="own" if own_gpus else "none")


def option(configuration: Any, **arrangement: int) -> Option:
    """A configuration on an arrangement."""
    return Option(configuration, arrangement_of(**arrangement))


def closed(*answers: int) -> list[Load]:
    """Loads of so many answers at once."""
    return [Load(concurrency=n) for n in answers]
