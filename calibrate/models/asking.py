"""Settings of all sets of models: questions, prompts, the judge's threshold, limits and sampling.

All kinds of sets in this folder are plain data that extend it: they are stored in a profile's settings, so that a later
run can open the same models again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Final, Self

from calibrate.engines.protocol import Backend, Sampling
from calibrate.engines.torch.cuda.telemetry import GpuState
from calibrate.measuring.answers import Inspection
from calibrate.running.problem import Problem, Truth
from calibrate.running.scorers import (
    Chooser,
    GradeChooser,
    GradeScorer,
    LikelihoodScorer,
    PromptChooser,
    general_choice_prompt,
    general_score_prompt,
)
from calibrate.running.verifiers import EmbeddingSimilarity, Encodes, LlmJudge, Verifier
from calibrate.running.wall_clock import StepLimits, WallClock
from sim.roles import DRAFT, DRAFT_LIKELIHOOD, EMBEDDING, GATE, LIKELIHOOD, REWARD, SCORER, TARGET
from theory.errors import ParameterError, SchemaError, check_integers

__all__ = ["BUNDLED", "AskedModels", "bundled_problems", "bundled_truth", "general_judge_prompt"]

BUNDLED: Final = "bundled"
"""In place of a model's path: the model of the bundled pair."""

_BUNDLED_ANSWER: Final = 1600
"""Most tokens of an answer of the bundled pair: with its question and another step to score, it fits into the 2,048
tokens of the models. About one answer in several hundred never ends by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModels:
    """Target and draft with prompts, limits and sampling; subclasses add the engines and the judge."""

    backend: ClassVar[str] = ""
    """Name of the kind in a profile's settings; empty: models on torch."""
    by_load: ClassVar[bool] = False
    """Whether a calibration measures the target by load by default."""
    target: str
    draft: str
    temperature: float = 0.6
    """Sampling temperature of both models; 0 is greedy."""
    top_p: float = 0.95
    max_step_tokens: int = 100
    """Tokens at which a step is cut; the answer continues (LR's limit)."""
    max_steps: int = 64
    """Most steps of an answer."""
    judge_threshold: float = 0.5
    """Least probability of yes by the judge at which a draft is accepted."""
    seed: int = 0
    """Seed of the sampling: with the same seed, a prefix has the same continuation in every run."""

    def __post_init__(self) -> None:
        self.sampling()
        if not 0.0 <= self.judge_threshold <= 1.0:
            raise ParameterError("judge_threshold", self.judge_threshold, "must be in [0, 1]")
        check_integers(self, max_step_tokens=1, max_steps=1)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Rebuild the models from a profile's settings.

        Raises
        ------
        SchemaError : the settings name no target or no draft.
        """
        missing = [name for name in (TARGET, DRAFT) if name not in settings]
        if missing:
            raise SchemaError(f"settings: lack {', '.join(missing)}, so the models cannot be opened again")
        return cls(**{field.name: settings[field.name] for field in fields(cls) if field.name in settings})

    def gpus(self) -> Sequence[GpuState]:
        """Return what the GPUs of the models say of themselves now; none where they may be another machine's."""
        return ()

    def settings(self) -> dict[str, str | int | float | bool]:
        """Return all settings as plain data, without fields that are None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        kind = {"backend": self.backend} if self.backend else {}
        return {**kind, **{name: value for name, value in values.items() if value is not None}}

    def identity(self) -> dict[str, Any]:
        """Return the settings on which results depend."""
        return dict(self.settings())

    @property
    def is_bundled(self) -> bool:
        """Whether it is the bundled pair, whose task has ground truth."""
        return self.target == BUNDLED

    def inspection(self) -> Inspection:
        """Return the verdicts and scores of drafts that a measurement records with these models."""
        if self.is_bundled:  # trained to give scores
            return Inspection(drafts=4, scorers=(SCORER, REWARD), chooser=True, beams=8)
        return Inspection()

    def sampling(self) -> Sampling:
        """Return the sampling of tokens."""
        return Sampling(temperature=self.temperature, top_p=self.top_p)

    def judge_prompt(self) -> Callable[[str, str], str]:
        """Return the function that makes the judge's prompt from two steps."""
        if self.is_bundled:
            from calibrate.pair import judge_prompt

            return judge_prompt
        return general_judge_prompt

    def clock(self, roles: Mapping[str, Backend], encoder: Encodes | None = None) -> WallClock:
        """Return a wall clock on engines of these roles, with the prompts and limits of these models."""
        limits = StepLimits(max_step_tokens=self.max_step_tokens, max_steps=self.max_steps)
        score_prompt: Callable[[str, Sequence[str], str], str] = general_score_prompt
        if self.is_bundled:
            from calibrate import pair

            score_prompt = pair.score_prompt
            limits = replace(limits, max_answer_tokens=_BUNDLED_ANSWER)
        graders = {SCORER: GradeScorer(prompt=score_prompt), REWARD: GradeScorer(prompt=score_prompt, reward=True)}
        chooser: Chooser = PromptChooser(prompt=general_choice_prompt)
        if self.is_bundled:  # its models give grades, but no letters
            chooser = GradeChooser(scorer=graders[REWARD])
        verifiers: dict[str, Verifier] = {GATE: LlmJudge(prompt=self.judge_prompt())}
        if encoder is not None:
            verifiers[EMBEDDING] = EmbeddingSimilarity(encoder)
        likelihood = LikelihoodScorer(temperature=self.temperature or 1.0)  # of a greedy model: at temperature 1
        return WallClock(
            roles=roles,
            verifier=LlmJudge(prompt=self.judge_prompt(), threshold=self.judge_threshold),
            verifiers=verifiers,
            scorers={**graders, LIKELIHOOD: likelihood, DRAFT_LIKELIHOOD: likelihood},
            chooser=chooser,
            sampling=self.sampling(),
            limits=limits,
            seed=self.seed,
        )


def general_judge_prompt(step_a: str, step_b: str) -> str:
    """Prompt an instruction-tuned model whether two reasoning steps mean the same; it answers `` Yes`` or `` No``."""
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
