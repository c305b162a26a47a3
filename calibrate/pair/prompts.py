"""The two auxiliary prompts that the bundled models answer with a single token: same meaning, and quality of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calibrate.pair.task import STEP_SEPARATOR

__all__ = ["JUDGE_NO", "JUDGE_YES", "SCORE_REQUEST", "SCORE_TOKENS", "judge_prompt", "prompt_fragments", "score_prompt"]

JUDGE_YES: Final = " Yes"
"""Answer token of ``judge_prompt``: the two steps mean the same."""
JUDGE_NO: Final = " No"
"""Answer token of ``judge_prompt``: the two steps do not mean the same."""
SCORE_TOKENS: Final = tuple("0123456789")
"""Answer tokens of ``score_prompt``, worst first; these bare digits occur nowhere else in the language."""
SCORE_REQUEST: Final = "Score:"
"""Text after the step to be scored and a separator."""
_FIRST, _SECOND, _SAME = "First:", "Second:", "Same meaning?"


def judge_prompt(step_a: str, step_b: str) -> str:
    """Prompt whether two steps mean the same; the answer is ``JUDGE_YES`` or ``JUDGE_NO``.

    The judge sees the two steps only, like the verifier of Lookahead Reasoning, not the problem.
    """
    return STEP_SEPARATOR.join((_FIRST, step_a.strip(), _SECOND, step_b.strip(), _SAME))


def score_prompt(question: str, previous_steps: Sequence[str], step: str) -> str:
    """Prompt for a grade of a step after the steps before it; the answer is one of ``SCORE_TOKENS``.

    The prompt continues the model's own text, so that it is in an engine's prefix cache.
    """
    return STEP_SEPARATOR.join((question.strip(), *(s.strip() for s in previous_steps), step.strip(), SCORE_REQUEST))


def prompt_fragments() -> tuple[str, ...]:
    """Every text that the prompts add to the language, for the tokenizer's vocabulary."""
    return (_FIRST, _SECOND, _SAME, SCORE_REQUEST, JUDGE_YES, JUDGE_NO, *SCORE_TOKENS)
