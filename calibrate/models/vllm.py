"""Models on vLLM engines that this process starts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from calibrate.engines.protocol import MeasuredEngine
from calibrate.engines.speculation import Decoding, Speculation
from calibrate.engines.token_vocabulary import OF_CATALOGUE, OF_VLLM, parsed_settings
from calibrate.engines.torch.cuda.devices import gpu_numbers
from calibrate.engines.torch.cuda.telemetry import GpuState, gpu_states
from calibrate.engines.vllm.config import VllmConfig, checked_speculative, setting_of, speculation_of, without_knobs
from calibrate.engines.vllm.engine import VllmEngine
from calibrate.measuring.answers import Inspection
from calibrate.measuring.engine_timings import MeasureOptions, measure_joining_prefills, request_of_length, timed_passes
from calibrate.models.asking import BUNDLED
from calibrate.models.local import LocalModels, model_folder
from calibrate.record.engine_records import DecodeSample, EngineRecord
from sim.roles import DRAFT, JUDGE, TARGET
from theory.errors import ParameterError

__all__ = ["VllmModels"]

_DEFAULTS: Final = (
    Decoding(method="prompt-lookup", knobs={"k2": 4, "max_ngram": 3}),
    Decoding(method="draft-model", knobs={"k2": 4}),
    Decoding(method="eagle", knobs={"k2": 4}),
)

_AT_ONCE: Final = {"cpu": 8, "cuda": 3}
"""Most engines of the target that speculate and run at once; on a GPU each takes its share of the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmModels(LocalModels):
    """Target, draft and judge in vLLM engines; the fields of `LocalModels`, and settings of vLLM."""

    backend: ClassVar[str] = "vllm"
    by_load: ClassVar[bool] = True
    speculative: str = ""
    """vLLM's speculative configurations of the target to measure, a JSON list; configurations of the same method may
    differ in the number of tokens and the lengths of n-grams only. Empty: prompt lookup, and if available the draft as
    draft model and the EAGLE head, with k2 = 4 each."""
    eager: bool = True
    """Whether models run in eager mode; else vLLM compiles and captures them."""
    target_gpus: str | None = None
    """Numbers of the GPUs that the target's engines are split over, with commas between them. None: where another role
    names its GPUs the first one, else the first that this process sees."""
    draft_gpus: str | None = None
    judge_gpus: str | None = None
    gpu_memory_utilization: float = 0.28
    """Share of a GPU's memory for each engine, so that plain target, speculating target and draft fit together."""

    def __post_init__(self) -> None:
        LocalModels.__post_init__(self)
        if self.device not in ("cpu", "cuda"):
            raise ParameterError("device", self.device, "must be 'cpu' or 'cuda'")
        if self.placed and self.device == "cpu":
            raise ParameterError("device", self.device, "must be 'cuda' where GPUs are named")
        self._configurations()

    @property
    def placed(self) -> dict[str, tuple[int, ...]]:
        """The GPUs of each role; empty where none are named."""
        named = {TARGET: self.target_gpus, DRAFT: self.draft_gpus, JUDGE: self.judge_gpus}
        return {role: gpu_numbers(f"{role}-gpus", text) for role, text in named.items()} if any(named.values()) else {}

    def gpus(self) -> list[GpuState]:
        """Return what the GPUs of the models say of themselves now."""
        named = {number for numbers in self.placed.values() for number in numbers}
        return gpu_states([f"cuda:{number}" for number in sorted(named)]) if named else LocalModels.gpus(self)

    def inspection(self) -> Inspection:
        """Return the verdicts and scores to record: two drafts per position, no candidates, which torch measures."""
        known = LocalModels.inspection(self)
        return replace(known, drafts=min(known.drafts, 2), beams=0)

    async def _start(self, role: str, model: str, core: int) -> VllmEngine:
        """Start the engine for plain decoding; engines that speculate are started by the first request for them."""
        config = VllmConfig(
            name=role,
            model=model_folder(role, model),
            device=self.device,
            dtype=self.dtype,
            cores=(core,) if self.device == "cpu" else None,
            gpus=self.placed.get(role),
            eager=self.eager,
            gpu_memory_utilization=self.gpu_memory_utilization,
        )
        return await VllmEngine.start(config, most=_AT_ONCE[self.device])

    def speculation(self, method: str, knobs: Mapping[str, Any]) -> Speculation:
        """Return the speculation of a request for a method of the catalogue; knobs of other methods are ignored.

        Raises
        ------
        ParameterError : vLLM has no such method, or the weights of the drafter are not known.
        """
        known = {terms.catalogue for terms in OF_VLLM.values()}
        if method not in known:
            raise ParameterError("method", method, f"must be one of {', '.join(sorted(known))} on vLLM engines")
        for config in self._configurations():
            if OF_VLLM[config["method"]].catalogue == method:
                return speculation_of(config, knobs)
        if method not in OF_CATALOGUE:
            names = ", ".join(terms.vllm for terms in OF_VLLM.values() if terms.catalogue == method)
            raise ParameterError("method", method, f"needs its drafter: --speculative with the method {names}")
        weights = self._weights(method)
        config = {"method": OF_CATALOGUE[method].vllm} | ({"model": str(weights)} if weights else {})
        return speculation_of(config, knobs)

    def token_settings(self) -> tuple[Decoding, ...]:
        """Return the token-level methods that a calibration runs on these models.

        Raises
        ------
        ParameterError : the folder of a drafter does not exist.
        """
        settings = tuple(map(setting_of, self._configurations())) or self._possible(_DEFAULTS)
        for setting in settings:
            model = self.speculation(setting.method, setting.knobs).model
            if model is not None and not model.is_dir():
                raise ParameterError("model", str(model), "must be a local folder: nothing is downloaded")
        return settings

    def _configurations(self) -> list[dict[str, Any]]:
        """The given speculative configurations, after a check that all their settings can be passed to an engine."""
        configurations = [checked_speculative(self._completed(given)) for given in parsed_settings(self.speculative)]
        _check_passable(configurations)
        heads = {config["model"] for config in configurations if OF_VLLM[config["method"]].catalogue == "eagle"}
        if configurations and self.eagle not in (None, "none") and heads != {self.eagle}:
            rule = "must be the head of a speculative configuration (method eagle or eagle3): add one, or leave it out"
            raise ParameterError("eagle", self.eagle, rule)
        return configurations

    def _completed(self, config: dict[str, Any]) -> dict[str, Any]:
        """A configuration completed by the weights of the drafter, if they are known."""
        if config.get("method") == "draft_model" and config.get("model") in (None, BUNDLED, DRAFT):
            return {**config, "model": str(self._drafting("draft-model") or "")}
        if config.get("method") in ("eagle", "eagle3") and config.get("model") is None:
            return {**config, "model": str(self._drafting("eagle") or "")}
        return config

    async def time_engine(
        self, engine: VllmEngine, options: MeasureOptions, progress: Callable[[str], None]
    ) -> EngineRecord:
        """Measure an engine by its own records, including prefills during decoding; for the target also passes."""
        record = await LocalModels.time_engine(self, engine, options, progress)
        joining = await measure_joining_prefills(engine, options, self.sampling())
        return record.model_copy(update={"prefill": [*record.prefill, *joining]})

    async def _passes(self, engine: VllmEngine, options: MeasureOptions) -> list[DecodeSample]:
        """Passes over k2 tokens of every sequence, by batch and context, with repetitive prompts for n-gram drafts."""
        samples: list[DecodeSample] = []
        vocabulary = int(engine.describe()["vocab_size"])
        for setting in self.token_settings():
            speculation, rng = self.speculation(setting.method, setting.knobs), random.Random(f"passes {options.seed}")
            fast = await engine.engine(speculation)
            for context, batch in options.cells:
                if batch in options.pass_batches:
                    units = [
                        tuple(rng.randrange(vocabulary) for _ in range(max(context // 4, 4))) for _ in range(batch)
                    ]
                    requests = [request_of_length(unit * 4, options.iterations + 1) for unit in units]
                    samples += await timed_passes(fast, setting.method, speculation.k2, requests)
        return samples

    async def stamp(self, engines: Mapping[str, MeasuredEngine]) -> dict[str, Any]:
        """Return engine, version and device, and every setting in effect, for a profile's provenance."""
        notes = [
            f"{role}: {json.dumps(engine.describe()['settings'], sort_keys=True)}" for role, engine in engines.items()
        ]
        notes.append(
            "vLLM: an iteration is the interval between two outputs of its core; the time of a pass includes drafting; "
            "the time of a prefill that joined a decode iteration is what it added to it"
        )
        return {**await LocalModels.stamp(self, engines), "notes": notes}


def _check_passable(configurations: Sequence[Mapping[str, Any]]) -> None:
    """Refuse configurations that a profile cannot distinguish: it records k2 and the lengths of n-grams of a method."""
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
        rest = without_knobs(config)
        known = first.setdefault(setting.method, rest)
        for name in sorted(rest.keys() | known.keys()):
            if rest.get(name) != known.get(name):
                other = f"is {known.get(name)!r} in another configuration of {setting.method}"
                raise ParameterError(name, rest.get(name), f"{other}: calibrate a profile for each")
        if setting.key in keys:
            raise ParameterError("speculative", setting.key, "is given twice: leave one of them out")
        keys.add(setting.key)
