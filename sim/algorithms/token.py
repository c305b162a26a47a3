"""Token-level speculation as methods of their own: plain decoding, by an engine whose passes commit several tokens.

What a pass commits and costs is the engine's business (`sim.answers.token_passes`, `calibrate.engines`), so the
generator is that of plain decoding; below a method of the step level the same speculation makes a hybrid.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sim.algorithms.autoregressive import autoregressive
from sim.catalogue import Knob, KnobValue, Method
from sim.operations import Algorithm, Step

__all__ = ["METHODS", "decoded"]

_K2 = partial(Knob, name="k2", kind="integer", low=2, high=1024, help="tokens that a target pass commits at most")
_TEXT = "the text's distribution is the target's"


def decoded(**knobs: KnobValue | None) -> Callable[[Step], Algorithm]:
    """Return plain decoding; the knobs are the engine's to follow."""
    return autoregressive


METHODS = (
    Method(
        name="prompt-lookup",
        title="prompt lookup",
        paper="Saxena 2023; Lookahead Reasoning, section 3.3 (g)",
        level="token",
        algorithm=decoded,
        exact=f"{_TEXT}; tokens per pass given hit rate, continuation and draft lengths, cut ends of steps included",
        measured="tokens of each pass, recorded or counted per position; seconds of a pass by rows and batch",
        knobs=(
            _K2(default=4),
            Knob(name="max_ngram", kind="integer", default=None, low=1, high=64, help="longest n-gram, tokens"),
        ),
        closed_form="theory.token_methods.lookup_tokens",
        drafts_steps=False,
    ),
    Method(
        name="draft-model",
        title="draft-model speculation",
        paper="Leviathan, Kalman, Matias 2023; Chen et al. 2023",
        level="token",
        algorithm=decoded,
        exact=f"{_TEXT} (rejection sampling); g(alpha2, c2, k2) where acceptance does not depend on the position",
        measured="tokens of each pass; seconds of a pass by rows and batch, of drafting and of the draft's prefill",
        knobs=(_K2(default=3),),
        closed_form="theory.speedup.g",
        drafts_steps=False,
    ),
    Method(
        name="eagle",
        title="EAGLE head",
        paper="Li et al. 2024 (EAGLE)",
        level="token",
        algorithm=decoded,
        exact=f"{_TEXT} (rejection sampling); tokens per pass given the acceptance at each position of a draft",
        measured="tokens of each pass; seconds of a pass by rows and batch, and of drafting",
        knobs=(_K2(default=4),),
        closed_form="theory.token_methods.vector_tokens",
        drafts_steps=False,
    ),
)
