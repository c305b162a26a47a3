"""The bundled pair: tiny language models (a target, a ten times cheaper draft, a judge) and the task they solve.

Synthetic step-by-step arithmetic with blank lines between the steps, many wordings of the same step and computable
ground truth. Importing this package loads neither torch nor numpy; ``workshop.training.train`` makes the weights
and ``workshop.training.evaluate`` measures them.

>>> from calibrate import pair
>>> problem, = pair.problems(1, seed=0)
>>> pair.answer_is_correct(problem.question, f"All in all it is {problem.answer}.")
True
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from calibrate.pair.task import (
    JUDGE_NO,
    JUDGE_YES,
    MAX_STEP_TOKENS,
    SCORE_TOKENS,
    STEP_SEPARATOR,
    Problem,
    answer_is_correct,
    judge_prompt,
    problems,
    same_meaning,
    score_prompt,
    split_steps,
    step_is_correct,
)

__all__ = [
    "JUDGE_NO",
    "JUDGE_YES",
    "MAX_STEP_TOKENS",
    "SCORE_TOKENS",
    "STEP_SEPARATOR",
    "Problem",
    "answer_is_correct",
    "draft_path",
    "head_path",
    "judge_path",
    "judge_prompt",
    "model_path",
    "problems",
    "same_meaning",
    "score_prompt",
    "speaks",
    "split_steps",
    "step_is_correct",
    "target_path",
]

_WEIGHTS: Final = Path(__file__).parent / "weights"


def model_path(role: str) -> Path:
    """The folder of the model for a role, ``target``, ``draft`` or ``judge``; all have the same tokenizer."""
    return _WEIGHTS / role


def target_path() -> Path:
    """The folder of the target model, as transformers and vLLM load it."""
    return model_path("target")


def draft_path() -> Path:
    """The folder of the draft model."""
    return model_path("draft")


def judge_path() -> Path:
    """The folder of the model that compares steps, and does nothing else."""
    return model_path("judge")


def head_path() -> Path:
    """The folder of an EAGLE head for the target, as vLLM and this project's torch engine load it."""
    return _WEIGHTS / "eagle"


def speaks(folder: Path) -> bool:
    """Whether a model folder has the bundled pair's tokenizer, as a widened pair's has: it knows the same task."""
    try:
        return (folder / "tokenizer.json").read_bytes() == (target_path() / "tokenizer.json").read_bytes()
    except (OSError, ValueError):
        return False
