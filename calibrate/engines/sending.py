"""Copies of small lists to the device that do not wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["picked", "sent"]


def sent(values: Sequence[Any], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return (nested) lists of numbers as a tensor on a device.

    A GPU copies from pinned memory in the order of its other work; a copy from other memory would wait for all of it.
    """
    import torch

    if device.type != "cuda":
        return torch.tensor(values, dtype=dtype, device=device)
    return torch.tensor(values, dtype=dtype, pin_memory=True).to(device, non_blocking=True)


def picked(rows: Tensor, index: Sequence[int]) -> Tensor:
    """Return the rows of a tensor (n, ...) with these numbers; the tensor itself if it is all of them in order."""
    import torch

    if len(index) == rows.shape[0] and list(index) == list(range(len(index))):
        return rows
    return rows.index_select(0, sent(index, torch.int64, rows.device))
