"""Sampling of tokens: greedy, temperature and top-p, with a reproducible series of uniform numbers per request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

    from calibrate.engines.protocol import Sampling

__all__ = ["DRAFT_DRAWS", "TEST_DRAWS", "distribution", "draw", "invert", "nucleus", "uniform"]

_MASK: Final = (1 << 64) - 1

DRAFT_DRAWS: Final = 0x6A09E667F3BCC908
"""XORed with a request's seed: the series for the tokens of a draft model."""

TEST_DRAWS: Final = 0xBB67AE8584CAA73B
"""XORed with a request's seed: the series for the acceptance of drafted tokens."""


def uniform(seed: int, index: int) -> float:
    """The ``index``-th number of the series ``seed``, in [0, 1): a counter passed through SplitMix64's finaliser.

    A request's draws depend on its seed and the position only, never on its neighbours in a batch. 52 bits, so
    that a float64 total times the largest of them rounds to less than the total.
    """
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((z ^ (z >> 31)) >> 12) * 2.0**-52


def nucleus(probabilities: torch.Tensor, top_p: float | torch.Tensor) -> torch.Tensor:
    """Probabilities with all tokens outside the top-p set at 0, not renormalised; (..., V).

    A tensor ``top_p`` holds one limit for each row, (..., 1).
    """
    ordered, order = probabilities.sort(descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    ordered[before >= top_p * ordered.sum(-1, keepdim=True)] = 0.0
    return ordered.new_zeros(ordered.shape).scatter_(-1, order, ordered)


def distribution(logits: torch.Tensor, samplings: Sequence[Sampling]) -> torch.Tensor:
    """Weights that each row of ``logits`` (B, V) is sampled by at a temperature > 0, float64, not normalised."""
    import torch

    device = logits.device
    temperatures = torch.tensor([s.temperature for s in samplings], dtype=torch.float64, device=device)[:, None]
    probabilities = (logits.double() / temperatures).softmax(-1)
    if all(s.top_p >= 1.0 for s in samplings):
        return probabilities
    # without a limit, rounding must not cut a token
    limits = [s.top_p if s.top_p < 1.0 else 2.0 for s in samplings]
    return nucleus(probabilities, torch.tensor(limits, dtype=torch.float64, device=device)[:, None])


def invert(weights: torch.Tensor, uniforms: Sequence[float]) -> list[int]:
    """For each row of ``weights`` (B, V) the first token, by id, at which their sum exceeds the uniform's share."""
    import torch

    cumulative = weights.cumsum(-1)
    shares = torch.tensor(uniforms, dtype=cumulative.dtype, device=cumulative.device)[:, None]
    tokens: list[int] = (cumulative <= shares * cumulative[:, -1:]).sum(-1).tolist()
    return tokens


def draw(logits: torch.Tensor, samplings: Sequence[Sampling], uniforms: Sequence[float]) -> list[int]:
    """A token for each row of ``logits`` (B, V); a greedy row ignores its uniform number.

    Sums are in float64, so that the probability of a token is right to about 1e-16 in any vocabulary.
    """
    drawn = [row for row, sampling in enumerate(samplings) if sampling.temperature > 0.0]
    if not drawn:
        greedy: list[int] = logits.argmax(-1).tolist()
        return greedy
    if len(drawn) == len(samplings):
        return invert(distribution(logits, samplings), uniforms)
    tokens: list[int] = logits.argmax(-1).tolist()
    sampled = invert(distribution(logits[drawn], [samplings[row] for row in drawn]), [uniforms[row] for row in drawn])
    for row, token in zip(drawn, sampled, strict=True):
        tokens[row] = token
    return tokens
