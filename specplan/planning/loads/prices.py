"""Prices of GPUs as they are typed, one for the plan's GPU or one for each of several, and what a row costs by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from specplan.ranges import PRICE
from theory.errors import ParameterError
from theory.hardware.gpus import gpu_named

if TYPE_CHECKING:
    from specplan.planning.loads.load_plan import LoadRow
    from specplan.worlds.request import Deployment
    from theory.hardware.gpu_records import Gpu

__all__ = ["Dollars", "dollars_of", "gpus_named", "prices_of"]

_HOUR: Final = 3600.0
_MILLION: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Dollars:
    """What answers cost on all GPUs of a plan, in the unit of its price."""

    per_million_tokens: float
    per_answer: float


def dollars_of(deployment: Deployment, row: LoadRow) -> Dollars | None:
    """Return what a row costs; None where the deployment has no price."""
    if deployment.gpu_price is None:
        return None
    per_second = deployment.gpu_price * deployment.gpus / _HOUR
    return Dollars(
        per_million_tokens=_MILLION * per_second / row.tokens_per_s, per_answer=per_second / row.answers_per_s
    )


def gpus_named(text: str) -> list[Gpu]:
    """Return the GPUs of a list of names with commas between them.

    Raises
    ------
    ParameterError : an unknown GPU, or one that is named twice.
    """
    by_name: dict[str, Gpu] = {}
    for name in text.split(","):
        gpu = gpu_named(name.strip())
        if gpu.name in by_name:
            raise ParameterError("gpu", text, f"must name {gpu.name} once: each type is planned for by itself")
        by_name[gpu.name] = gpu
    return list(by_name.values())


def prices_of(text: str | float | None, gpus: Sequence[Gpu]) -> dict[str, float]:
    """Return dollars per GPU and hour by name of the GPU; empty where no price was given.

    Parameters
    ----------
    text : ``2.5`` for a single GPU type, or ``H100=2.5,H200=3.5``.
    gpus : types of the plan, each of which needs a price if one has one.

    Raises
    ------
    ParameterError : no price, a GPU that is not planned for, one without a price, or one with two.
    """
    if text is None:
        return {}
    prices: dict[str, float] = {}
    for part in str(text).split(","):
        name, equals, dollars = (one.strip() for one in part.rpartition("="))
        if not equals and len(gpus) > 1:
            rule = f"must name its GPU, since {len(gpus)} are planned for: {_example(gpus)}"
            raise ParameterError("gpu-price", str(text), rule)
        of = gpu_named(name).name if equals else gpus[0].name
        if of not in {gpu.name for gpu in gpus}:
            known = ", ".join(gpu.name for gpu in gpus)
            raise ParameterError("gpu-price", str(text), f"has a price of {of}, and --gpu names {known}")
        if of in prices:
            raise ParameterError("gpu-price", str(text), f"must give the price of {of} once")
        try:
            prices[of] = PRICE.convert(dollars, None, None)
        except ParameterError as error:
            raise ParameterError("gpu-price", str(text), f"{error.rule} dollars, such as H100=2.5") from None
    lacking = next((gpu.name for gpu in gpus if gpu.name not in prices), None)
    if lacking is not None:
        raise ParameterError("gpu-price", str(text), f"has no price of {lacking}, which --gpu names: {_example(gpus)}")
    return prices


def _example(gpus: Sequence[Gpu]) -> str:
    return ",".join(f"{gpu.name.split()[1] if ' ' in gpu.name else gpu.name}=2.5" for gpu in gpus[:2])
