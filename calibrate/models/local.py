"""Models in local folders, on torch or vLLM engines: their cores or devices, and the models that draft tokens."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from calibrate.engines.protocol import MeasuredEngine
from calibrate.engines.sentence_encoder import Encoder
from calibrate.engines.speculation import Decoding, Speculation
from calibrate.engines.token_vocabulary import OF_CATALOGUE
from calibrate.engines.torch.cuda.devices import devices_of_roles
from calibrate.engines.torch.cuda.telemetry import GpuState, gpu_states
from calibrate.engines.torch.engine import TorchConfig, TorchEngine
from calibrate.engines.torch.model import check_model_folder, tokenizer_fingerprint
from calibrate.measuring.answers import Inspection
from calibrate.measuring.engine_timings import (
    MeasureOptions,
    WarmUp,
    measure_drafting_passes,
    measure_engine,
    warm_up,
)
from calibrate.measuring.token_methods import TOKEN_SETTINGS
from calibrate.models.asking import BUNDLED, AskedModels
from calibrate.record.engine_records import DecodeSample, EngineRecord
from calibrate.record.profile import ModelRecord
from calibrate.running.wall_clock import WallClock
from sim.roles import DRAFT, EMBEDDING, EXACT, GATE, JUDGE, TARGET
from theory.errors import ParameterError

__all__ = ["LocalModels", "TorchModels", "model_folder"]

_MOST_CANDIDATES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModels(AskedModels):
    """Target, draft and judge, each a local model folder (or `BUNDLED`), with their cores or devices."""

    target: str = BUNDLED
    draft: str = BUNDLED
    judge: str | None = None
    """Model folder of the judge (or `BUNDLED`), on the draft's core; or ``target`` or ``draft``: that engine judges
    too. None: the bundled judge for the bundled pair, else the target."""
    embedding: str | None = None
    """Folder of a sentence-embedding model, on the draft's core, for the verifier ``embedding``; None: none."""
    token_draft: str | None = None
    """Folder of the model that drafts tokens inside the target's engine; None: the draft, if it has the target's
    tokenizer; ``none``: no such model."""
    eagle: str | None = None
    """Folder of an EAGLE head of the target; None: the bundled target's, else no head; ``none``: no head."""
    device: str = "cpu"
    """``cpu``, ``cuda`` or ``cuda:N``; on torch also two GPUs: the target's, and that of draft and judge."""
    dtype: str = "float32"
    target_core: int | None = None
    """CPU core that the target's process is pinned to; None: the first one allowed. Ignored on GPUs."""
    draft_core: int | None = None
    """CPU core of the draft's process; None: the second one allowed, or the first if there is only one."""

    def __post_init__(self) -> None:
        AskedModels.__post_init__(self)
        if (self.target == BUNDLED) != (self.draft == BUNDLED):
            rule = f"does not go with target={self.target!r}: give both folders, or neither for the bundled pair"
            raise ParameterError("draft", self.draft, rule)

    @property
    def is_bundled(self) -> bool:
        """Whether it is the bundled pair, or a widened one, whose task has ground truth."""
        if self.target == BUNDLED:
            return True
        from calibrate import pair

        return pair.speaks(Path(self.target))

    @property
    def n_engines(self) -> int:
        """Engines that `open` starts."""
        return 2 if self.judging in (TARGET, DRAFT) else 3

    @property
    def judging(self) -> str:
        """The judge: ``target``, ``draft``, or the folder of another model."""
        return self.judge or (BUNDLED if self.target == BUNDLED else TARGET)

    def inspection(self) -> Inspection:
        """Return the verdicts and scores of drafts to record, with an embedding model its similarities too."""
        known = AskedModels.inspection(self)
        return replace(known, verifiers=(GATE, EXACT, EMBEDDING)) if self.embedding else known

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[dict[str, Any], WallClock]]:
        """Start the engines, each in a process of its own; yield them by role, and a wall clock on them; end them."""
        cores = sorted(os.sched_getaffinity(0))
        first = cores[0] if self.target_core is None else self.target_core
        second = cores[min(1, len(cores) - 1)] if self.draft_core is None else self.draft_core
        for role, model in ((TARGET, self.target), (DRAFT, self.draft), (JUDGE, self.judging)):
            if model not in (TARGET, DRAFT):  # a folder that is none is refused before engines take seconds to start
                check_model_folder(model_folder(role, model))
        engines: list[Any] = []
        encoder = None
        try:
            if self.embedding:
                encoder = await Encoder.start(Path(self.embedding), core=second)
            for role, model, core in ((TARGET, self.target, first), (DRAFT, self.draft, second)):
                engines.append(await self._start(role, model, core))
            roles = {TARGET: engines[0], DRAFT: engines[1]}
            if self.judging not in roles:
                engines.append(await self._start(JUDGE, self.judging, second))
            roles[JUDGE] = roles.get(self.judging, engines[-1])
            yield roles, self.clock(roles, encoder)
        finally:
            await asyncio.gather(*(engine.close() for engine in engines))
            if encoder is not None:
                await encoder.close()

    async def _start(self, role: str, model: str, core: int) -> Any:
        """Start the engine of a role."""
        raise NotImplementedError

    def _possible(self, settings: Sequence[Decoding]) -> tuple[Decoding, ...]:
        """The settings whose methods need no weights, or have them."""
        return tuple(s for s in settings if not OF_CATALOGUE[s.method].needs or self._drafting(s.method))

    def _weights(self, method: str) -> Path | None:
        """The weights that draft for a token-level method; an error if it needs weights and has none."""
        folder, needs = self._drafting(method), OF_CATALOGUE[method].needs
        if needs and folder is None:
            raise ParameterError("method", method, f"needs {needs}")
        return folder

    def _drafting(self, method: str) -> Path | None:
        """The weights that draft for a token-level method inside the target's engine; None without any."""
        named = {"eagle": self.eagle, "draft-model": self.token_draft}
        if method not in named or named[method] == "none":
            return None
        if (given := named[method]) is not None:
            return Path(given)
        if method == "eagle":
            from calibrate import pair

            return pair.head_path() if self.target == BUNDLED else None
        target, draft = model_folder(TARGET, self.target), model_folder(DRAFT, self.draft)
        same_tokenizer = tokenizer_fingerprint(target) == tokenizer_fingerprint(draft)
        sizes = {int(check_model_folder(folder)["vocab_size"]) for folder in (target, draft)}
        return draft if same_tokenizer and len(sizes) == 1 else None

    async def warm_up(self, engine: MeasuredEngine, seconds: float) -> WarmUp:
        """Run requests on an engine until its first, slow iterations are over."""
        return await warm_up(engine, seconds=seconds)

    async def time_engine(self, engine: Any, options: MeasureOptions, progress: Callable[[str], None]) -> EngineRecord:
        """Measure an engine by its own records; for the target also passes of token-level methods."""
        device = _device_in_words(engine.describe())
        record = await measure_engine(engine, device, options, sampling=self.sampling(), progress=progress)
        if engine.name != TARGET or len(options.batches) < 2:
            return record
        return record.model_copy(update={"decode": [*record.decode, *await self._passes(engine, options)]})

    async def _passes(self, engine: Any, options: MeasureOptions) -> list[DecodeSample]:
        """Passes of token-level methods on the target."""
        raise NotImplementedError

    def record(self, role: str, engine: MeasuredEngine) -> ModelRecord:
        """Return the profile's entry for the model of a role."""
        about = engine.describe()
        models = {TARGET: self.target, DRAFT: self.draft}
        location = models.get(role) or models.get(self.judging, self.judging)
        return ModelRecord(
            name=f"{Path(location).name} {about['architecture']}, {about['n_layers']} layers",
            location=location,
            n_parameters=about["n_parameters"],
            dtype=about.get("settings", about)["dtype"],
        )

    def gpus(self) -> list[GpuState]:
        """Return what the GPUs of the models say of themselves now."""
        return gpu_states(devices_of_roles(self.device)) if self.device != "cpu" else []

    async def stamp(self, engines: Mapping[str, MeasuredEngine]) -> dict[str, Any]:
        """Return engine, version and device, for a profile's provenance."""
        about = engines[TARGET].describe()
        engine, versions = about["engine"], about["versions"]
        where = {} if about["device"] == "cpu" else {"device": about["device"]}
        return {"engine": engine, "engine_version": versions.get(engine) or versions.get(f"{engine}-cpu", ""), **where}


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchModels(LocalModels):
    """Target, draft and judge on torch engines, each in a process of its own."""

    candidates: int = 8
    """Candidates of both models at every position, for methods that choose among several (beam search, SPECS): they
    take most of the time of a calibration. 0: none, and such methods are not planned."""
    max_context: int | None = None
    """Most tokens of a sequence; None: the models' limit, up to 4096. On GPUs memory for it is taken at the start."""

    def __post_init__(self) -> None:
        LocalModels.__post_init__(self)
        if not 0 <= self.candidates <= _MOST_CANDIDATES:
            raise ParameterError("candidates", self.candidates, f"must be an integer in [0, {_MOST_CANDIDATES}]")
        devices_of_roles(self.device)

    def inspection(self) -> Inspection:
        """Return the verdicts and scores of drafts to record."""
        known = LocalModels.inspection(self)
        return replace(known, beams=min(known.beams, self.candidates))

    async def _start(self, role: str, model: str, core: int) -> TorchEngine:
        return await TorchEngine.start(self._config(role, model, core))

    def _config(self, role: str, model: str, core: int) -> TorchConfig:
        methods = OF_CATALOGUE.values() if role == TARGET else ()
        device = devices_of_roles(self.device)[role != TARGET]
        loaded = [(terms.requested, self._drafting(terms.catalogue)) for terms in methods]
        return TorchConfig(
            name=role,
            model=model_folder(role, model),
            device=device,
            dtype=self.dtype,
            max_context=self.max_context,
            cores=(core,) if device == "cpu" else None,
            speculations=tuple(Speculation(method=name, model=folder) for name, folder in loaded if folder),
        )

    def speculation(self, method: str, knobs: Mapping[str, Any]) -> Speculation:
        """Return the speculation of a request for a method of the catalogue; knobs of other methods are ignored.

        Raises
        ------
        ParameterError : these models cannot run it.
        """
        if method not in OF_CATALOGUE:
            raise ParameterError("method", method, f"must be one of {', '.join(OF_CATALOGUE)} on torch engines")
        known = {field.name for field in fields(Speculation)} - {"method", "model", "extra"}
        chosen = {name: value for name, value in knobs.items() if name in known and value is not None}
        return Speculation(method=OF_CATALOGUE[method].requested, model=self._weights(method), **chosen)

    def token_settings(self) -> tuple[Decoding, ...]:
        """Return the token-level methods that a calibration runs on these models."""
        return self._possible(TOKEN_SETTINGS)

    async def _passes(self, engine: Any, options: MeasureOptions) -> list[DecodeSample]:
        """Passes with drafts by a model or head, drafting included."""
        own: list[DecodeSample] = []
        drafting: dict[str, list[Decoding]] = {}
        for setting in self.token_settings():
            if OF_CATALOGUE[setting.method].needs:
                drafting.setdefault(setting.method, []).append(setting)
        for method, settings in drafting.items():
            by_k2 = sorted(settings, key=lambda setting: int(setting.knobs["k2"]))
            for setting in by_k2[:: len(by_k2) - 1 or 1]:  # the least and the most; others are interpolated
                speculation = self.speculation(method, setting.knobs)
                own += await measure_drafting_passes(engine, method, speculation, options, self.sampling())
        return own


def _device_in_words(about: Mapping[str, Any]) -> str:
    """The device of an engine, for a profile: GPUs of one name differ in their numbers.

    >>> _device_in_words({"device": "cpu", "cores": [0, 2]}), _device_in_words({"device": "H200", "cores": [0, 1]})
    ('cpu cores 0,2', 'H200')
    """
    name, of, numbers = str(about["device"]), "", about.get("gpus")
    if name == "cpu":
        of, numbers = " cores", about.get("cores")
    return f"{name}{of} {','.join(map(str, numbers))}" if numbers else name


def model_folder(role: str, model: str) -> Path:
    """Return the folder with the weights of a role."""
    if model != BUNDLED:
        return Path(model)
    from calibrate import pair

    return pair.model_path(role)
