"""What a plan recommends as settings of engines besides vLLM: SGLang, TensorRT-LLM.

SGLang's adaptive file counts draft steps, from a batch size on. No steps switch drafting off there (0.5.23 reads it so;
releases that could not do without wanted 1 at least). TensorRT-LLM (1.4) reads a file, and drafts one number of tokens
up to a batch size.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from specplan.worlds.arrangements import parallel_of
from specplan.worlds.configs.families import REMOTE
from specplan.worlds.drafters.naming import drafter_name
from specplan.worlds.memory import ENGINE_SHARE
from theory.hardware.passes import attends_generally
from theory.hardware.sharding import cache_bytes_per_gpu

if TYPE_CHECKING:
    from calibrate.token_acceptance.schedule import Schedule
    from sim.configuration import Configuration
    from specplan.worlds.arrangements import Arrangement
    from specplan.worlds.request import Deployment
    from theory.hardware.work import Parallel

__all__ = ["SGLANG_SINCE", "sglang_adaptive", "sglang_algorithm", "sglang_command", "trtllm_file"]

SGLANG_SINCE: Final[Mapping[str, str]] = {
    "EAGLE3": "0.5.23",  # reads the adaptive table
    "EAGLE": "0.5.23",
    "NEXTN": "0.5.16",  # its cookbook's version
    "DFLASH": "0.5.11",  # its release notes
    "DSPARK": "0.5.16",  # its release notes
}
"""The first version that takes an algorithm as it is printed."""
_NGRAM: Final = 3
_TRTLLM: Final = dict(mtp="MTP", eagle3="Eagle3", dflash="DFlash", draft_model="Draft_Target", ngram="NGram")
"""Engines' name of a method -> TensorRT-LLM's ``decoding_type``."""


def sglang_adaptive(schedule: Schedule) -> dict[str, Any]:
    """Return SGLang's ``--speculative-adaptive-config``: draft steps to choose from, from a batch size on.

    Where tokens are drafted SGLang may go down to one by what it sees accepted; where none are, it drafts none.
    """
    return {
        str(entry.first): {"candidate_steps": sorted({1, entry.k}) if entry.k else [0]} for entry in schedule.ranges
    }


def sglang_algorithm(deployment: Deployment, token: str | None) -> str:
    """Return SGLang's name of a method whose drafter has weights; empty where no command is printed.

    The target's own layers and assistants are printed where SGLang is planned for: elsewhere vLLM's command does.
    """
    name = "" if token in (None, "prompt-lookup", "draft-model") else drafter_name(deployment, str(token))
    if name == "mtp":
        if deployment.engine.name != "sglang":
            return ""
        return "EAGLE" if deployment.head is not None and deployment.head.facts.in_target else "NEXTN"
    return "EAGLE3" if name in ("eagle", "eagle3") else name.upper()


def sglang_command(
    deployment: Deployment,
    configuration: Configuration,
    models: tuple[str, str],
    schedule: Schedule | None,
    arrangement: Arrangement,
    sequences: int,
) -> str:
    """Return the command of a server, for plain decoding without a schedule or an algorithm of SGLang's.

    Parameters
    ----------
    models : names of target and drafter, empty if that is in the target.
    sequences : in flight at most; SGLang, not told, speculates on 48 over all copies of attention (0.5.23).
    """
    algorithm, (target, drafter) = sglang_algorithm(deployment, configuration.token), models
    model, parallel = deployment.target, parallel_of(deployment.target, arrangement.split)
    words = ["python", "-m", "sglang.launch_server", "--model-path", target]
    words += ["--trust-remote-code"] if model.facts.architecture in REMOTE else []
    words += ["--tp", str(arrangement.tp), "--context-length", str(deployment.context)]
    words += ["--max-running-requests", str(-(-sequences // parallel.dp) * parallel.dp)]
    words += _room_for_states(deployment, configuration, parallel)
    words += ["--dp", str(parallel.dp), "--enable-dp-attention"] if parallel.dp > 1 else []
    words += ["--ep", str(parallel.ep)] if parallel.ep > 1 else []
    words += ["--quantization", "fp8"] if model.quantised_on_loading else []
    words += ["--kv-cache-dtype", "fp8_e4m3"] if model.precision.cache == "fp8" else []
    general = attends_generally("sglang", deployment.gpu.name, model.facts.shape)
    words += ["--attention-backend", "triton"] if general else []
    if schedule is None or not algorithm:
        return shlex.join(words)
    words += ["--speculative-algorithm", algorithm]
    if drafter:
        words += ["--speculative-draft-model-path", drafter]
    fixed = algorithm == "NEXTN"  # an assistant drafts a token at least (sgl-project/sglang#24436): no table ends it
    if fixed or algorithm.startswith("EAGLE"):
        steps = configuration.k2 - 1 if fixed else max(schedule.most, 1)
        words += ["--speculative-num-steps", str(steps), "--speculative-eagle-topk", "1"]
        words += ["--speculative-num-draft-tokens", str(steps + 1)]
        words += [] if fixed else ["--speculative-adaptive", "--speculative-adaptive-config", "adaptive.json"]
    elif algorithm == "DFLASH":  # counts the token before the block
        words += ["--speculative-num-draft-tokens", str(configuration.k2)]
    else:
        words += ["--speculative-dspark-block-size", str(configuration.k2 - 1)]
    return shlex.join(words)


def _room_for_states(deployment: Deployment, configuration: Configuration, parallel: Parallel) -> list[str]:
    """Divide SGLang's memory as answers of the planned context fill it: its default suits answers of another length."""
    shape, copies = deployment.target.facts.shape, deployment.engine.kept_states(configuration.k2)
    if not shape.has_states:
        return []
    states, whole = (
        cache_bytes_per_gpu(shape, deployment.target.precision, parallel, tokens, copies)
        for tokens in (0.0, float(deployment.context))
    )
    return ["--mamba-full-memory-ratio", f"{states / (whole - states):.2g}"]


def trtllm_file(
    deployment: Deployment, configuration: Configuration, drafter: str, schedule: Schedule | None
) -> dict[str, Any] | None:
    """Return the file of ``trtllm-serve --extra_llm_api_options``; None where it has no setting for what drafts.

    Parameters
    ----------
    drafter : name of the drafter's weights; empty: none of its own.
    schedule : drafted tokens by batch size, of which the largest batch that drafts any is kept.
    """
    cache, share = deployment.target.precision.cache, deployment.memory_share
    settings: dict[str, Any] = {"dtype": cache} if cache != "bf16" else {}
    settings |= {"free_gpu_memory_fraction": share} if share != ENGINE_SHARE else {}
    found: dict[str, Any] = {"kv_cache_config": settings} if settings else {}
    if configuration.token is None:
        return found
    name = drafter_name(deployment, configuration.token)
    if name not in _TRTLLM or (name == "mtp" and drafter):  # 1.4 drafts with MTP layers of the target alone
        return None
    config: dict[str, Any] = {"decoding_type": _TRTLLM[name], "max_draft_len": configuration.k2 - 1}
    config |= {"speculative_model": drafter} if drafter else {}
    config |= {"max_matching_ngram_size": _NGRAM} if name == "ngram" else {}
    off = [] if schedule is None else [entry.first for entry in schedule.ranges if not entry.k]
    config |= {"max_concurrency": off[0] - 1} if off and off[0] > 1 else {}
    return {**found, "speculative_config": config}
