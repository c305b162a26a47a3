"""Models on OpenAI-compatible servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

from calibrate.engines.http.addresses import hosts_in_clear, split_endpoint
from calibrate.engines.http.chat import UserTurns
from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.stalls import StallWatch
from calibrate.engines.http.wire import EngineTimeoutError, HttpConfig
from calibrate.engines.prometheus import SpecDecode
from calibrate.engines.protocol import Backend
from calibrate.engines.speculation import Decoding, Speculation
from calibrate.engines.token_vocabulary import parsed_settings
from calibrate.engines.vllm.config import checked_speculative, setting_of, speculation_of
from calibrate.measuring.answers import Inspection
from calibrate.measuring.engine_timings import MeasureOptions, WarmUp
from calibrate.measuring.from_outside import ESTIMATOR, measure_server, timing_notes, warm_up_server
from calibrate.models.asking import BUNDLED, AskedModels
from calibrate.record.engine_records import EngineRecord
from calibrate.record.json_text import json_object
from calibrate.record.profile import ModelRecord
from calibrate.running.verifiers import Encodes
from calibrate.running.wall_clock import WallClock
from sim.roles import DRAFT, GATE, JUDGE, TARGET
from theory.errors import CalibrationError, ParameterError

__all__ = ["RemoteModels", "timeouts_as_such"]

_TICK_S: Final = 0.005
"""Interval of the checks whether this process reads answers in time, s: long enough to take no noticeable time."""

_NOT_MEASURED: Final = ("api_key_env", "timeout_s")
"""Settings that do not affect results: a measurement may be resumed with other values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteModels(AskedModels):
    """Target, draft and judge on OpenAI-compatible servers, each as ``URL[#model]``."""

    backend: ClassVar[str] = "openai"
    by_load: ClassVar[bool] = True
    draft: str = ""
    """Server of the draft; empty: only the target is measured, with token-level methods."""
    judge: str = ""
    """Server of the judge; empty: the target's server."""
    api_key_env: str = ""
    """Environment variable with the key for all servers; empty: no key is sent. The key itself is never stored."""
    timeout_s: float = 120.0
    """Longest silence of a server, s."""
    task: str = "general"
    """``bundled`` if the models are the bundled pair, which has its own prompts; else ``general``."""
    speculative: str = ""
    """Servers of the target that speculate: a JSON list of vLLM's speculative configurations, each with an additional
    field ``server`` (``URL[#model]``). Empty: token-level methods are not measured."""
    gate: bool = True
    """Whether the draft model's confidence is recorded, which needs log-probabilities from its server."""
    chat: bool = False
    """Whether questions are rendered as a user's first turn by the target's chat template; else they are continued."""
    template_kwargs: str = ""
    """Settings of the chat template, such as ``{"enable_thinking": false}``, as JSON; empty: none."""

    def __post_init__(self) -> None:
        AskedModels.__post_init__(self)
        if self.task not in ("general", BUNDLED):
            raise ParameterError("task", self.task, "must be 'general' or 'bundled'")
        for endpoint in self._endpoints:
            split_endpoint(endpoint)
        self._config(TARGET, self.target)
        if not self.draft and self.judge:
            raise ParameterError("judge", self.judge, "needs a draft, whose steps it compares with the target's")
        if not self.draft and not self.speculating_servers():
            rule = "must be named; or, without a draft, a server of the target that speculates (--speculative)"
            raise ParameterError("draft", self.draft, rule)
        if self.template_kwargs and not self.chat:
            raise ParameterError("template_kwargs", self.template_kwargs, "belongs to --chat")
        json_object("template_kwargs", self.template_kwargs or "{}")

    def identity(self) -> dict[str, Any]:
        """Return the settings on which results depend."""
        return {name: value for name, value in self.settings().items() if name not in _NOT_MEASURED}

    def at(self, servers: Mapping[str, str]) -> Self:
        """Return the same models with other addresses: old -> new ``URL[#model]``; other servers keep theirs.

        Raises
        ------
        ParameterError : none of these servers has the old address, or an address is invalid.
        """
        now = {split_endpoint(old): new for old, new in servers.items()}
        here = {split_endpoint(endpoint): endpoint for endpoint in self._endpoints}
        for old in servers:
            if split_endpoint(old) not in here:
                raise ParameterError("server", old, f"must be one of these models': {', '.join(here.values())}")

        def moved(endpoint: str) -> str:
            return now.get(split_endpoint(endpoint), endpoint) if endpoint else ""

        others = [{**one, "server": moved(str(one["server"]))} for one in parsed_settings(self.speculative)]
        return replace(
            self,
            target=moved(self.target),
            draft=moved(self.draft),
            judge=moved(self.judge),
            speculative=json.dumps(others) if others else "",
        )

    @property
    def is_bundled(self) -> bool:
        """Whether the servers run the bundled pair, whose task has ground truth."""
        return self.task == BUNDLED

    def inspection(self) -> Inspection:
        """Return the verdicts and scores of drafts that a measurement records with these models."""
        if not self.draft:
            return Inspection(drafts=0, verifiers=())
        known = replace(AskedModels.inspection(self), beams=0)  # servers report no likelihood of a given text
        if self.gate:
            return known
        return Inspection(drafts=known.drafts, verifiers=tuple(v for v in known.verifiers if v != GATE))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[dict[str, OpenAIEngine], WallClock]]:
        """Connect to the servers; yield them by role, and a wall clock on them; close the connections."""
        engines: list[OpenAIEngine] = []
        try:
            for role, endpoint in ((TARGET, self.target), (DRAFT, self.draft), (JUDGE, self.judge)):
                if endpoint:
                    engines.append(await OpenAIEngine.start(self._config(role, endpoint)))
            for server, config in self.speculating_servers():
                name = f"{TARGET} with {setting_of(config).key}"
                other = await OpenAIEngine.start(self._config(name, server))
                other.speculates, other.counted = speculation_of(config), engines[0].counted
                engines[0].speculating[other.speculates] = other
                if not other.tells_ids:
                    raise CalibrationError(f"{name}: its streams have no token ids (return_token_ids)")
            roles = {TARGET: engines[0]}
            if self.draft:
                roles = dict(zip((TARGET, DRAFT, JUDGE), (*engines, engines[0])[:3], strict=True))
                await roles[JUDGE].check_logprobs()
                if self.gate:
                    await roles[DRAFT].check_logprobs()
            async with StallWatch(tick_s=_TICK_S) as watch:
                for engine in (*engines, *engines[0].speculating.values()):
                    engine.watch = watch
                yield roles, self.clock(roles)
        finally:
            await asyncio.gather(*(engine.close() for engine in engines))

    def clock(self, roles: Mapping[str, Backend], encoder: Encodes | None = None) -> WallClock:
        """Return a wall clock on these servers, which renders questions by the chat template if configured."""
        clock = AskedModels.clock(self, roles, encoder)
        target = roles[TARGET]
        if self.chat and isinstance(target, OpenAIEngine):
            clock.template = UserTurns(target, json_object("template_kwargs", self.template_kwargs or "{}"))
        return clock

    @property
    def key_in_clear(self) -> tuple[str, ...]:
        """Hosts that the key is sent to without encryption."""
        return hosts_in_clear(self._endpoints) if self.api_key_env else ()

    @property
    def n_engines(self) -> int:
        """Number of servers that `open` connects to."""
        return 1 if not self.draft else 3 if self.judge else 2

    async def warm_up(self, engine: OpenAIEngine, seconds: float) -> WarmUp:
        """Send requests until the first, slow ones are over."""
        return await warm_up_server(engine, seconds=seconds)

    async def time_engine(
        self, engine: OpenAIEngine, options: MeasureOptions, progress: Callable[[str], None]
    ) -> EngineRecord:
        """Measure a server by the arrival times of its tokens."""
        return await measure_server(engine, engine.config.host, options, progress=progress)

    def token_settings(self) -> tuple[Decoding, ...]:
        """Return the token-level methods with a configured server."""
        return tuple(setting_of(config) for _, config in self.speculating_servers())

    def speculation(self, method: str, knobs: Mapping[str, Any]) -> Speculation:
        """Return the speculation of a request that is sent to the server with that method.

        Raises
        ------
        ParameterError : no configured server has it.
        """
        wanted = {name: value for name, value in knobs.items() if value is not None}
        for _, config in self.speculating_servers():
            setting = setting_of(config)
            known = {"min_ngram": 1, **setting.knobs}
            if setting.method == method and all(known.get(name, value) == value for name, value in wanted.items()):
                return speculation_of(config)
        known_names = ", ".join(setting.key for setting in self.token_settings()) or "none"
        requested = Decoding(method=method, knobs=wanted).key
        rule = f"needs a server with this method; configured are (calibrate openai --speculative): {known_names}"
        raise ParameterError("token", requested, rule)

    def record(self, role: str, engine: OpenAIEngine) -> ModelRecord:
        """Return the profile's entry for the model of a role."""
        return ModelRecord(name=engine.model, location=str(engine.describe()["url"]))

    async def stamp(self, engines: dict[str, OpenAIEngine]) -> dict[str, Any]:
        """Return engine, version, device, and notes on the measurement."""
        about = engines[TARGET].describe()
        notes = [ESTIMATOR, "cpu, cores, os and python are those of the machine that sent the requests"]
        for role, engine in engines.items():
            notes += [f"{role}: {note}" for note in await self.cautions(engine)]
        return {
            "engine": str(about["engine"]),
            "engine_version": str(about["version"]),
            "device": engines[TARGET].config.host,
            "notes": notes,
        }

    async def cautions(self, engine: OpenAIEngine) -> list[str]:
        """Notes on sources of error: other users of a server, speculation, retries, unknown token counts, timings."""
        about, metrics = engine.describe(), await engine.metrics()
        notes = [f"stop strings are {about['stop_strings']}"]
        busy = engine.load_at_start
        if busy is not None and not busy.idle:
            notes.append(f"warning: the server was not idle: {busy.running} requests running, {busy.waiting} waiting")
        spec = SpecDecode.read(metrics or ())
        if spec is not None and spec.drafts:
            notes.append(
                "warning: the server speculates: iterations are verifications of token drafts; since its start "
                f"{spec.tokens_per_pass:.2f} tokens per target pass, N / (N - accepted)"
            )
        if about["n_retries"]:
            notes.append(f"warning: {about['n_retries']} requests were sent again; their waits are in the step times")
        if not engine.tells_ids:
            notes.append("chunks of streams have no token ids; the token count of an aborted request is an estimate")
        return notes + timing_notes(engine)

    def speculating_servers(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the servers of the target that speculate and their configurations, after a check of these."""
        servers = []
        for given in parsed_settings(self.speculative):
            if not given.get("server"):
                raise ParameterError("speculative", self.speculative, "must name the server of each configuration")
            config = {name: value for name, value in given.items() if name != "server"}
            servers.append((str(given["server"]), checked_speculative(config)))
        keys = [setting_of(config).key for _, config in servers]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise ParameterError("speculative", twice[0], "is given twice: leave one of them out")
        return servers

    @property
    def _endpoints(self) -> list[str]:
        """All servers."""
        speculating = (server for server, _ in self.speculating_servers())
        return list(filter(None, (self.target, self.draft, self.judge, *speculating)))

    def _config(self, role: str, endpoint: str) -> HttpConfig:
        return HttpConfig.of(role, endpoint, api_key_env=self.api_key_env, timeout_s=self.timeout_s)


@contextmanager
def timeouts_as_such() -> Iterator[None]:
    """Raise a time-out of a server as `EngineTimeoutError`: the clock's error only names the operation that failed."""
    try:
        yield
    except CalibrationError as error:
        cause = error.__cause__
        while cause is not None and not isinstance(cause, TimeoutError):
            cause = cause.__cause__
        if cause is None or isinstance(error, TimeoutError):
            raise
        raise EngineTimeoutError(str(error)) from error
