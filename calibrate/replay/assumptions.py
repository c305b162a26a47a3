"""What is assumed of models and engines where a published profile, or a name, does not say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = ["ASSUMED", "HALF_WIDTHS", "Assumptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """Quantities that a published profile lacks; measured elsewhere on comparable models (Qwen3-32B, 2 x H100).

    Verdicts are assumed to overlap. One at a time they would reduce the speedup by .1 to .2 % at k1 = 4 to 8.
    """

    mean_step_tokens: float = 40.0
    """Mean length of a step, tokens."""
    step_length_cv: float = 1.2
    """Coefficient of variation of a step's length, [-]."""
    draft_correlation: float = 0.6
    """Correlation of the log lengths of draft and target step, [-]."""
    lag1: float = 0.37
    """Correlation of the log lengths of consecutive steps, [-]."""
    step_limit: int = 100
    """Tokens at which a step is cut."""
    steps_per_answer: int = 100
    """Steps of an answer."""
    prompt_tokens: int = 200
    """Length of the prompt, tokens."""
    siblings: float = 0.63
    """Correlation of the verdicts on drafts of one position, fitted to LR Table 3 (GSM8K, 7B judge): with independent
    verdicts, 1 - (1 - alpha)**W, a draft would be accepted with probability .9996 where .83 was measured."""
    sequence_cost: float = 0.0049
    """Time that each further sequence adds to a target iteration, as a share of it, [-]."""
    context_cost: float = 3.7e-6
    """Time that each cached token adds to a target iteration, as a share of it, [-]: with ``sequence_cost`` this gives
    8 sequences 1.06, 1.14 and 1.45 times the cost of one at 1k, 4k and 16k tokens of context each."""
    persistence: float = 0.0
    """Correlation of the verdicts on consecutive steps, [-]; 0 is the papers' independence."""


ASSUMED: Final = Assumptions()
HALF_WIDTHS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "draft_correlation": 0.2,
        "lag1": 0.15,
        "step_limit": 50,
        "steps_per_answer": 50,
        "prompt_tokens": 100,
        "siblings": 0.1,
        "sequence_cost": 0.0025,
        "context_cost": 1.2e-6,
        "persistence": 0.5,
    }
)
"""Half-width of the range of each of the `Assumptions`, in its own unit; resampled variants are uniform in it.

- correlations of lengths: one model on one kind of problem was measured; other tasks split their text differently;
- the cut: 100 tokens is the default of LR's released code, which its paper does not mention;
- siblings: LR Table 3 fits .64 and .67 (GSM8K, judge of 7B and 32B), .56 and .67 (AIME24);
- the costs of batch and context: half and a third of them, as between 1 and 4 GPUs and kernels;
- persistence, >= 0: verdicts are correlated, partly by problem (.85 to .95 after an acceptance, .1 to .45 after none);
- mean and spread of step lengths have theirs in the profile, as have c1 and the time of a verdict;
- the schedule is chosen, not assumed, and the model's error is measured for each (`specplan.planning.model_error`).
"""
