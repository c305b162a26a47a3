"""Which version of an engine has which option of a printed command; a version without it gets a command without it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["first_with", "has"]

_SINCE: Final[Mapping[tuple[str, str], tuple[int, int]]] = {
    ("vllm", "num_speculative_tokens_per_batch_size"): (0, 24),  # vllm-project/vllm#32374
    ("vllm", "dflash"): (0, 20),  # vllm-project/vllm#36847; z-lab/dflash asks for 0.20.1
    ("vllm", "dspark"): (0, 25),  # vllm-project/vllm#46995
    ("vllm", "enable_adaptive_verification"): (0, 28),  # vllm-project/vllm#47808; DSpark only
    ("vllm", "gemma4_assistant"): (0, 21),  # vllm-project/vllm#42005, #41789: not in 0.20.1, runs after 0.20.2
    ("vllm", "draft_model"): (0, 15),  # vllm-project/vllm#24322; 0.10 to 0.14 raise NotImplementedError
}
"""(engine, option) to the first release series that has it; options that every priced version has are left out."""


def has(engine: str, version: str, option: str) -> bool:
    """Whether a version of an engine has an option.

    Parameters
    ----------
    engine : ``vllm``, ``sglang`` or ``trtllm``.
    version : a number such as ``0.18.0``; a nightly build counts as later than all.
    option : of the table; others are had by every version.

    >>> has("vllm", "0.18.0", "draft_model"), has("vllm", "0.18.0", "num_speculative_tokens_per_batch_size")
    (True, False)
    """
    since = _SINCE.get((engine, option))
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return since is None or match is None or (int(match[1]), int(match[2])) >= since


def first_with(engine: str, option: str) -> str:
    """Return the first release series of an engine that has an option of the table."""
    return ".".join(map(str, _SINCE[engine, option]))
