"""A set of models in their roles, where they run, and how they are asked: what a measurement needs to open and reopen.

`ModelSet` is plain data: it goes into a profile's settings, so that a later run can open the same models again.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from calibrate.engines.protocol import Backend, EngineStatistics, Sampling
from calibrate.engines.sentence_encoder import Encoder
from calibrate.engines.speculation import Speculation, TokenMethodName
from calibrate.engines.torch.engine import TorchConfig, TorchEngine
from calibrate.engines.torch.model import check_model_folder, tokenizer_fingerprint
from calibrate.measuring.engine_work import in_use_records
from calibrate.measuring.measure import Look, MeasureOptions, Problem, Truth, measure_engine, warm_up
from calibrate.measuring.token_methods import TOKEN_SETTINGS, TokenSetting
from calibrate.record.profile import EngineRecord, InUse, ModelRecord
from calibrate.running.embedding import EmbeddingSimilarity
from calibrate.running.scorers import (
    Chooser,
    GradeChooser,
    GradeScorer,
    LikelihoodScorer,
    PromptChooser,
    Scorer,
    general_choice_prompt,
    general_score_prompt,
)
from calibrate.running.verifiers import LlmJudge, Verifier
from calibrate.running.wall_clock import StepLimits, WallClock
from sim.operations import DRAFT, DRAFT_LIKELIHOOD, EMBEDDING, EXACT, GATE, JUDGE, LIKELIHOOD, REWARD, SCORER, TARGET
from theory.errors import ParameterError, SchemaError

__all__ = ["BUNDLED", "NEEDS", "ModelSet", "bundled_problems", "bundled_truth", "general_judge_prompt", "model_folder"]

BUNDLED: Final = "bundled"
"""Stands for the bundled pair wherever the path of a model is asked for."""

_TOKEN_METHODS: Final[Mapping[str, TokenMethodName]] = {
    "prompt-lookup": "ngram",
    "draft-model": "draft",
    "eagle": "eagle",
    "lookahead-decoding": "lookahead",
    "jacobi": "jacobi",
}
"""What an engine calls the token-level methods of the catalogue."""

NEEDS: Final[Mapping[str, str]] = {
    "draft-model": "a draft with the target's tokenizer",
    "eagle": "the folder of an EAGLE head of the target",
}
"""What weights token-level methods need besides the target's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSet:
    """Target, draft and judge, each a local model folder (or `BUNDLED`), on their cores or devices."""

    target: str = BUNDLED
    draft: str = BUNDLED
    judge: str = "target"
    """Model folder of the judge, on the draft's core; or ``target`` or ``draft``: that engine judges as well."""

    embedding: str | None = None
    """Folder of a sentence-embedding model, on the draft's core, for the verifier ``embedding``; None: none."""

    token_draft: str | None = None
    """Folder of the model that drafts tokens inside the target's engine; None: the draft, if it has the target's
    tokenizer; ``none``: there is none."""

    eagle: str | None = None
    """Folder of an EAGLE head of the target; None: the bundled target's own, else none; ``none``: there is none."""

    device: str = "cpu"
    dtype: str = "float32"
    target_core: int | None = None
    """CPU core that the target's process is pinned to; None: the first one allowed. Ignored on GPUs."""

    draft_core: int | None = None
    """CPU core of the draft's process; None: the second one allowed, or the first if there is only one."""

    temperature: float = 0.6
    """Sampling temperature of both models; 0 is greedy."""

    top_p: float = 0.95
    max_step_tokens: int = 100
    """A step is cut there, and the answer goes on (LR's limit)."""

    max_steps: int = 64
    """Steps after which an answer is ended by force."""

    judge_threshold: float = 0.5
    """A draft is accepted if the judge's probability of yes is at least this."""

    seed: int = 0
    """Of the sampling: the same prefix gets the same continuation in every run with this seed."""

    def __post_init__(self) -> None:
        Sampling(temperature=self.temperature, top_p=self.top_p)
        if not 0.0 <= self.judge_threshold <= 1.0:
            raise ParameterError("judge_threshold", self.judge_threshold, "must be in [0, 1]")
        for name in ("max_step_tokens", "max_steps"):
            if getattr(self, name) < 1:
                raise ParameterError(name, getattr(self, name), "must be an integer >= 1")
        if (self.target == BUNDLED) != (self.draft == BUNDLED):
            raise ParameterError("draft", self.draft, "must be 'bundled' exactly if the target is")

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Self:
        """Rebuild the set from a profile's settings.

        Raises
        ------
        SchemaError : the settings lack one of the fields.
        """
        names = [field.name for field in fields(cls)]
        missing = [name for name in names if name not in settings and getattr(cls(), name) is not None]
        if missing:
            raise SchemaError(f"settings: lack {', '.join(missing)}, so the models cannot be opened again")
        return cls(**{name: settings[name] for name in names if name in settings})

    def settings(self) -> dict[str, str | int | float | bool]:
        """Return the set as plain settings; cores left to chance are left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def n_engines(self) -> int:
        """Engines that `open` starts."""
        return 2 if self.judge in (TARGET, DRAFT) else 3

    def identity(self) -> dict[str, Any]:
        """Return the settings on which results depend."""
        return dict(self.settings())

    @property
    def is_bundled(self) -> bool:
        """Whether it is the bundled pair, whose task has ground truth."""
        return self.target == BUNDLED

    def judge_prompt(self) -> Callable[[str, str], str]:
        """Return the function that asks the judge about two steps."""
        if self.is_bundled:
            from calibrate.pair import judge_prompt

            return judge_prompt
        return general_judge_prompt

    def look(self) -> Look:
        """Return how closely a measurement looks at drafts: as closely as these models can be asked.

        Scores need a model that answers the request for one; of the bundled pair that is known.
        """
        verifiers = (GATE, EXACT, EMBEDDING) if self.embedding else (GATE, EXACT)
        if self.is_bundled:
            return Look(drafts=4, verifiers=verifiers, scorers=(SCORER, REWARD), chooser=True, beams=8)
        return Look(verifiers=verifiers)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[dict[str, Any], WallClock]]:
        """Start the engines, each in a process of its own; yield them by role, and a wall clock on them; end them."""
        cores = sorted(os.sched_getaffinity(0))
        first = cores[0] if self.target_core is None else self.target_core
        second = cores[min(1, len(cores) - 1)] if self.draft_core is None else self.draft_core
        engines: list[Any] = []
        encoder = None
        try:
            if self.embedding:
                encoder = await Encoder.start(Path(self.embedding), core=second)
            for role, model, core in ((TARGET, self.target, first), (DRAFT, self.draft, second)):
                engines.append(await self._start(role, model, core))
            roles = {TARGET: engines[0], DRAFT: engines[1]}
            if self.judge not in roles:
                engines.append(await self._start(JUDGE, self.judge, second))
            roles[JUDGE] = roles.get(self.judge, engines[-1])
            yield roles, self.clock(roles, encoder)
        finally:
            for engine in engines:
                await engine.close()
            if encoder is not None:
                await encoder.close()

    async def _start(self, role: str, model: str, core: int) -> Any:
        """Start the engine of a role; another kind of engine is another set of models."""
        return await TorchEngine.start(self._config(role, model, core))

    def _config(self, role: str, model: str, core: int) -> TorchConfig:
        loaded: list[Speculation] = []
        if role == TARGET:
            weights = {method: self._drafting(method) for method in NEEDS}
            loaded = [Speculation(method=_TOKEN_METHODS[m], model=folder) for m, folder in weights.items() if folder]
        return TorchConfig(
            name=role,
            model=model_folder(role, model),
            device=self.device,
            dtype=self.dtype,
            cores=(core,) if self.device == "cpu" else None,
            speculations=tuple(loaded),
        )

    def speculation(self, method: str, knobs: Mapping[str, Any]) -> Speculation:
        """Return what a request must carry to be decoded with a token-level method.

        Parameters
        ----------
        method : its name in the catalogue.
        knobs : ``k2`` and the method's own; others are left alone.

        Raises
        ------
        ParameterError : these models cannot run it.
        """
        if method not in _TOKEN_METHODS:
            raise ParameterError("method", method, f"must be one of {', '.join(_TOKEN_METHODS)} on torch engines")
        folder = self._drafting(method)
        if method in NEEDS and folder is None:
            raise ParameterError("method", method, f"needs {NEEDS[method]}")
        known = {field.name for field in fields(Speculation)} - {"method", "model", "extra"}
        chosen = {name: value for name, value in knobs.items() if name in known and value is not None}
        return Speculation(method=_TOKEN_METHODS[method], model=folder, **chosen)

    def token_settings(self) -> tuple[TokenSetting, ...]:
        """Return the token-level methods that a calibration runs on these models."""
        return tuple(one for one in TOKEN_SETTINGS if one.method not in NEEDS or self._drafting(one.method))

    def _drafting(self, method: str) -> Path | None:
        """The weights that draft for a token-level method inside the target's engine; None: there are none."""
        if method == "eagle":
            return self._head()
        return self._token_draft() if method == "draft-model" else None

    def _head(self) -> Path | None:
        if self.eagle is not None:
            return None if self.eagle == "none" else Path(self.eagle)
        if not self.is_bundled:
            return None
        from calibrate import pair

        return pair.head_path()

    def _token_draft(self) -> Path | None:
        """The model that drafts tokens inside the target's engine."""
        if self.token_draft == "none":
            return None
        if self.token_draft is not None:
            return Path(self.token_draft)
        target, draft = model_folder(TARGET, self.target), model_folder(DRAFT, self.draft)
        same = tokenizer_fingerprint(target) == tokenizer_fingerprint(draft)
        return draft if same and _vocabulary(target) == _vocabulary(draft) else None

    async def warm_up(self, engine: TorchEngine, seconds: float) -> EngineStatistics:
        """Keep an engine busy until its first, slow iterations are over."""
        return await warm_up(engine, seconds=seconds)

    async def time_engine(
        self, engine: TorchEngine, options: MeasureOptions, *, warmup: EngineStatistics, progress: Callable[[str], None]
    ) -> EngineRecord:
        """Measure an engine by its own records of its iterations."""
        return await measure_engine(engine, _device(engine), options, warmup=warmup, progress=progress)

    async def in_use(
        self, engines: Mapping[str, TorchEngine], outside: Mapping[str, Sequence[float]]
    ) -> Mapping[str, InUse]:
        """Return what each engine did since it was last asked."""
        return await in_use_records(engines, outside)

    def record(self, role: str, engine: TorchEngine) -> ModelRecord:
        """Return what is known about the model of a role."""
        about = engine.describe()
        models = {TARGET: self.target, DRAFT: self.draft}
        location = models.get(role) or models.get(self.judge, self.judge)
        return ModelRecord(
            name=f"{Path(location).name} {about['architecture']}, {about['n_layers']} layers",
            location=location,
            n_parameters=about["n_parameters"],
            dtype=about["dtype"],
        )

    async def stamp(self, engines: dict[str, TorchEngine]) -> dict[str, Any]:
        """Return engine, version and device, for a profile's provenance."""
        about = engines[TARGET].describe()
        found = {"engine": "torch", "engine_version": about["versions"]["torch"]}
        return found if about["device"] == "cpu" else {**found, "device": about["device"]}

    def clock(self, roles: Mapping[str, Backend], encoder: Encoder | None = None) -> WallClock:
        """Return a wall clock on engines of these roles, which asks them as this set is to be asked."""
        return WallClock(
            roles=roles,
            verifier=LlmJudge(prompt=self.judge_prompt(), threshold=self.judge_threshold),
            verifiers=self._verifiers(encoder),
            scorers=self._scorers(),
            chooser=self._chooser(),
            sampling=Sampling(temperature=self.temperature, top_p=self.top_p),
            limits=StepLimits(max_step_tokens=self.max_step_tokens, max_steps=self.max_steps),
            seed=self.seed,
        )

    def _verifiers(self, encoder: Encoder | None) -> dict[str, Verifier]:
        found: dict[str, Verifier] = {GATE: LlmJudge(prompt=self.judge_prompt())}
        return found if encoder is None else {**found, EMBEDDING: EmbeddingSimilarity(encoder)}

    def _chooser(self) -> Chooser:
        """How a choice among candidates is made; the bundled models know grades, but no letters."""
        if self.is_bundled:
            return GradeChooser(scorer=self._graders()[REWARD])
        return PromptChooser(prompt=general_choice_prompt)

    def _scorers(self) -> dict[str, Scorer]:
        """Who scores steps; a greedy model's likelihoods are those at temperature 1."""
        likelihood = LikelihoodScorer(temperature=self.temperature or 1.0)
        return {**self._graders(), LIKELIHOOD: likelihood, DRAFT_LIKELIHOOD: likelihood}

    def _graders(self) -> dict[str, GradeScorer]:
        prompt: Callable[[str, Sequence[str], str], str] = general_score_prompt
        if self.is_bundled:
            from calibrate import pair

            prompt = pair.score_prompt
        return {SCORER: GradeScorer(prompt=prompt), REWARD: GradeScorer(prompt=prompt, reward=True)}


def _device(engine: TorchEngine) -> str:
    about = engine.describe()
    cores = about.get("cores")
    return f"cpu cores {','.join(map(str, cores))}" if cores else str(about["device"])


def model_folder(role: str, model: str) -> Path:
    """Return where the weights of a role are."""
    if model != BUNDLED:
        return Path(model)
    from calibrate import pair

    return pair.draft_path() if role == DRAFT else pair.target_path()


def _vocabulary(folder: Path) -> int:
    return int(check_model_folder(folder)["vocab_size"])


def general_judge_prompt(step_a: str, step_b: str) -> str:
    """Ask an instruction-tuned model whether two reasoning steps mean the same; it answers `` Yes`` or `` No``."""
    return (
        "Two versions of one step of a solution follow. Do they make the same claim and reach the same result, "
        "wording aside? If in doubt, the answer is No.\n\n"
        f"Version 1: {step_a.strip()}\n\nVersion 2: {step_b.strip()}\n\nAnswer (Yes or No):"
    )


def bundled_problems(n: int, seed: int, split: str) -> list[Problem]:
    """Return ``n`` problems of the bundled task; ``split`` is 'calibration' or 'validation', which are disjoint."""
    from calibrate import pair

    drawn = pair.problems(n, seed, split)  # type: ignore[arg-type]  # one of the two names
    return [Problem(name=f"{split}-{seed}-{i}", prompt=problem.prompt) for i, problem in enumerate(drawn)]


def bundled_truth() -> Truth:
    """Return the ground truth of the bundled task."""
    from calibrate import pair

    return Truth(
        step_is_correct=pair.step_is_correct,
        same_meaning=pair.same_meaning,
        answer_is_correct=pair.answer_is_correct,
    )
