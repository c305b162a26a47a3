"""Configuration of a torch engine: model, device and limits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from calibrate.engines.speculation import Speculation
from calibrate.engines.token_vocabulary import OF_REQUEST, VOCABULARY
from calibrate.engines.torch.cuda.devices import check_device
from theory.errors import ParameterError, check_integers

__all__ = ["TorchConfig", "check_torch_has"]

_DTYPES: Final = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchConfig:
    """Configuration of a torch engine."""

    name: str
    """Short name for messages, e.g. ``"target"``."""

    model: Path
    """Local folder with ``config.json``, safetensors weights and ``tokenizer.json``; nothing is ever downloaded."""

    device: str = "cpu"
    """``"cpu"``, ``"cuda"`` or ``"cuda:N"``."""

    dtype: str = "float32"
    cores: tuple[int, ...] | None = None
    """CPU cores that the process is pinned to, one torch thread each; None leaves both to the system."""

    max_batch: int = 16
    """Most sequences decoded at once; more requests wait."""

    n_idle: int = 16
    """Finished sequences whose keys and values are kept for prompts that extend them."""

    max_context: int | None = None
    """Most tokens of a sequence; None: the model's limit, up to 4096."""

    speculations: tuple[Speculation, ...] = ()
    """Methods of token-level speculation to load; methods without weights are always available. Only the fields
    ``method`` and ``model`` are used."""

    start_timeout_s: float = 300.0

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise ParameterError("dtype", self.dtype, f"must be one of {', '.join(_DTYPES)}")
        check_device(self.device)
        if self.cores is not None:
            allowed = os.sched_getaffinity(0)
            if not self.cores or not allowed.issuperset(self.cores):
                raise ParameterError("cores", self.cores, f"must be some of this process's cores {sorted(allowed)}")
        check_integers(self, max_batch=1, n_idle=1, max_context=2)
        for speculation in self.speculations:
            check_torch_has(speculation)


def check_torch_has(speculation: Speculation) -> None:
    """Refuse speculation that the torch engine does not support, before it starts.

    Raises
    ------
    ParameterError : a method that it does not have (EAGLE-3 heads run on vLLM only), or settings of another engine.
    """
    if not OF_REQUEST[speculation.method].torch:
        names = ", ".join(terms.requested for terms in VOCABULARY if terms.torch)
        rule = f"must be one of {names} on torch engines; heads of EAGLE-3 run on vLLM engines"
        raise ParameterError("method", speculation.method, rule)
    if speculation.extra:
        raise ParameterError("extra", dict(speculation.extra), "must be empty: these are settings of vLLM")
