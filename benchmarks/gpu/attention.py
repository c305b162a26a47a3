"""Attention of several new tokens per sequence to a cached prefix: the kernels to choose from, and the choice.

No single kernel of torch is good at this everywhere. Flash attention with a causal mask aligned to the lower right does
it in one launch, but for several new tokens it reads the cache once for every query head of a group. Folding the group
into the query axis reads it once: all new tokens see the whole prefix, so that part needs no mask; the new tokens among
themselves are a small causal square; the parts are joined by their log-sum-exp, which is exact. A single long
sequence leaves most of a GPU idle, so its prefix may be cut into chunks that are joined the same way (flash decoding).
Which one is fastest is measured at each shape, after each has been compared with the plain formula on the device.

Shapes: queries (B, heads, q, dim); keys and values (B, kv heads, n, dim), views of the cache in any layout whose last
axis is contiguous. The last q of the n cached tokens are the new ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from benchmarks.gpu.replay import described, is_fatal
from theory.errors import CalibrationError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Attention", "Clock", "Join", "candidates", "choose", "joined", "reference"]

Attention = Callable[[Any, Any, Any], Any]
"""(queries, keys, values) -> (B, heads, q, dim)."""
Join = Callable[[Any, Any, Any, Any], Any]
"""(outs, logs, own_out, own_log) -> the attention over all parts."""
Clock = Callable[[Callable[[], Any]], float]

_CHUNKS: Final = (4, 16, 64)
_LEAST_CHUNK: Final = 256
_MOST_FOLDED: Final = 256
"""New tokens up to which folding is tried: beyond that a pass is arithmetic, not reading of the cache."""
_CHECKED: Final = 64
"""Last new tokens of the first sequence that are compared with the formula."""
_TOLERANCE: Final = {"float32": 1e-4, "bfloat16": 2e-2}
"""Relative error, in the Frobenius norm, from the formula in float32: rounding of inputs and weights of that format
gives 1e-6 and 4e-3."""


def reference(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The formula, in float32, with no fused kernel; memory grows as q * n."""
    import torch

    n_new, n = query.shape[2], keys.shape[2]
    group = query.shape[1] // keys.shape[1]
    keys, values = (x.float().repeat_interleave(group, dim=1) for x in (keys, values))
    scores = query.float() @ keys.transpose(2, 3) / math.sqrt(query.shape[3])
    hidden = torch.ones(n_new, n, dtype=torch.bool, device=query.device).triu(n - n_new + 1)
    return torch.softmax(scores.masked_fill(hidden, -math.inf), -1) @ values


def masked(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """What torch offers for any device: one call with an explicit mask (none is needed for a single new token)."""
    import torch

    n_new, n = query.shape[2], keys.shape[2]
    mask = None
    if n_new > 1:
        mask = torch.ones(n_new, n, dtype=torch.bool, device=query.device).tril(n - n_new)
    return torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask, enable_gqa=True)


def native(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Flash attention in one launch, causal to the lower right, grouped heads without repeating keys (CUDA)."""
    import torch

    causal = query.shape[2] > 1
    flash = torch.ops.aten._scaled_dot_product_flash_attention  # the public function refuses q != n under its mask
    return flash(query, keys, values, 0.0, causal)[0]


def folded(chunks: int, join: Join) -> Attention:
    """Prefix once per group of heads, in ``chunks`` parts, and the new tokens among themselves, joined exactly."""

    def attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        n_new = query.shape[2]
        n_prefix = keys.shape[2] - n_new
        outs, logs = _prefix(query, keys[:, :, :n_prefix], values[:, :, :n_prefix], chunks)
        own_out, own_log = _flash(query, keys[:, :, n_prefix:], values[:, :, n_prefix:], causal=n_new > 1)
        joined: Tensor = join(outs, logs, own_out, own_log)
        return joined

    return attend


def _prefix(query: Tensor, keys: Tensor, values: Tensor, chunks: int) -> tuple[Tensor, Tensor]:
    """Outputs (chunks, B, heads, q, dim) and log-sum-exps (chunks, B, heads, q) over parts of the prefix."""
    batch, heads, n_new, dim = query.shape
    kv_heads, n = keys.shape[1], keys.shape[2]
    rows = query.unflatten(1, (kv_heads, -1)).flatten(2, 3)
    if chunks > 1:
        # One sequence only: then the parts of its cache are a view with the part in the place of the batch.
        rows = rows.expand(chunks, -1, -1, -1)
        keys, values = (x[0].unflatten(1, (chunks, n // chunks)).transpose(0, 1) for x in (keys, values))
    out, log = _flash(rows, keys, values, causal=False)
    return out.reshape(chunks, batch, heads, n_new, dim), log.reshape(chunks, batch, heads, n_new)


def joined(outs: Tensor, logs: Tensor, own_out: Tensor, own_log: Tensor) -> Tensor:
    """Join partial attentions, each weighted by the exponential of its log-sum-exp."""
    import torch

    every = torch.cat((logs, own_log[None]))
    weights = torch.softmax(every, 0).unsqueeze(-1)
    return ((weights[:-1] * outs).sum(0) + weights[-1] * own_out).to(own_out.dtype)


def _flash(query: Tensor, keys: Tensor, values: Tensor, *, causal: bool) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp; ``causal`` only where there are as many keys as queries."""
    import torch

    if query.device.type == "cuda":
        out, log, *_ = torch.ops.aten._scaled_dot_product_flash_attention(query, keys, values, 0.0, causal)
        return out, log[..., : query.shape[2]]
    group = query.shape[1] // keys.shape[1]
    keys, values = (x.repeat_interleave(group, dim=1) for x in (keys, values))
    out, log = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, keys, values, 0.0, causal)
    return out, log


def candidates(device: str, batch: int, n_new: int, n_prefix: int, join: Join = joined) -> dict[str, Attention]:
    """Kernels worth trying at a shape, by name; ``masked``, the last resort, is the last."""
    found: dict[str, Attention] = {"native": native} if device == "cuda" else {}
    if n_prefix > 0 and n_new <= _MOST_FOLDED:
        found["folded"] = folded(1, join)
        for chunks in _CHUNKS if batch == 1 else ():
            if n_prefix % chunks == 0 and n_prefix // chunks >= _LEAST_CHUNK:
                found[f"folded-{chunks}"] = folded(chunks, join)
    return {**found, "masked": masked}


def choose(
    query: Tensor, layers: Sequence[tuple[Tensor, Tensor]], clock: Clock, join: Join = joined
) -> tuple[str, Attention, dict[str, str | float]]:
    """The fastest kernel that agrees with the formula at this shape.

    Parameters
    ----------
    query : tensor of the shape and layout to be used.
    layers : keys and values of several layers, so that the cache of the processor does not hold them all.
    clock : seconds of a function.
    join : joins the parts of folded attention.

    Returns
    -------
    Its name, the kernel, and for every candidate its seconds per layer or why it was refused.

    Raises
    ------
    CalibrationError : none agrees.
    """
    batch, _, n_new, _ = query.shape
    keys, values = layers[0]
    usable = candidates(query.device.type, batch, n_new, keys.shape[2] - n_new, join)
    expected = reference(query[:1, :, -_CHECKED:], keys[:1], values[:1])
    tried: dict[str, str | float] = {}
    for name, kernel in usable.items():
        if name == "masked" and any(isinstance(result, float) for result in tried.values()):
            break
        tried[name] = _tried(kernel, query, layers, expected, clock)
    timed = {name: seconds for name, seconds in tried.items() if isinstance(seconds, float)}
    if not timed:
        raise CalibrationError(f"no attention kernel works at batch {batch}, {n_new} new tokens: {tried}")
    best = min(timed, key=timed.__getitem__)
    return best, usable[best], tried


def _tried(
    kernel: Attention, query: Tensor, layers: Sequence[tuple[Tensor, Tensor]], expected: Tensor, clock: Clock
) -> str | float:
    """Seconds per layer, or why the kernel is refused."""
    import torch

    try:
        got = kernel(query, *layers[0])[:1, :, -_CHECKED:].float()
        error = float(torch.linalg.vector_norm(got - expected) / torch.linalg.vector_norm(expected))
        allowed = _TOLERANCE[str(query.dtype).removeprefix("torch.")]
        if not error <= allowed:  # NaN is refused as well
            return f"wrong: relative error {error:.2g} is above {allowed:g}"
        return clock(lambda: [kernel(query, *layer) for layer in layers]) / len(layers)
    except RuntimeError as error_:
        if is_fatal(error_) and not isinstance(error_, torch.OutOfMemoryError):
            raise
        return described(error_)
