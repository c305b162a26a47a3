"""The benchmarks are scripts of the checkout, not a part of the installed distribution."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Toys run faster on one thread, and the machine may be busy."""
    import torch

    torch.set_num_threads(1)
