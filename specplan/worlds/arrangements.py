"""Where models run: how many GPUs share the target, how often the whole is copied, and where draft and judge go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from theory.hardware.shapes import Experts
from theory.hardware.work import Parallel

if TYPE_CHECKING:
    from specplan.worlds.request import Deployment
    from theory.hardware.shapes import Shape

__all__ = ["MOST_TP", "Arrangement", "Drafting", "arrangements", "splits"]

Drafting = Literal["none", "shared", "own"]
"""Nobody drafts steps; draft and judge run on the target's GPUs; they have GPUs of their own."""

MOST_TP: Final = 8
"""GPUs that share a layer: those of one machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """One way to spread the models over the GPUs; answers are dealt out evenly to the copies."""

    tp: int
    """GPUs that share the target."""
    replicas: int
    """Copies of the whole."""
    drafting: Drafting = "none"
    own_gpus: int = 0
    """GPUs of draft and judge in each copy."""

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return self.replicas * (self.tp + self.own_gpus)

    @property
    def parallel(self) -> Parallel:
        """How the target is split."""
        return Parallel(tp=self.tp)

    @property
    def text(self) -> str:
        """The arrangement in a few words."""
        one = f"TP {self.tp}"
        if self.own_gpus:
            one += f" + {self.own_gpus}"
        if self.replicas == 1:
            return one
        return f"{self.replicas} x ({one})" if self.own_gpus else f"{self.replicas} x {one}"


def arrangements(deployment: Deployment, drafting: Drafting, *, tp: int | None = None) -> Iterator[Arrangement]:
    """Yield the ways to use the GPUs; as many copies as there is room for.

    Parameters
    ----------
    deployment : models and GPUs.
    drafting : where draft and judge of steps run.
    tp : GPUs that share the target; None: every power of two that its heads allow.
    """
    own = _own_gpus(deployment) if drafting == "own" else (0,)
    for width in (tp,) if tp else splits(deployment.target.facts.shape, deployment.gpus):
        for gpus in own:
            replicas = deployment.gpus // (width + gpus)
            if replicas:
                yield Arrangement(tp=width, replicas=replicas, drafting=drafting, own_gpus=gpus)


def splits(shape: Shape, gpus: int) -> list[int]:
    """Return the tensor parallelisms that a model allows on so many GPUs: powers of two that divide all it splits."""
    found = []
    tp = 1
    while tp <= min(gpus, MOST_TP):
        if all(_divides(tp, shape_part) for shape_part in _parts(shape)):
            found.append(tp)
        tp *= 2
    return found


def _parts(shape: Shape) -> Iterator[int]:
    for group in shape.layers:
        yield group.attention.heads
        forward = group.feed_forward
        yield forward.intermediate
        if isinstance(forward, Experts) and forward.shared:
            yield forward.shared


def _divides(tp: int, size: int) -> bool:
    return size % tp == 0


def _own_gpus(deployment: Deployment) -> tuple[int, ...]:
    """Draft and judge share a GPU, or have one each."""
    return (1, 2) if deployment.judge is not None else (1,)
