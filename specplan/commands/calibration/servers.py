"""``specplan calibrate openai --print-servers``: a script that starts vLLM servers, and what to run beside it."""

from __future__ import annotations

import json
import math
import shlex
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from specplan.commands.calibration.options import json_object
from specplan.ranges import ListOf, WholeNumber
from theory.errors import ParameterError, SpecplanError

__all__ = ["placements", "servers_script"]

F = TypeVar("F", bound=Callable[..., Any])

ROLES: Final = ("target", "draft", "judge")
_FIRST_PORT: Final = 8000
_URL: Final = "http://127.0.0.1:{}/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """A server to start."""

    model: str
    gpus: tuple[int, ...]
    port: int
    config: dict[str, Any] | None = None
    """Its speculative configuration; None for plain decoding."""

    @property
    def url(self) -> str:
        return _URL.format(self.port)

    def command(self, share: float) -> str:
        """The command that starts it, with a share of the memory of its GPUs."""
        from specplan.worlds.running.settings import vllm_command

        words = ["vllm", "serve", self.model, "--host", "127.0.0.1", "--port", str(self.port)]
        words += ["--tensor-parallel-size", str(len(self.gpus))] if len(self.gpus) > 1 else []
        return vllm_command(words, self.gpus, share, self.config, cached=True)


def placements(command: F) -> F:
    """Give a command the options that print servers instead of measuring them, and place them on GPUs."""
    gpus = ListOf(WholeNumber(0, 1023))
    options = [
        click.option(f"--{role}-gpus", type=gpus, help=f"GPUs of the {role}'s server, with --print-servers: 0,1.")
        for role in ROLES
    ]
    options.append(
        click.option(
            "--print-servers",
            is_flag=True,
            help="Print a script that starts vLLM servers, with models in place of URLs, and the command that measures "
            "them; measure nothing.",
        )
    )
    for option in options:
        command = option(command)
    return command


def servers_script(
    models: Mapping[str, str], gpus: Mapping[str, str | None], speculative: Sequence[tuple[str, str]]
) -> str:
    """Return a shell script that starts the servers, waits until they answer, and prints the command to measure them.

    The servers that speculate are further copies of the target on its GPUs.

    Parameters
    ----------
    models : role -> name or folder of its model; empty: none.
    gpus : role -> numbers of GPUs with commas between them; None: GPU 0.
    speculative : a name, which is not used, and the speculative configuration of each further server of the target.

    Raises
    ------
    ParameterError : a URL for a model, a GPU that is named twice, or no JSON object as a configuration.
    """
    asked = [(role, models[role]) for role in ROLES if models[role]]
    for role, model in asked:
        if "://" in model:
            raise ParameterError(role, model, "must be the name or folder of a model with --print-servers")
    placed = {role: _numbers(role, gpus[role]) for role in ROLES}
    ports, target = count(_FIRST_PORT), models["target"]
    plain = [_Server(model=model, gpus=placed[role], port=next(ports)) for role, model in asked]
    configs = [json_object("speculative", text) for _, text in speculative]
    fast = [_Server(model=target, gpus=placed["target"], port=next(ports), config=config) for config in configs]
    servers = [*plain, *fast]
    words = ["specplan", "calibrate", "openai"]
    for (role, _), server in zip(asked, plain, strict=True):
        words += [f"--{role}", server.url]
    for server in fast:
        words += ["--speculative", server.url, json.dumps(server.config)]
    words += _as_given()
    lines = [
        "#!/usr/bin/env bash",
        "# Ctrl-C ends all servers.",
        "trap 'kill $(jobs -p)' EXIT",
        *(f"{server.command(share)} &" for server, share in zip(servers, _shares(servers), strict=True)),
        f"for port in {' '.join(str(server.port) for server in servers)}; do",
        '  until curl -sf "http://127.0.0.1:$port/health" > /dev/null; do',
        f'    if [ "$(jobs -rp | wc -l)" -lt {len(servers)} ]; then echo "a server has ended" >&2; exit 1; fi',
        "    sleep 2",
        "  done",
        "done",
        "cat << 'END'",
        "All servers answer. In another shell:",
        shlex.join(words),
        "END",
        "wait",
    ]
    return "\n".join(lines) + "\n"


def _numbers(role: str, text: str | None) -> tuple[int, ...]:
    found = tuple(int(part) for part in text.split(",")) if text else (0,)
    if len(set(found)) < len(found):
        raise ParameterError(f"{role}-gpus", text, "must name each GPU once")
    return found


def _shares(servers: Sequence[_Server]) -> list[float]:
    """The share of the memory of its GPUs for each server: on no GPU more than vLLM's default in all."""
    from specplan.worlds.memory import ENGINE_SHARE

    needed = _needed(servers)
    on: defaultdict[int, float] = defaultdict(float)
    for gpu, n in ((gpu, n) for server, n in zip(servers, needed, strict=True) for gpu in server.gpus):
        on[gpu] += n
    shares = [n / max(on[gpu] for gpu in server.gpus) for server, n in zip(servers, needed, strict=True)]
    return [math.floor(100.0 * ENGINE_SHARE * share) / 100.0 for share in shares]


def _needed(servers: Sequence[_Server]) -> list[float]:
    """Bytes on each GPU of a server, by its weights; all the same where a model is not known."""
    from specplan.worlds.model_files import shape_of
    from specplan.worlds.running.settings import HELPER_CACHE
    from theory.hardware.formats import Precision

    try:
        weights = [shape_of(server.model).shape.weight_bytes(Precision()) for server in servers]
    except SpecplanError:
        return [1.0] * len(servers)
    return [w / len(server.gpus) + HELPER_CACHE for w, server in zip(weights, servers, strict=True)]


def _as_given() -> list[str]:
    """The other options of the running command, as they were given."""
    context = click.get_current_context()
    own = {*ROLES, *(f"{role}_gpus" for role in ROLES), "print_servers", "speculative"}
    words: list[str] = []
    for option in context.command.params:
        name, value = str(option.name), context.params.get(str(option.name))
        if name in own or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        if not (isinstance(option, click.Option) and option.is_flag):
            words += [option.opts[0], str(value)]
        elif value == option.flag_value:
            words.append(option.opts[0])
        elif value is False and option.secondary_opts:
            words.append(option.secondary_opts[0])
    return words
