"""Sampling of tokens: greedy, temperature and top-p, with a seed and a series of uniform numbers for each request.

Lists are copied to the device without waiting for it (`sent`).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

    from calibrate.engines.protocol import Sampling

__all__ = [
    "DRAFT_DRAWS",
    "TEST_DRAWS",
    "derive_seed",
    "distribution",
    "draw",
    "invert",
    "nucleus",
    "picked",
    "sent",
    "uniform",
]

_MASK: Final = (1 << 64) - 1
_LIKELIEST: Final = 1024
"""Tokens that the top-p set is looked for among."""
_FEW: Final = 4096
"""Tokens of a vocabulary up to which all are sorted."""

DRAFT_DRAWS: Final = 0x6A09E667F3BCC908
"""XORed with a request's seed: the series for the tokens of a draft model."""

TEST_DRAWS: Final = 0xBB67AE8584CAA73B
"""XORed with a request's seed: the series for the acceptance of drafted tokens."""


def derive_seed(*parts: int | str) -> int:
    """A request's seed, in [0, 2**63): a hash of what names it, independent of earlier requests.

    >>> derive_seed(1, "target", 3) == derive_seed(1, "target", 3) != derive_seed(1, "target", 4)
    True
    """
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "little") >> 1


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
    weights, exact = _quick_distribution(logits, samplings)
    if exact is None or bool(exact.all()):
        return weights
    probabilities, limits = _probabilities(logits, samplings)
    assert limits is not None
    return nucleus(probabilities, limits)


def _quick_distribution(
    logits: torch.Tensor, samplings: Sequence[Sampling]
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The weights of `distribution`, and whether those of each row are exact (B,); None: all are.

    They are `nucleus` from the likeliest tokens: on a GPU a sort of 152,000 takes longer than a layer. A row is not
    exact where the set has more tokens than were looked at, or ends among tokens of the same probability.
    """
    probabilities, limits = _probabilities(logits, samplings)
    if limits is None:
        return probabilities, None
    if probabilities.shape[-1] <= _FEW:
        return nucleus(probabilities, limits), None
    likeliest = probabilities.topk(_LIKELIEST).values
    before = likeliest.cumsum(-1) - likeliest
    size = (before < limits * probabilities.sum(-1, keepdim=True)).sum(-1, keepdim=True)
    least = likeliest.gather(-1, size - 1)
    next_one = likeliest.gather(-1, size.clamp(max=_LIKELIEST - 1))
    unlimited = limits > 1.0
    weights = probabilities.where((probabilities >= least) | unlimited, 0.0)
    return weights, (((size < _LIKELIEST) & (next_one < least)) | unlimited)[:, 0]


def _probabilities(logits: torch.Tensor, samplings: Sequence[Sampling]) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Probabilities (B, V) in float64, and the limits of top-p (B, 1), 2 for rows without one; None: no row has one."""
    import torch

    # without a limit, rounding must not cut a token
    limits = [s.top_p if s.top_p < 1.0 else 2.0 for s in samplings]
    settings = sent([[s.temperature for s in samplings], limits], torch.float64, logits.device)[:, :, None]
    probabilities = (logits.double() / settings[0]).softmax(-1)
    return probabilities, settings[1] if min(limits) < 1.0 else None


def invert(weights: torch.Tensor, uniforms: Sequence[float]) -> list[int]:
    """For each row of ``weights`` (B, V) the first token, by id, at which their sum exceeds the uniform's share."""
    tokens: list[int] = _inverted(weights, uniforms).tolist()
    return tokens


def _inverted(weights: torch.Tensor, uniforms: Sequence[float]) -> torch.Tensor:
    cumulative = weights.cumsum(-1)
    shares = sent(uniforms, cumulative.dtype, cumulative.device)[:, None]
    return (cumulative <= shares * cumulative[:, -1:]).sum(-1)


def draw(logits: torch.Tensor, samplings: Sequence[Sampling], uniforms: Sequence[float]) -> list[int]:
    """A token for each row of ``logits`` (B, V); a greedy row ignores its uniform number.

    Sums are in float64, so that the probability of a token is right to about 1e-16 in any vocabulary.
    """
    drawn = [row for row, sampling in enumerate(samplings) if sampling.temperature > 0.0]
    if drawn and len(drawn) == len(samplings):
        return _sampled(logits, samplings, uniforms)
    tokens: list[int] = logits.argmax(-1).tolist()
    if drawn:
        sampled = _sampled(picked(logits, drawn), [samplings[row] for row in drawn], [uniforms[row] for row in drawn])
        for row, token in zip(drawn, sampled, strict=True):
            tokens[row] = token
    return tokens


def _sampled(logits: torch.Tensor, samplings: Sequence[Sampling], uniforms: Sequence[float]) -> list[int]:
    """A token for each row, all at a temperature > 0; the device is waited for once, unless a set is not exact."""
    import torch

    weights, exact = _quick_distribution(logits, samplings)
    if exact is None:
        return invert(weights, uniforms)
    tokens: list[int]
    tokens, are_exact = torch.stack((_inverted(weights, uniforms), exact.long())).tolist()
    return tokens if all(are_exact) else invert(distribution(logits, samplings), uniforms)


def sent(values: Sequence[Any], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return (nested) lists of numbers as a tensor on a device.

    A GPU copies from pinned memory in the order of its other work; a copy from other memory would wait for all of it.
    """
    import torch

    if device.type != "cuda":
        return torch.tensor(values, dtype=dtype, device=device)
    return torch.tensor(values, dtype=dtype, pin_memory=True).to(device, non_blocking=True)


def picked(rows: torch.Tensor, index: Sequence[int]) -> torch.Tensor:
    """Return the rows of a tensor (n, ...) with these numbers; the tensor itself if it is all of them in order."""
    import torch

    if len(index) == rows.shape[0] and list(index) == list(range(len(index))):
        return rows
    return rows.index_select(0, sent(index, torch.int64, rows.device))
