"""A plan under load as something to paste: commands of the servers, and how many tokens to draft by batch size.

vLLM's table counts drafted tokens (k2 - 1) by sequences in the batch. Other engines: `other_engines`.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from calibrate.engines.token_vocabulary import OF_VLLM
from calibrate.token_acceptance.schedule import Schedule
from specplan.worlds.arrangements import Split, parallel_of
from specplan.worlds.configs.families import REMOTE
from specplan.worlds.drafters.naming import block_kind, drafter_name, drafting_model
from specplan.worlds.memory import ENGINE_SHARE
from specplan.worlds.running.flags import first_with, has
from specplan.worlds.running.other_engines import (
    SGLANG_SINCE,
    sglang_adaptive,
    sglang_algorithm,
    sglang_command,
    trtllm_file,
)

if TYPE_CHECKING:
    from sim.configuration import Configuration
    from specplan.worlds.arrangements import Arrangement
    from specplan.worlds.request import Deployment, ServedModel

__all__ = ["HELPER_CACHE", "Settings", "settings_of", "step_client", "vllm_command"]

_FIRST_PORT: Final = 8000
_FIRST_MACHINE: Final = "<first machine>"
_NGRAM: Final = 3
_SPECULATORS: Final = "-speculator."
"""Part of the names of drafters whose configuration vLLM reads since vllm-project/vllm#21345: in SGLang's and
TensorRT-LLM's code that was searched nothing reads its ``transformer_layer_config``."""
HELPER_CACHE: Final = 4e9
"""Room for the cache and the working memory of a draft or a judge that shares its GPU, B."""
_ADAPTIVE: Final = "enable_adaptive_verification"
_OF_ADAPTIVE: Final = (
    "vLLM verifies those of the drafted tokens that pay at the batch of the moment; it wants full CUDA graphs, one "
    "pipeline stage and no adapters"
)
_TABLE: Final = "num_speculative_tokens_per_batch_size"
_GRAPHED: Final = range(513, 2049)
"""Tokens of the largest batch for which vLLM is told to capture graphs: beyond 512 (on Blackwell since
vllm-project/vllm#49390 1,024) it has none unless told, and rounds of DeepSeek-V4 took five times as long there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to start for one load."""

    commands: tuple[str, ...]
    schedule: Schedule | None
    """Tokens drafted per round by batch size; None where no tokens are drafted."""
    adaptive: Mapping[str, Any] | None = field(hash=False)
    """SGLang's adaptive configuration; None but for heads that draft token by token."""
    trtllm: Mapping[str, Any] | None = field(hash=False)
    """TensorRT-LLM's file of settings; None where its commands are not printed."""
    client: Mapping[str, Any] | None = field(hash=False)
    """Settings of the step-level client; None where no steps are drafted."""
    notes: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Which vLLM the commands need, where the user did not say which one runs; also among the notes."""

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "commands": list(self.commands),
            "num_speculative_tokens_per_batch_size": None if self.schedule is None else self.schedule.plain(),
            "sglang_adaptive": None if self.adaptive is None else dict(self.adaptive),
            "trtllm": None if self.trtllm is None else dict(self.trtllm),
            "client": None if self.client is None else dict(self.client),
            "notes": list(self.notes),
        }


def settings_of(
    deployment: Deployment,
    configuration: Configuration,
    arrangement: Arrangement,
    *,
    sequences: int,
    schedule: Schedule | None,
) -> Settings:
    """Return the commands of a configuration."""
    config, notes = _speculation(deployment, configuration, arrangement, schedule)
    steps = configuration.spec.drafts_steps
    commands = [
        command
        for port, server in enumerate(_servers(deployment, arrangement, steps=steps), _FIRST_PORT)
        for command in _vllm(
            deployment, server, port, sequences, config if server.model is deployment.target else None, cached=steps
        )
    ]
    needs = tuple(_later_versions(deployment, configuration, arrangement))
    notes += [*needs, *_machines(deployment, arrangement)]
    drafter = drafting_model(deployment, configuration.token)
    models = (
        _served_name(deployment.target),
        "" if drafter is None or drafter.facts.in_target else _served_name(drafter),
    )
    engine, of_one = deployment.engine.name, not steps and arrangement.pp == 1
    file = trtllm_file(deployment, configuration, models[1], schedule) if engine == "trtllm" and of_one else None
    algorithm = "" if file is not None or not of_one else sglang_algorithm(deployment, configuration.token)
    if arrangement.dp > 1 and algorithm == "DSPARK":  # sgl-project/sglang#37301
        notes.append("SGLang has no DSpark with copies of attention")
        algorithm = ""
    in_sglang = of_one and (configuration.token is None or bool(schedule is not None and algorithm))
    adaptive = sglang_adaptive(schedule) if schedule is not None and algorithm.startswith("EAGLE") else None
    if file is not None:
        servers = enumerate(_servers(deployment, arrangement, steps=False), _FIRST_PORT)
        commands = [_trtllm(deployment, server, port, sequences) for port, server in servers]
        needs = ()
        notes = ["TensorRT-LLM 1.4 or later; trtllm.json holds the settings below the commands"]
        file |= {"enable_attention_dp": True} if arrangement.dp > 1 else {}
    elif engine == "sglang" and in_sglang:
        servers = enumerate(_servers(deployment, arrangement, steps=False), _FIRST_PORT)
        command = sglang_command(deployment, configuration, models, schedule, arrangement, sequences)
        commands = [f"{_devices(server.devices)} {command} --port {port}" for port, server in servers]
        notes = [_since(algorithm, adaptive)] if algorithm else []
        needs = ()
    elif engine != "vllm":
        notes.append(f"planned with what {engine} takes; the commands start vLLM")
    made = file is None  # TensorRT-LLM takes weights as they are
    served = [deployment.target, *(one for one in (deployment.draft, deployment.judge) if steps and one is not None)]
    for one in served:
        if _is_elsewhere(one, made=made):
            formats = dict.fromkeys((one.facts.precision.weights, one.facts.precision.expert_format.name))
            rule = f"put a checkpoint in {one.precision.weights} in the place of <...>"
            notes.append(f"{one.name} is published in {' and '.join(formats)}: {rule}")
    hub = [one.name for one in served if one.facts.architecture in REMOTE]
    notes += [f"--trust-remote-code runs code from the repository of {name}: read it first" for name in hub]
    if arrangement.replicas > 1:
        notes.append(f"{arrangement.replicas} copies: deal the answers out evenly to their ports")
    if engine != "sglang" and schedule is not None and algorithm:
        commands.append(sglang_command(deployment, configuration, models, schedule, arrangement, sequences))
        notes.append(f"instead of vLLM the last command: {_since(algorithm, adaptive)}")
    if _SPECULATORS in models[1] and (file is not None or (schedule is not None and algorithm)):
        notes.append(f"{models[1]} is stored as vLLM's speculators are: other engines may need it converted")
    judge = _FIRST_PORT + 2 if deployment.judge is not None else _FIRST_PORT  # of the first copy
    ports = {"target": _FIRST_PORT, "draft": _FIRST_PORT + 1, "judge": judge}
    client = step_client(configuration, **ports) if steps else None
    if configuration.token == "block-drafter":
        schedule = None
    return Settings(
        commands=tuple(commands),
        schedule=schedule,
        adaptive=adaptive,
        trtllm=file,
        client=client,
        notes=tuple(notes),
        needs=needs,
    )


def _since(algorithm: str, adaptive: Mapping[str, Any] | None) -> str:
    """Say which SGLang a command needs, and where its table is."""
    table = "; adaptive.json holds the table below the commands" if adaptive is not None else ""
    table += "; with an assistant it drafts so many tokens at every batch size" if algorithm == "NEXTN" else ""
    return f"SGLang {SGLANG_SINCE[algorithm]} or later{table}"


def _devices(gpus: Iterable[int]) -> str:
    return f"CUDA_VISIBLE_DEVICES={','.join(map(str, gpus))}"


def _later_versions(deployment: Deployment, configuration: Configuration, arrangement: Arrangement) -> Iterator[str]:
    """Yield which vLLM a command needs where the user did not say which vLLM runs."""
    if configuration.token is None or (deployment.engine_said and deployment.engine.name == "vllm"):
        return
    if arrangement.pp > 1:
        yield f"speculation over machines needs vLLM {first_with('vllm', 'speculation over stages')} or later"
    if configuration.token != "block-drafter" or deployment.block is None:
        return
    kind, facts = block_kind(deployment.block), deployment.block.facts
    option, what = (_ADAPTIVE, "adaptive verification") if configuration.least else (kind, kind)
    yield f"{what} needs vLLM {first_with('vllm', option)} or later"
    if (
        facts.in_target and facts.block is not None and configuration.k2 - 1 < facts.block.trained
    ):  # #47419, lifted since
        yield f"vLLM 0.26 refuses fewer than {facts.block.trained} tokens from this checkpoint"


def _machines(deployment: Deployment, arrangement: Arrangement) -> Iterator[str]:
    """What to know about servers on several machines."""
    if arrangement.pp == 1:
        return
    how = f"start each of its commands on one of them, {_FIRST_MACHINE} being the first one's address"
    if _by_ray(deployment):
        how = "start its command on one of them, all being machines of one Ray cluster"
    yield f"each copy runs on {arrangement.pp} machines: {how}"


def _by_ray(deployment: Deployment) -> bool:
    """Whether the version of vLLM starts servers on several machines by Ray alone."""
    return deployment.engine.name == "vllm" and not has("vllm", deployment.engine_version, "nnodes")


def _speculation(
    deployment: Deployment, configuration: Configuration, arrangement: Arrangement, schedule: Schedule | None
) -> tuple[dict[str, Any] | None, list[str]]:
    """Return vLLM's speculative configuration, and what to know about it."""
    if configuration.k2 < 2 or configuration.token is None:
        return None, []
    version = deployment.engine_version if deployment.engine.name == "vllm" else ""
    # blocks are drafted whole, copies of attention might choose differently, and each of the batches that stages run
    # at once looks up its own size
    one_batch = configuration.token != "block-drafter" and arrangement.dp == arrangement.pp == 1
    tabled = schedule is not None and one_batch
    by_batch = schedule if tabled and has("vllm", version, _TABLE) else None
    k = configuration.k2 - 1 if by_batch is None else max(configuration.k2 - 1, by_batch.most)
    config = _method(deployment, configuration.token, k)
    if configuration.least:
        return {**config, _ADAPTIVE: True}, [_OF_ADAPTIVE]
    if by_batch is not None:
        return {**config, _TABLE: by_batch.plain()}, ["vLLM drafts by batch size as the table says"]
    if schedule is None or not tabled or len(schedule.ranges) == 1:
        return config, []
    table = json.dumps({_TABLE: schedule.plain()})
    return config, [f"from vLLM {first_with('vllm', _TABLE)} on the speculative configuration also takes {table}"]


def _method(deployment: Deployment, token: str, k: int) -> dict[str, Any]:
    """Return the configuration of a method that drafts so many tokens per round."""
    model = drafting_model(deployment, token)
    name = drafter_name(deployment, token)
    further = {"draft_sample_method": "probabilistic"} if name == "dspark" else {}  # as vLLM's documents run it
    served = None if model is None or model.facts.in_target else _served_name(model)
    if name == "mtp" or (model is not None and served is None):
        return {"method": name, **({"model": served} if served else {}), "num_speculative_tokens": k, **further}
    return {**OF_VLLM[name].vllm_configuration(k + 1, model=served, max_ngram=_NGRAM), **further}


def _served_name(model: ServedModel, *, made: bool = True) -> str:
    """Return what to serve: a name on the hub, a folder; in angle brackets what the reader has to put in its place."""
    facts = model.facts
    if facts.source.startswith("the usual size"):
        return "<EAGLE-3 head>" if facts.architecture == "eagle3" else f"<{facts.architecture} drafter>"
    if _is_elsewhere(model, made=made):
        return f"<{model.name} in {model.precision.weights}>"
    folder, is_file, _ = facts.source.rpartition("/config.json")
    return folder if is_file and folder else model.name


def _is_elsewhere(model: ServedModel, *, made: bool) -> bool:
    """Whether the wanted weights are neither the published ones nor, where it can, ``made`` of them by the engine."""
    wanted, published = model.precision, model.facts.precision
    formats = [(one.weight_format, one.attention_format, one.expert_format) for one in (wanted, published)]
    has_experts = model.facts.shape.has_experts
    alike = formats[0] == formats[1] if has_experts else formats[0][:2] == formats[1][:2]
    return not alike and not (made and model.quantised_on_loading)


@dataclass(frozen=True, slots=True)
class _Server:
    """A model on its GPUs of each machine, and the share of their memory that it may take; None: vLLM's default."""

    model: ServedModel
    devices: range
    share: float | None = None
    split: Split = 1


def _servers(deployment: Deployment, arrangement: Arrangement, *, steps: bool) -> Iterator[_Server]:
    """The servers of all copies: each target, then draft and judge of its steps."""
    helpers = [model for model in (deployment.draft, deployment.judge) if model is not None] if steps else []
    own, gpu = arrangement.own_gpus, 0
    needed = [model.facts.shape.weight_bytes(model.precision) + HELPER_CACHE for model in helpers]
    alone = [math.ceil(100.0 * each / deployment.gpu.memory) / 100.0 for each in needed]  # in hundredths
    most = deployment.memory_share
    said = None if most == ENGINE_SHARE else most
    for _ in range(arrangement.replicas):
        beside = helpers and not own
        share = round(most - sum(alone), 2) if beside else said
        gpu = 0 if arrangement.pp > 1 else gpu  # each stage has a machine of its own
        yield _Server(deployment.target, range(gpu, gpu + arrangement.tp), share, arrangement.split)
        for i, model in enumerate(helpers):
            place = gpu + arrangement.tp + i if own else gpu
            yield _Server(model, range(place, place + 1), alone[i] if beside else said)
        gpu += arrangement.tp + own


def _vllm(
    deployment: Deployment,
    server: _Server,
    port: int,
    sequences: int,
    config: Mapping[str, Any] | None,
    *,
    cached: bool,
) -> list[str]:
    """The server's commands: one for each machine."""
    model, devices = server.model, server.devices
    words = ["vllm", "serve", _served_name(model), "--port", str(port)]
    parallel = parallel_of(model, server.split)
    words += ["--trust-remote-code"] if model.facts.architecture in REMOTE else []
    if parallel.tp > 1:
        words += ["--tensor-parallel-size", str(parallel.tp)]
    if parallel.dp > 1:
        words += ["--data-parallel-size", str(parallel.dp)]
    if parallel.ep > 1:
        words += ["--enable-expert-parallel"]
    places = -(-sequences // parallel.dp)  # each copy of attention has its own
    words += ["--max-model-len", str(deployment.context), "--max-num-seqs", str(places)]
    drafted = (config or {}).get(_TABLE, [[1, places, (config or {}).get("num_speculative_tokens", 0)]])
    tokens = max(min(last, places) * (k + 1) for _, last, k in drafted)
    if tokens in _GRAPHED:
        words += ["--max-cudagraph-capture-size", str(-(-tokens // 16) * 16)]  # vLLM captures in steps of 16
    if model.quantised_on_loading:
        words += ["--quantization", "fp8"]
    if model.precision.cache != "bf16":
        words += ["--kv-cache-dtype", model.precision.cache]
    machines: list[list[str]] = [[]]
    if parallel.pp > 1:
        words += ["--pipeline-parallel-size", str(parallel.pp)]
        of = ["--nnodes", str(parallel.pp), "--master-addr", _FIRST_MACHINE, "--node-rank"]
        machines = [[*of, str(rank), *["--headless"][:rank]] for rank in range(parallel.pp)]
        if _by_ray(deployment):
            machines = [["--distributed-executor-backend", "ray"]]
    return [vllm_command([*words, *one], devices, server.share, config, cached=cached) for one in machines]


def _trtllm(deployment: Deployment, server: _Server, port: int, sequences: int) -> str:
    parallel = parallel_of(server.model, server.split)
    words = ["trtllm-serve", _served_name(server.model, made=False), "--port", str(port)]
    words += ["--trust_remote_code"] if server.model.facts.architecture in REMOTE else []
    words += ["--tp_size", str(len(server.devices))]
    words += ["--ep_size", str(parallel.ep)] if parallel.ep > 1 else []
    words += ["--max_seq_len", str(deployment.context), "--max_batch_size", str(-(-sequences // parallel.dp))]
    words += ["--extra_llm_api_options", "trtllm.json"]
    return f"{_devices(server.devices)} {shlex.join(words)}"


def vllm_command(
    words: Sequence[str], gpus: Iterable[int], share: float | None, config: Mapping[str, Any] | None, *, cached: bool
) -> str:
    """Return a shell command that starts a server of vLLM.

    Parameters
    ----------
    share : of their memory, in (0, 1]; None: vLLM's default.
    """
    further = [] if share is None else ["--gpu-memory-utilization", f"{share:g}"]
    further += ["--enable-prefix-caching"] if cached else []
    further += [] if config is None else ["--speculative-config", json.dumps(config)]
    return f"{_devices(gpus)} {shlex.join([*words, *further])}"


def step_client(configuration: Configuration, max_step_tokens: object = 100, **ports: int) -> dict[str, Any]:
    """Return the settings of the step-level client; ``ports``: role to the port of its server on this machine."""
    knobs = {name: value for name, value in configuration.knobs.items() if value is not None}
    if knobs.get("verifier") != "cascade":
        knobs.pop("gamma", None)  # the confidence of a gate that is not used
    urls = {role: f"http://127.0.0.1:{port}/v1" for role, port in ports.items()}
    return {"method": configuration.method, **knobs, "stop": "\n\n", "max_step_tokens": max_step_tokens, **urls}
