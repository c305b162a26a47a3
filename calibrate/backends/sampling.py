"""Drawing tokens: greedy, temperature and top-p, with one reproducible stream of uniforms per request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

    from calibrate.backends.base import Sampling

__all__ = ["draw", "nucleus", "uniform"]

_MASK: Final = (1 << 64) - 1


def uniform(seed: int, index: int) -> float:
    """The ``index``-th number of the stream ``seed``, in [0, 1): a counter passed through SplitMix64's finaliser.

    A request's draws depend on its seed and the position only, never on its neighbours in a batch. 52 bits, so
    that a float64 total times the largest of them rounds to less than the total.
    """
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((z ^ (z >> 31)) >> 12) * 2.0**-52


def nucleus(probabilities: torch.Tensor, top_p: float) -> torch.Tensor:
    """Probabilities with all but the fewest likeliest tokens that reach ``top_p`` set to 0, not renormalised; (V,)."""
    ordered, order = probabilities.sort(descending=True, stable=True)
    before = ordered.cumsum(0) - ordered
    ordered[before >= top_p * ordered.sum()] = 0.0
    return ordered.new_zeros(ordered.shape).scatter_(0, order, ordered)


def draw(logits: torch.Tensor, samplings: Sequence[Sampling], uniforms: Sequence[float]) -> list[int]:
    """One token for each row of ``logits`` (B, V); a greedy row ignores its uniform.

    Sums run in float64, so that the chance of a token is right to about 1e-16 in any vocabulary.
    """
    tokens: list[int] = logits.argmax(-1).tolist()
    for row, (sampling, u) in enumerate(zip(samplings, uniforms, strict=True)):
        if sampling.temperature > 0.0:
            tokens[row] = _inverse(logits[row], sampling, u)
    return tokens


def _inverse(logits: torch.Tensor, sampling: Sampling, u: float) -> int:
    """The first token, in order of ids, whose cumulative probability exceeds ``u``."""
    probabilities = (logits.double() / sampling.temperature).softmax(-1)
    if sampling.top_p < 1.0:
        probabilities = nucleus(probabilities, sampling.top_p)
    cumulative = probabilities.cumsum(-1)
    return int((cumulative <= u * cumulative[-1]).sum())
