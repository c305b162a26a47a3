"""Lookahead Decoding and Jacobi decoding as methods: plain decoding, by an engine that drafts with the target itself.

What their passes commit comes from recorded passes (`sim.answers.token_passes`); the algorithms themselves, with
windows, pools and verification, run inside the engine (`calibrate.engines.torch.token_methods.lookahead_decoding`,
``jacobi_decoding``).
"""

from __future__ import annotations

from sim.algorithms.token import decoded
from sim.catalogue import Knob, KnobValue, Method

__all__ = ["METHODS", "jacobi_tokens", "lookahead_tokens"]

_TEXT = "the text is plain decoding's, token for token, with the same seed"


def lookahead_tokens(*, ngram: int = 3, **knobs: KnobValue | None) -> int:
    """Tokens that a pass of Lookahead Decoding commits at most: a whole n-gram but its first, and one more."""
    return ngram


def jacobi_tokens(*, window: int = 4, **knobs: KnobValue | None) -> int:
    """Tokens that a pass of Jacobi decoding commits at most: a whole block, and one more."""
    return window + 1


METHODS = (
    Method(
        name="lookahead-decoding",
        title="Lookahead Decoding",
        paper="Fu et al. 2024, Algorithms 1, 3 and 4",
        level="token",
        algorithm=decoded,
        exact=f"{_TEXT}; rows of a pass, (W + G)(N - 1); Equation 5 for independent guesses",
        measured="tokens of each pass; rows of a pass (not every pass finds G n-grams) and its seconds",
        knobs=(
            Knob(name="window", kind="integer", default=5, low=1, high=128, help="W, columns of the lookahead branch"),
            Knob(name="ngram", kind="integer", default=3, low=2, high=32, help="N, tokens of an n-gram"),
            Knob(name="guesses", kind="integer", default=5, low=1, high=128, help="G, n-grams verified in a pass"),
        ),
        closed_form="theory.lookahead_decoding.speedup.lookahead_compression",
        most_tokens=lookahead_tokens,
        drafts_steps=False,
    ),
    Method(
        name="jacobi",
        title="Jacobi decoding",
        paper="Fu et al. 2024, Algorithm 2; Santilli et al. 2023",
        level="token",
        algorithm=decoded,
        exact=f"{_TEXT}, in at most as many passes; Equation 4 where guesses are right independently",
        measured="tokens of each pass; seconds of a pass by rows and batch",
        knobs=(Knob(name="window", kind="integer", default=4, low=1, high=128, help="guesses that are iterated on"),),
        closed_form="theory.lookahead_decoding.speedup.expected_tokens_single",
        most_tokens=jacobi_tokens,
        drafts_steps=False,
    ),
)
