"""``specplan serve``: an OpenAI-compatible gateway that runs a plan's method in front of model servers."""

from __future__ import annotations

import errno
import math
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from specplan.output import check_output
from specplan.ranges import SECONDS, SHARE, TOKENS, InputName, OutputFile, WholeNumber
from theory.errors import CalibrationError, ParameterError

if TYPE_CHECKING:
    import uvicorn

    from specplan.live.gateway.control import Limits
    from specplan.live.gateway.plans import ServingPlan
    from specplan.live.gateway.servers import Endpoints
    from specplan.live.gateway.serving import Shared

__all__ = ["command"]

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_SERVERS: Final = ("target", "draft", "judge", "scorer", "embedding", "speculative", "api_key_env")
"""Parameters about servers, which a plan may name too; the other ones are of `specplan.live.gateway.control.Limits`."""


@click.command(name="serve")
@click.option(
    "--plan", "plan_path", type=InputName(), required=True, help="Plan, a file from 'specplan plan ... --json'."
)
@click.option(
    "-p",
    "--profile",
    type=InputName(),
    help="The profile of the models: their settings, and the predictions for drift.",
)
@click.option("--target", metavar="URL[#MODEL]", help="The target's server. Default the plan's.")
@click.option("--draft", metavar="URL[#MODEL]", help="The draft's server. Default the plan's.")
@click.option("--judge", metavar="URL[#MODEL]", help="The server of the model that compares steps. Default the plan's.")
@click.option(
    "--scorer", metavar="URL[#MODEL]", help="The server of the model that grades steps. Default the target's."
)
@click.option("--embedding", metavar="URL[#MODEL]", help="The server of sentence embeddings, for verifier=embedding.")
@click.option(
    "--speculative",
    metavar="JSON",
    default="",
    show_default=False,
    help="Servers of the target with token-level methods, as 'calibrate openai' takes them. Default: the target's "
    "server speculates as it was started.",
)
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", type=WholeNumber(0, 65_535), default=8080, help="Port to listen on; 0: any free one.")
@click.option("--api-key-env", default="", show_default=False,
    help="Variable with a key for the gateway's own requests at its start. "
    "Clients' keys are forwarded, and kept nowhere.")  # fmt: skip
@click.option("--max-in-flight", "in_flight", type=WholeNumber(1, 4096), default=64, help="Most answers in flight.")
@click.option("--max-answer-tokens", "answer_tokens", type=TOKENS, default=16_384, help="Longest answer, tokens.")
@click.option(
    "--max-seconds",
    "answer_seconds",
    type=SECONDS,
    default=600.0,
    help="Longest time of an answer, s; it ends there.",
)
@click.option(
    "--max-body",
    "body_bytes",
    type=WholeNumber(1024, 2**30),
    default=4 * 2**20,
    help="Largest body of a request, bytes.",
)
@click.option(
    "--patience",
    "patience_s",
    type=SECONDS,
    default=10.0,
    help="Seconds that a draft, judge or scorer may take for an operation; then the answer continues without it.",
)
@click.option(
    "--false-alarm",
    type=SHARE,
    default=0.05,
    help="Probability of ever reporting a drift while everything is as predicted.",
)
@click.option(
    "--trust-plan",
    is_flag=True,
    help="Run the plan's best method at each load without measuring its gain. Default: speculate only where a gain is "
    "measured, and in trials.",
)
@click.option(
    "--replan",
    type=OutputFile(),
    help="Write a new profile from the served answers to this file at the end; needs --profile.",
)
@click.option("--force", is_flag=True, help="Overwrite the new profile's file if there is one.")
@click.option(
    "--grace",
    "grace_s",
    type=SECONDS,
    show_default="--max-seconds",
    help="Longest time that answers may take to end after SIGTERM or SIGINT, s; then they are broken off.",
)
@click.option("--timeout", "timeout_s", type=SECONDS, default=120.0, help="Longest silence of the target, s.")
@click.option(
    "--workers",
    type=WholeNumber(1, 64),
    default=1,
    help="Processes that answer. With several, one more decides for all of them.",
)
def command(
    plan_path: str,
    profile: str | None,
    host: str,
    port: int,
    false_alarm: float,
    trust_plan: bool,
    replan: Path | None,
    force: bool,
    workers: int,
    **options: Any,
) -> None:
    """Serve a plan: an OpenAI-compatible gateway in front of model servers.

    It begins with plain decoding. At the present number of answers in flight plain decoding and the plan's method take
    turns, the method for longer as it gains; such trials lose at most 3 % of the time of any 200 answers. A plan for
    several loads (plan --concurrency 1,8,32) gives a method for each. Steps are streamed as they are committed; when a
    draft, judge or scorer fails, the answer continues with plain decoding.
    """
    from specplan.live.gateway.plans import parse_plan, plan_text

    check_output(replan, force=force)
    if replan is not None and profile is None:
        raise ParameterError("replan", str(replan), "needs --profile: the profile that the plan was made from")
    text = plan_text(plan_path)
    plan = parse_plan(text, plan_path)
    _need_extra()
    import asyncio

    from uvicorn.loops.auto import auto_loop_factory

    from calibrate.record.library import load
    from specplan.live.gateway.control import Limits
    from specplan.live.gateway.servers import Endpoints

    named = {name: options.pop(name) for name in _SERVERS}
    named = {name: getattr(plan.defaults, name, "") if one is None else one for name, one in named.items()}
    if not named["target"]:
        raise ParameterError("target", "", "must be given as URL[#model]: the plan names no server")
    endpoints = Endpoints(**named, timeout_s=options["timeout_s"])
    plan = plan.servable(endpoints.helpers, trusted=trust_plan)
    endpoints.check(plan)
    options["grace_s"] = options["answer_seconds"] if options["grace_s"] is None else options["grace_s"]
    known = None if profile is None else load(profile)
    more: dict[str, Any] = {"profile": known, "false_alarm": false_alarm, "trust_plan": trust_plan, "tell": _say}
    if workers > max(os.cpu_count() or 1, 1):
        _say(f"warning: {workers} workers on {os.cpu_count()} cores: those beyond the cores pass on nothing more")
    # uvloop, where it is installed
    with _listening(host, port) as sock, asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        served = sock, plan, endpoints, Limits(**options), replan, more
        runner.run(_serve(*served) if workers == 1 else _serve_by_workers(workers, text, *served))


async def _serve(
    sock: socket.socket, plan: ServingPlan, endpoints: Endpoints, limits: Limits, replan: Path | None, more: Any
) -> None:
    """Answer in this process; ``more`` goes to `specplan.live.gateway.serving.Shared`."""
    from specplan.live.gateway.listening import AFTER_GRACE_S, collect_seldom, server_for
    from specplan.live.gateway.servers import models_of, opened
    from specplan.live.gateway.serving import Serving

    models = models_of(endpoints, plan, _settings(more) or {})
    async with opened(endpoints, models, plan, timed=more["profile"] is not None) as opened_servers:
        serving = Serving(opened_servers, plan, limits, **more)
        _tell(plan, endpoints, sock)
        most_s = math.ceil(limits.grace_s) + AFTER_GRACE_S
        server = server_for(serving.app, client_seconds=limits.client_seconds, grace_s=most_s)
        collect_seldom()
        with _replanned(serving, replan), _stopped_by_signals(server, limits.grace_s, serving.app.state.break_off):
            await server.serve(sockets=[sock])


async def _serve_by_workers(
    n: int,
    text: str,
    sock: socket.socket,
    plan: ServingPlan,
    endpoints: Endpoints,
    limits: Limits,
    replan: Path | None,
    more: Any,
) -> None:
    """Answer in ``n`` processes that read the ``text`` of the plan, and for which this one decides."""
    from specplan.live.gateway.listening import collect_seldom
    from specplan.live.gateway.serving import Shared
    from specplan.live.gateway.workers.hub import Hub
    from specplan.live.gateway.workers.processes import Workers

    shared = Shared(plan, limits, **more)
    begin = {"plan": text, "trust_plan": more["trust_plan"], "settings": _settings(more)}
    begin |= {"endpoints": asdict(endpoints), "limits": asdict(limits)}
    processes = Workers(Hub(shared, plan), begin, n, tell=_say)
    collect_seldom()
    with _replanned(shared, replan):
        await processes.serve(sock, limits.grace_s, lambda: _tell(plan, endpoints, sock))


def _settings(more: Any) -> dict[str, Any] | None:
    return None if more["profile"] is None else dict(more["profile"].settings)


def _need_extra() -> None:
    from importlib.util import find_spec

    for module in ("aiohttp", "httptools", "prometheus_client", "starlette", "uvicorn"):
        if find_spec(module) is None:
            raise CalibrationError(f"serving needs {module}: pip install 'specplan[serve]'")


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket on the address, bound before any request is sent."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that no host can have
        reason = getattr(error, "strerror", None) or "not a valid host name"
        rule = f"is not an address to listen on: {reason}; 127.0.0.1 is this machine, 0.0.0.0 all its networks"
        raise ParameterError("host", host, rule) from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(256)
    except OSError as error:
        sock.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            why = "is taken by another program" if error.errno == errno.EADDRINUSE else "needs more privileges"
            raise ParameterError("port", port, f"{why}: give another port, or 0 for any free port") from None
        raise ParameterError("host", host, f"cannot be listened on: {error.strerror}") from None
    return sock


@contextmanager
def _replanned(shared: Shared, path: Path | None) -> Iterator[None]:
    """Write a new profile at the end, if there is a path for one."""
    try:
        yield
    finally:
        if path is not None:
            shared.new_profile().write(path)
            _say(f"wrote {path}: plan with it by 'specplan plan --profile {path}'")


@contextmanager
def _stopped_by_signals(server: uvicorn.Server, grace_s: float, break_off: Callable[[], None]) -> Iterator[None]:
    """Stop the server by signals without ending the process, as uvicorn would, so that a profile can be written.

    No request is accepted any more, answers on their way have ``grace_s`` to end, and the others are broken off. At the
    second signal all connections are closed at once.
    """
    import asyncio

    loop = asyncio.get_running_loop()

    def stop() -> None:
        if not server.should_exit:
            server.should_exit = True
            loop.call_later(grace_s, break_off)
            return
        for connection in tuple(server.server_state.connections):
            connection.transport.abort()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _say(text: str) -> None:
    click.echo(f"specplan: {text}", err=True)


def _tell(plan: ServingPlan, endpoints: Endpoints, sock: socket.socket) -> None:
    """Print the address, the configurations and warnings on stderr."""
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    rows = "; ".join(f"{configuration.name} (at {load} in flight)" for load, configuration in plan.by_load)
    _say(f"serving http://{shown}:{port}/v1: {rows}")
    for other in endpoints.in_clear:
        _say(f"warning: clients' keys are sent to {other} over plain http, where others can read them: use https")
    if host not in _LOOPBACK:
        _say(f"warning: everyone who reaches {shown}:{port} can use it: the gateway checks no keys")
