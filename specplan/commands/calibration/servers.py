"""``specplan calibrate openai --print-servers``: a script that starts vLLM servers, and what to run next."""

from __future__ import annotations

import json
import math
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import click

from specplan.commands.calibration.options import ROLES, on_gpus
from specplan.output import all_of
from specplan.ranges import ListOf, Number
from specplan.show.saving import words_given
from theory.errors import ParameterError, SpecplanError

__all__ = ["placements", "servers_script"]

_FIRST_PORT: Final = 8000
_URL: Final = "http://127.0.0.1:{}/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    model: str
    gpus: tuple[int, ...]
    port: int
    config: dict[str, Any] | None = None
    """Its speculative configuration; None for plain decoding."""
    cache: float | None = None
    """Bytes of its cache; None: what its share of the memory leaves, measured when it starts."""

    @property
    def url(self) -> str:
        return _URL.format(self.port)

    def command(self, share: float) -> str:
        """The command that starts it, with a share of the memory of its GPUs."""
        from specplan.worlds.running.settings import vllm_command

        words = ["vllm", "serve", self.model, "--host", "127.0.0.1", "--port", str(self.port)]
        words += ["--tensor-parallel-size", str(len(self.gpus))] if len(self.gpus) > 1 else []
        words += ["--kv-cache-memory-bytes", f"{self.cache:.0f}"] if self.cache is not None else []
        return vllm_command(words, self.gpus, share, self.config, cached=True)


placements = all_of(
    on_gpus("server, with --print-servers"),
    click.option(
        "--print-servers",
        is_flag=True,
        help="Print a script that starts vLLM servers, with models in place of URLs, and the command that measures "
        "them; measure nothing.",
    ),
    click.option(
        "--synthetic",
        type=ListOf(Number(0.0, 65.0)),
        metavar="N[,N...]",
        help="With --print-servers: acceptance imposed at random, whatever is drafted: mean tokens per round, the "
        "target's own included (2.6), or by position the probability that all up to it are accepted (0.85,0.74,0.65).",
    ),
    click.option(
        "--cache-gb",
        type=Number(0.0, 1e6, ends="()"),
        help="With --print-servers: KV cache of each server per GPU, GB; servers on one GPU then start together. "
        "Default: what the server's share of the memory leaves; they start one after the other.",
    ),
)
"""Options that print servers instead of measuring them, and place them on GPUs."""


def servers_script(
    models: Mapping[str, str],
    gpus: Mapping[str, str | None],
    speculative: Sequence[tuple[str, str]],
    *,
    cache_gb: float | None = None,
    synthetic: str | None = None,
) -> str:
    """Return a shell script that starts the servers, waits until they answer, and prints the command to measure them.

    The servers that speculate are further copies of the target on its GPUs. vLLM measures what memory is free when it
    starts: servers of a GPU start one after the other, unless their caches have a given size.

    Parameters
    ----------
    models : role -> name or folder of its model; empty: none.
    gpus : role -> numbers of GPUs with commas between them; None: GPU 0.
    speculative : a name, which is not used, and the speculative configuration of each further server of the target.
    cache_gb : cache of each server, GB per GPU, > 0; None: what its share of the memory leaves.
    synthetic : acceptance to impose on these configurations, as the option has it; the script then prints the command
        that validates too. None: drafts are verified.

    Raises
    ------
    ParameterError : a URL for a model, a GPU that is named twice, no JSON object as a configuration, or one on which
        this acceptance cannot be imposed.
    """
    from calibrate.engines.torch.cuda.devices import gpu_numbers
    from calibrate.record.json_text import json_object

    named = [(role, models[role]) for role in ROLES if models[role]]
    for role, model in named:
        if "://" in model:
            raise ParameterError(role, model, "must be the name or folder of a model with --print-servers")
    placed = {role: gpu_numbers(f"{role}-gpus", gpus[role]) for role in ROLES}
    ports, target = count(_FIRST_PORT), models["target"]
    cache = None if cache_gb is None else 1e9 * cache_gb
    plain = [_Server(model=model, gpus=placed[role], port=next(ports), cache=cache) for role, model in named]
    configs = [json_object("speculative", text) for _, text in speculative]
    if synthetic is not None:
        configs = [_imposing(config, synthetic) for config in configs]
    fast = [
        _Server(model=target, gpus=placed["target"], port=next(ports), config=config, cache=cache) for config in configs
    ]
    servers = [*plain, *fast]
    words = ["specplan", "calibrate", "openai"]
    for (role, _), server in zip(named, plain, strict=True):
        words += [f"--{role}", server.url]
    for server in fast:
        words += ["--speculative", server.url, json.dumps(server.config)]
    own = {*ROLES, *(f"{role}_gpus" for role in ROLES), "print_servers", "cache_gb", "synthetic", "speculative"}
    words += words_given(click.get_current_context(), own)
    lines = [
        "#!/usr/bin/env bash",
        "# Ctrl-C ends all servers.",
        "trap 'kill $(jobs -p); wait' EXIT",
        "answer() { # N PORT...: wait until the servers of these ports answer, while all N run that were started",
        "  local n=$1 port",
        '  for port in "${@:2}"; do',
        '    until curl -sf "http://127.0.0.1:$port/health" > /dev/null; do',
        '      if [ "$(jobs -rp | wc -l)" -lt "$n" ]; then echo "a server has ended" >&2; exit 1; fi',
        "      sleep 2",
        "    done",
        "  done",
        "}",
        *(line for server in fast if synthetic is not None for line in _elsewhere(server)),
        *_starts(servers),
        "cat << 'END'",
        "All servers answer. In another shell:",
        shlex.join(words),
        *([] if synthetic is None else [shlex.join(_validation(configs))]),
        "END",
        "wait",
    ]
    return "\n".join(lines) + "\n"


def _starts(servers: Sequence[_Server]) -> Iterator[str]:
    """Lines that start the servers, each after those of its GPUs answer unless caches have a given size."""
    started: list[_Server] = []
    for server, share in zip(servers, _shares(servers), strict=True):
        before = [str(one.port) for one in started if set(one.gpus) & set(server.gpus) and server.cache is None]
        if before:
            yield f"answer {len(started)} {' '.join(before)}"
        yield f"{server.command(share)} &"
        started.append(server)
    yield f"answer {len(servers)} {' '.join(str(server.port) for server in servers)}"


def _imposing(config: Mapping[str, Any], synthetic: str) -> dict[str, Any]:
    """A configuration by which vLLM accepts drafts at random: so many in the mean, or with chances by position."""
    from calibrate.engines.vllm.config import checked_speculative

    first, *more = (float(part) for part in synthetic.split(","))
    imposed: dict[str, Any] = {"synthetic_acceptance_length": first}
    if more or first <= 1.0:
        k = config.get("num_speculative_tokens")
        imposed = {"synthetic_acceptance_rates": [first, *more][: k if isinstance(k, int) else None]}
    return checked_speculative({**config, "rejection_sample_method": "synthetic", **imposed})


def _elsewhere(server: _Server) -> Iterator[str]:
    """How other engines impose the mean of the acceptance of a server, as comments."""
    from calibrate.engines.token_vocabulary import imposed_chances

    accepted = sum(imposed_chances(server.config or {}) or ())
    sglang = f"SGLANG_SIMULATE_ACC_LEN={1.0 + accepted:g} SGLANG_SIMULATE_ACC_METHOD=match-expected"
    yield f"# Instead of vLLM at port {server.port}, SGLang or TensorRT-LLM with the same models and in the environment"
    yield f"#   {sglang} SGLANG_SIMULATE_ACC_TOKEN_MODE=real-draft-token"
    yield f"#   TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS={accepted:g}"


def _validation(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The command that validates what is measured with imposed acceptance, whatever the prompts."""
    from calibrate.engines.vllm.config import setting_of
    from calibrate.models.asking import BUNDLED

    given = click.get_current_context().params
    words = ["specplan", "validate", "-p", str(given["output"])]
    words += [] if given["prompts"] == BUNDLED else ["--prompts", str(given["prompts"])]
    for config in configs:
        words += ["--run", setting_of(config).key]
    return [*words, "--concurrency", given["concurrency"] or "1,4"]


def _shares(servers: Sequence[_Server]) -> list[float]:
    """The share of its GPUs' memory for each server, by its weights: on no GPU more than vLLM's default in all."""
    from specplan.worlds.memory import ENGINE_SHARE
    from specplan.worlds.model_files import shape_of
    from specplan.worlds.running.settings import HELPER_CACHE
    from theory.hardware.formats import Precision

    try:
        weights = [shape_of(server.model).shape.weight_bytes(Precision()) for server in servers]
        needed = [w / len(server.gpus) + HELPER_CACHE for w, server in zip(weights, servers, strict=True)]
    except SpecplanError:  # a model that is not known
        needed = [1.0] * len(servers)
    on: defaultdict[int, float] = defaultdict(float)
    for gpu, n in ((gpu, n) for server, n in zip(servers, needed, strict=True) for gpu in server.gpus):
        on[gpu] += n
    shares = [n / max(on[gpu] for gpu in server.gpus) for server, n in zip(servers, needed, strict=True)]
    return [math.floor(100.0 * ENGINE_SHARE * share) / 100.0 for share in shares]
