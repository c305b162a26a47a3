"""Configuration of a torch engine: model, device and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calibrate.engines.local import LocalConfig
from calibrate.engines.speculation import Speculation
from calibrate.engines.token_vocabulary import OF_REQUEST, VOCABULARY
from calibrate.engines.torch.cuda.devices import check_device
from theory.errors import ParameterError, check_integers

__all__ = ["TorchConfig", "check_torch_has"]

_DTYPES: Final = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchConfig(LocalConfig):
    """Configuration of a torch engine."""

    n_idle: int = 16
    """Finished sequences whose keys and values are kept for prompts that extend them."""

    speculations: tuple[Speculation, ...] = ()
    """Methods of token-level speculation to load; methods without weights are always available. Only the fields
    ``method`` and ``model`` are used."""

    start_timeout_s: float = 300.0

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise ParameterError("dtype", self.dtype, f"must be one of {', '.join(_DTYPES)}")
        check_device(self.device)
        LocalConfig.__post_init__(self)
        check_integers(self, n_idle=1)
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
