"""What models are asked, wherever they run: questions, prompts, the judge's threshold, limits and sampling.

All kinds of models of this folder are plain data on top of it: they go into a profile's settings, so that a later run
can open and ask the same models again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Final, Self

from calibrate.engines.protocol import Backend, Sampling
from calibrate.measuring.answers import Inspection
from calibrate.running.embedding import EmbeddingSimilarity, Encodes
from calibrate.running.problem import Problem, Truth
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
from sim.operations import DRAFT, DRAFT_LIKELIHOOD, EMBEDDING, GATE, LIKELIHOOD, REWARD, SCORER, TARGET
from theory.errors import ParameterError, SchemaError

__all__ = ["BUNDLED", "AskedModels", "bundled_problems", "bundled_truth", "general_judge_prompt"]

BUNDLED: Final = "bundled"
"""Stands for the bundled pair wherever the path of a model is asked for."""

_BUNDLED_ANSWER: Final = 1600
"""Tokens of an answer of the bundled pair at most: with its question and one more step, which is to be scored, it fits
into the 2,048 tokens of the models. One answer in some hundreds goes on for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModels:
    """Target and draft, and how they are asked; the kinds of models say where these two are and who judges."""

    backend: ClassVar[str] = ""
    """Names the kind in a profile's settings; empty: models on torch."""

    target: str
    draft: str

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
    """Seed of the sampling: the same prefix gets the same continuation in every run with it."""

    def __post_init__(self) -> None:
        self.sampling()
        if not 0.0 <= self.judge_threshold <= 1.0:
            raise ParameterError("judge_threshold", self.judge_threshold, "must be in [0, 1]")
        for name in ("max_step_tokens", "max_steps"):
            if getattr(self, name) < 1:
                raise ParameterError(name, getattr(self, name), "must be an integer >= 1")

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

    def settings(self) -> dict[str, str | int | float | bool]:
        """Return everything as plain settings; what is left to chance is left out."""
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
        """Return what a measurement finds out about drafts: as much as these models can be asked.

        Scores need a model that answers the request for one; of the bundled pair that is known.
        """
        if self.is_bundled:
            return Inspection(drafts=4, scorers=(SCORER, REWARD), chooser=True, beams=8)
        return Inspection()

    def sampling(self) -> Sampling:
        """Return how tokens are drawn."""
        return Sampling(temperature=self.temperature, top_p=self.top_p)

    def judge_prompt(self) -> Callable[[str, str], str]:
        """Return the function that asks the judge about two steps."""
        if self.is_bundled:
            from calibrate.pair import judge_prompt

            return judge_prompt
        return general_judge_prompt

    def clock(self, roles: Mapping[str, Backend], encoder: Encodes | None = None) -> WallClock:
        """Return a wall clock on engines of these roles, which asks them as these models are to be asked."""
        return WallClock(
            roles=roles,
            verifier=LlmJudge(prompt=self.judge_prompt(), threshold=self.judge_threshold),
            verifiers=self._verifiers(encoder),
            scorers=self._scorers(),
            chooser=self._chooser(),
            sampling=self.sampling(),
            limits=self._limits(),
            seed=self.seed,
        )

    def _limits(self) -> StepLimits:
        limits = StepLimits(max_step_tokens=self.max_step_tokens, max_steps=self.max_steps)
        return replace(limits, max_answer_tokens=_BUNDLED_ANSWER) if self.is_bundled else limits

    def _verifiers(self, encoder: Encodes | None) -> dict[str, Verifier]:
        gate: dict[str, Verifier] = {GATE: LlmJudge(prompt=self.judge_prompt())}
        return gate if encoder is None else {**gate, EMBEDDING: EmbeddingSimilarity(encoder)}

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
