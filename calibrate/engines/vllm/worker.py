"""What vLLM is told to mix into its worker (``worker_extension_cls``): importing this there repairs vLLM.

Nothing else imports this module, so that the import happens when vLLM's worker has been set up. It adds no methods.
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
