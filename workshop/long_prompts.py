"""What long prompts cost of acceptance: published pairs of a short and a long prompt, and the constants fitted to them.

Priors of acceptance rest on prompts of less than `SHORT` tokens. Per doubling beyond, the logit of the acceptance of
each position falls by a loss that differs between drafters and texts more than between methods: heads that were trained
on short texts lose most, drafters that look at a window of the text lose nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from calibrate.token_acceptance.curves import AcceptanceCurve
from specplan.worlds.prior_constants import SHORT, LongPromptConstants

__all__ = ["REPORTS", "Report", "fit_long_prompts"]


@dataclass(frozen=True, slots=True)
class Report:
    """Tokens per round of a drafter after a short and after a long prompt, of alike texts."""

    drafter: str
    k: int
    """Drafted tokens per round."""
    short: tuple[int, float]
    """Tokens of the prompt, and tokens per round, the bonus token included."""
    long: tuple[int, float]
    source: str

    @property
    def loss(self) -> float:
        """What the logit of acceptance loses per doubling of the prompt beyond `SHORT`."""
        rates = [AcceptanceCurve.from_length(tokens, self.k).unconditional[0] for _, tokens in (self.short, self.long)]
        before, after = (math.log(rate / (1.0 - rate)) for rate in rates)
        return (before - after) / math.log2(self.long[0] / max(self.short[0], SHORT))


REPORTS: Final = (
    Report("EAGLE-3 of Qwen3-8B", 3, (4096, 2.040), (20480, 1.084), "vllm-project/speculators#684"),
    Report("the same with a window of 2048", 3, (4096, 1.590), (20480, 1.537), "vllm-project/speculators#684"),
    # 85 % and 47.5 % of 4 drafted tokens were accepted
    Report("MTP of Qwen3.8-27B, llama.cpp", 4, (100, 4.40), (86_000, 2.90), "vllm-project/vllm#47602"),
    Report("MTP of Qwen3.8-27B, vLLM", 4, (1024, 4.80), (50_000, 4.80), "intel/llm-scaler#657"),
    Report("DFlash2 of GLM-5.3-Flash, prose", 3, (3883, 1.94), (184_501, 1.92), "GLM-5.3-Flash-EXL3-2x-DGX-Sparks#73"),
    Report("DFlash2 of GLM-5.3-Flash, mixed", 7, (100, 6.00), (172_000, 2.65), "GLM-5.3-Flash-EXL3-2x-DGX-Sparks#73"),
    Report("DSpark of Kimi-K3, text", 7, (32_768, 6.68), (98_304, 5.77), "lightseekorg/tokenspeed#1132"),
    Report("DSpark of Kimi-K3, random tokens", 7, (4096, 5.29), (98_304, 2.89), "lightseekorg/tokenspeed#1132"),
)


def fit_long_prompts(reports: Sequence[Report] = REPORTS) -> LongPromptConstants:
    """Return the mean loss and its spread for a drafter that was not seen; at least two reports."""
    losses = [one.loss for one in reports]
    n = len(losses)
    return LongPromptConstants(
        loss=round(fmean(losses), 3),
        spread=round(stdev(losses) * math.sqrt(1.0 + 1.0 / n), 3),
        degrees=n - 1.0,
        source=f"{n} public reports of a short and a long prompt",
    )
