"""Extension of vLLM's worker (``worker_extension_cls``): its import repairs vLLM in the worker's process.

No other module imports this module, so that the import happens when vLLM's worker has been set up. It adds no methods.
"""

from __future__ import annotations

import multiprocessing
import sys

__all__ = ["RepairedSampling"]


class RepairedSampling:
    """An empty extension of vLLM's worker; naming it makes the worker import this module."""


if multiprocessing.parent_process() is not None and "vllm" in sys.modules:
    from calibrate.engines.vllm.repair import repair

    repair()
