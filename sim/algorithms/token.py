"""Token-level speculation as methods: plain decoding by an engine whose passes commit several tokens.

The engine determines the tokens and the time of a pass (`sim.answers.token_passes`, `calibrate.engines`), so the
generator is that of plain decoding. Below a step-level method the same speculation makes a hybrid.
"""

from __future__ import annotations

from functools import partial

from sim.algorithms.autoregressive import decoded
from sim.catalogue import Knob, KnobValue, Method

__all__ = ["METHODS", "decoded", "jacobi_tokens", "lookahead_tokens"]

_K2 = partial(Knob, name="k2", kind="integer", low=2, high=1024, help="tokens that a target pass commits at most")
_METHOD = partial(Method, level="token", algorithm=decoded, drafts_steps=False)
_LEAST = Knob(
    name="least",
    kind="number",
    default=0.0,
    low=0.0,
    high=1.0,
    help="adaptive verification: how likely a drafted token and those before it must be right; 0: all are verified",
)
_TEXT = "the text's distribution is the target's"
_SAME_TEXT = "the text is plain decoding's, token for token, with the same seed"


def lookahead_tokens(*, ngram: int = 3, **knobs: KnobValue | None) -> int:
    """Most tokens that a pass of Lookahead Decoding commits: an n-gram without its first token, and one more."""
    return ngram


def jacobi_tokens(*, window: int = 4, **knobs: KnobValue | None) -> int:
    """Most tokens that a pass of Jacobi decoding commits: a whole block, and one more."""
    return window + 1


METHODS = (
    _METHOD(
        name="prompt-lookup",
        title="prompt lookup",
        paper="Saxena 2023; Lookahead Reasoning, section 3.3 (g)",
        exact=f"{_TEXT}; tokens per pass given hit rate, continuation and draft lengths, cut ends of steps included",
        measured="tokens of each pass, recorded or counted per position; seconds of a pass by rows and batch",
        knobs=(
            _K2(default=4),
            Knob(name="max_ngram", kind="integer", default=None, low=1, high=64, help="longest n-gram, tokens"),
        ),
        closed_form="theory.token_methods.lookup_tokens",
    ),
    _METHOD(
        name="draft-model",
        title="draft-model speculation",
        paper="Leviathan, Kalman, Matias 2023; Chen et al. 2023",
        exact=f"{_TEXT} (rejection sampling); g(alpha2, c2, k2) where acceptance does not depend on the position",
        measured="tokens of each pass; seconds of a pass by rows and batch, of drafting and of the draft's prefill",
        knobs=(_K2(default=3),),
        closed_form="theory.speedup.g",
    ),
    _METHOD(
        name="eagle",
        title="EAGLE head",
        paper="Li et al. 2024 (EAGLE)",
        exact=f"{_TEXT} (rejection sampling); tokens per pass given the acceptance at each position of a draft",
        measured="tokens of each pass; seconds of a pass by rows and batch, and of drafting",
        knobs=(_K2(default=4),),
        closed_form="theory.token_methods.vector_tokens",
    ),
    _METHOD(
        name="block-drafter",
        title="block drafter",
        paper="Chen, Liang, Liu 2026 (DFlash); Cheng et al. 2026 (DSpark)",
        exact=f"{_TEXT} (rejection sampling); tokens per pass given the acceptance at each position of a block",
        measured="tokens of each pass, at this k2 only; seconds of a pass by rows and batch, and of drafting",
        knobs=(_K2(default=8), _LEAST),
        closed_form="theory.block_drafting.block_tokens",
    ),
    _METHOD(
        name="lookahead-decoding",
        title="Lookahead Decoding",
        paper="Fu et al. 2024, Algorithms 1, 3 and 4",
        exact=f"{_SAME_TEXT}; rows of a pass, (W + G)(N - 1); Equation 5 for independent guesses",
        measured="tokens of each pass; rows of a pass (not every pass finds G n-grams) and its seconds",
        knobs=(
            Knob(name="window", kind="integer", default=5, low=1, high=128, help="W, columns of the lookahead branch"),
            Knob(name="ngram", kind="integer", default=3, low=2, high=32, help="N, tokens of an n-gram"),
            Knob(name="guesses", kind="integer", default=5, low=1, high=128, help="G, n-grams verified in a pass"),
        ),
        closed_form="theory.lookahead_decoding.speedup.lookahead_compression",
        most_tokens=lookahead_tokens,
    ),
    _METHOD(
        name="jacobi",
        title="Jacobi decoding",
        paper="Fu et al. 2024, Algorithm 2; Santilli et al. 2023",
        exact=f"{_SAME_TEXT}, in at most as many passes; Equation 4 where guesses are right independently",
        measured="tokens of each pass; seconds of a pass by rows and batch",
        knobs=(Knob(name="window", kind="integer", default=4, low=1, high=128, help="guesses that are iterated on"),),
        closed_form="theory.speedup.expected_tokens",
        most_tokens=jacobi_tokens,
    ),
)
