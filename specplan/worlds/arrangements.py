"""Where models run: how GPUs share the target, how often the whole is copied, and where draft and judge go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from specplan.worlds.memory import MOST_TP
from theory.errors import ParameterError
from theory.hardware.shapes import Experts
from theory.hardware.sharding import check_split
from theory.hardware.work import Parallel

if TYPE_CHECKING:
    from specplan.worlds.request import Deployment, ServedModel

__all__ = ["Arrangement", "Copies", "Drafting", "Split", "arrangements", "parallel_of", "splits"]

Split: TypeAlias = int | Parallel
"""How GPUs share a model: each layer over so many of them, or as `Parallel` says."""

Drafting = Literal["none", "shared", "own"]
"""Nobody drafts steps; draft and judge run on the target's GPUs; they have GPUs of their own."""
_BLOCK: Final = 128
"""Columns of a block of fp8 weights with one scale: engines refuse parts of other widths (vllm-project/vllm#17569)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """One way to spread the models over the GPUs; answers are dealt out evenly to the copies."""

    tp: int
    """GPUs that share the target; of a pipeline those of each stage."""
    replicas: int
    drafting: Drafting = "none"
    own_gpus: int = 0
    dp: int = 1
    """Copies of the target's attention on its GPUs (data parallelism), each with its own answers; more than one deal
    whole experts out to all of them."""
    pp: int = 1
    """Stages of a pipeline over which the target's layers are dealt out, each on a machine."""

    @property
    def split(self) -> Split:
        """How the target's GPUs share it."""
        if self.dp > 1:
            return Parallel(tp=self.tp // self.dp, dp=self.dp, ep=self.tp)
        return self.tp if self.pp == 1 else Parallel(tp=self.tp, pp=self.pp)

    @property
    def each(self) -> tuple[object, ...]:
        """What tells a copy from those of other arrangements."""
        return self.split, self.own_gpus, self.drafting

    @property
    def gpus_of_copy(self) -> int:
        """GPUs of each copy."""
        return self.tp * self.pp + self.own_gpus

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return self.replicas * self.gpus_of_copy

    @property
    def text(self) -> str:
        """The arrangement in a few words."""
        one = f"TP {self.tp}" if self.dp == 1 else f"DP {self.dp} EP {self.tp}"
        one += f" PP {self.pp}" if self.pp > 1 else ""
        if self.own_gpus:
            one += f" + {self.own_gpus}"
        if self.replicas == 1:
            return one
        return f"{self.replicas} x ({one})" if self.own_gpus else f"{self.replicas} x {one}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies(Arrangement):
    """Copies of the engines that a profile measured, whose GPUs count as one: the profile says what they are."""

    tp: int = 1

    @property
    def text(self) -> str:
        """The number of copies; a dash for a single one."""
        return "–" if self.replicas == 1 else f"{self.replicas} copies"


def arrangements(
    deployment: Deployment, drafting: Drafting, *, tp: int | None = None, stages: int = 1
) -> Iterator[Arrangement]:
    """Yield the ways to use the GPUs; as many copies as there is room for.

    Parameters
    ----------
    tp : GPUs that share the target; None: every power of two that its heads allow.
    stages : machines over which its layers are dealt out, >= 1; of several all GPUs are the target's.
    """
    if stages > 1:
        copies = deployment.gpus // (MOST_TP * stages)
        if copies and tp in (None, MOST_TP) and drafting == "none" and MOST_TP in splits(deployment.target, MOST_TP):
            yield Arrangement(tp=MOST_TP, pp=stages, replicas=copies)
        return
    own = 0 if drafting != "own" else 1 if deployment.judge is None else 2  # one for each of draft and judge
    for width in (tp,) if tp else splits(deployment.target, deployment.gpus):
        replicas = deployment.gpus // (width + own)
        if replicas:
            yield Arrangement(tp=width, replicas=replicas, drafting=drafting, own_gpus=own)
    if drafting == "none" and not tp:
        for width in _powers(deployment.gpus):
            if _has_copies(deployment.target, width):
                yield Arrangement(tp=width, dp=width, replicas=deployment.gpus // width)


def _powers(gpus: int) -> list[int]:
    """Powers of two up to so many GPUs of one machine."""
    return [2**i for i in range(MOST_TP.bit_length()) if 2**i <= min(gpus, MOST_TP)]


def _has_copies(model: ServedModel, gpus: int) -> bool:
    """Whether a mixture may run with copies of its attention: its experts are dealt out whole, as many to each GPU."""
    experts = [g.feed_forward for g in model.facts.shape.layers if isinstance(g.feed_forward, Experts)]
    return gpus > 1 and bool(experts) and not any(one.count % gpus for one in experts)


def splits(model: ServedModel, gpus: int) -> list[int]:
    """Return the tensor parallelisms that engines allow for a model on so many GPUs: powers of two.

    They divide its heads, its heads of keys and values (or are a multiple of them) and its feed-forward widths, into
    whole blocks where the weights are scaled by blocks; experts of which they do not are dealt out whole.
    """
    return [tp for tp in _powers(gpus) if _allowed(model, tp)]


def parallel_of(model: ServedModel, split: Split) -> Parallel:
    """Return how so many GPUs share a model: each layer, or whole experts where their parts would break blocks.

    >>> from specplan.worlds.model_files import shape_of
    >>> from specplan.worlds.request import ServedModel
    >>> facts = shape_of("Qwen/Qwen3-235B-A22B-FP8")  # experts of 1536 columns: 192 on each of 8 GPUs
    >>> model = ServedModel.published(facts)
    >>> parallel_of(model, 4), parallel_of(model, 8)
    (Parallel(tp=4, dp=1, ep=1, pp=1), Parallel(tp=8, dp=1, ep=8, pp=1))
    """
    given = split if isinstance(split, Parallel) else Parallel(tp=split)
    if given.ep > 1:
        return given
    experts = [group.feed_forward for group in model.facts.shape.layers if isinstance(group.feed_forward, Experts)]
    broken = model.precision.expert_format.name == "fp8-block" and any(
        one.intermediate % (_BLOCK * given.tp) for one in experts
    )
    return replace(given, ep=given.tp) if broken else given


def _allowed(model: ServedModel, tp: int) -> bool:
    parallel = parallel_of(model, tp)
    try:
        check_split(model.facts.shape, parallel)
    except ParameterError:
        return False
    unit = _BLOCK if model.precision.weight_format.name == "fp8-block" else 1
    return tp == 1 or all(size % (tp * unit) == 0 for size in _widths(model, whole_experts=parallel.ep > 1))


def _widths(model: ServedModel, *, whole_experts: bool) -> Iterator[int]:
    """Columns of feed-forward layers that the GPUs share."""
    for group in model.facts.shape.layers:
        forward = group.feed_forward
        if forward is None:
            continue
        if not isinstance(forward, Experts):
            yield forward.intermediate
            continue
        if not whole_experts:
            yield forward.intermediate
        if forward.shared and not (model.facts.shape.has_states and model.precision.weights == "fp8-block"):
            yield forward.shared  # vLLM copies those of Qwen's hybrids whose parts would break blocks
