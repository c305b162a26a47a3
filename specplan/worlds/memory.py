"""Whether the models fit on the GPUs, and how many answers fit in what remains.

Per GPU: an engine takes a share of the memory; of it go weights, working memory and the driver's own; the rest caches
keys and values. TensorRT-LLM caches in a share of what these leave. Draft and judge stand beside the target on its
GPUs, where they take cache away from answers, or on GPUs of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from theory.errors import ParameterError
from theory.hardware.formats import Precision
from theory.hardware.shapes import Experts, Shape
from theory.hardware.sharding import cache_bytes_per_gpu, check_split, weight_bytes_per_gpu
from theory.hardware.work import Parallel

__all__ = ["ENGINE_SHARE", "MOST_GPUS", "MOST_TP", "STAGES", "Room", "Served", "rooms_of"]

ENGINE_SHARE: Final = 0.9
"""Share of a GPU's memory that the engines on it take, [-]: vLLM's default ``gpu_memory_utilization`` (0.11 to 0.19).
CUDA graphs and fragments live in the rest."""
MOST_TP: Final = 8
"""GPUs that share a layer: those of one machine."""
STAGES: Final = (1, 2, 4)
"""Machines over which the layers of a model are dealt out, the fewest first."""
MOST_GPUS: Final = MOST_TP * STAGES[-1]
"""GPUs of a copy at most."""
_BATCHED_TOKENS: Final = 8192
"""Tokens of one iteration at most: vLLM's ``max_num_batched_tokens`` for a server on a large GPU."""
_DRIVER_BYTES: Final = 0.5e9
"""CUDA context and libraries of one engine on one GPU, B (an H100 context takes 0.5 GB)."""
_COLLECTIVE_BYTES: Final = 0.5e9
"""Buffers of NCCL and the custom all-reduce where a model is spread over GPUs, B."""
_WORK_BYTES: Final = 2.0

_LOGIT_BYTES: Final = 12.0
"""Size of a logit while tokens are chosen, B: float32, three copies (logits, probabilities, sorted)."""
_SAMPLED: Final = 256
"""Sequences that the engine prepares to sample at once when it measures its own memory: vLLM's ``max_num_seqs`` by
default on most GPUs; 1024 on the largest, which takes 1 GB more."""
_GB: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model, how it is stored, and the GPUs that it is spread over."""

    role: str
    name: str
    shape: Shape
    precision: Precision = field(default_factory=Precision)
    parallel: Parallel = field(default_factory=Parallel)
    own: bool = False
    """On GPUs of its own; otherwise on the target's, over as many of them as ``parallel`` says."""
    states: float = 1.0
    """Copies of its layers' states that each sequence keeps, [-]: one for each token of a round of speculation, and
    what the engine keeps besides."""
    whole_windows: bool = False
    """Whether layers with a window keep all tokens, see `theory.hardware.engines.EngineConstants`."""
    same_engine: bool = False
    """Part of the target's engine (a token draft, an EAGLE head): it needs no context and little work of its own."""

    def __post_init__(self) -> None:
        check_split(self.shape, self.parallel)

    @property
    def weight_bytes(self) -> float:
        """Bytes of weights on each of its GPUs, B."""
        return weight_bytes_per_gpu(self.shape, self.precision, self.parallel)

    def cache_bytes(self, context: float) -> float:
        """Return the bytes that an answer of ``context`` tokens takes on each of its GPUs, on average, B."""
        shape, parallel, whole = self.shape, self.parallel, self.whole_windows
        held = cache_bytes_per_gpu(shape, self.precision, parallel, context, self.states, whole_windows=whole)
        return held / parallel.dp

    @property
    def work_bytes(self) -> float:
        """Bytes of activations, sampling and the driver on each of its GPUs, B."""
        if self.same_engine:
            return 0.0
        collective = _COLLECTIVE_BYTES if self.parallel.gpus > 1 else 0.0
        logits = _SAMPLED * self.shape.vocab * _LOGIT_BYTES  # gathered on every GPU before tokens are chosen
        return _DRIVER_BYTES + collective + logits + _BATCHED_TOKENS * self._widest * _WORK_BYTES

    @property
    def _widest(self) -> float:
        """Numbers per token alive at once: gate, up and their product, and four rows of the hidden size."""
        inside = 0.0
        for group in self.shape.layers:
            forward = group.feed_forward
            if isinstance(forward, Experts):
                routed = forward.per_token * (3.0 * forward.intermediate / self.parallel.expert_tp + self.shape.hidden)
                inside = max(inside, routed + 3.0 * forward.shared / self.parallel.tp)
            elif forward is not None:
                inside = max(inside, 3.0 * forward.intermediate / self.parallel.tp)
        return inside + 4.0 * self.shape.hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """GPUs that some models share, and what each of these GPUs holds."""

    gpus: int
    models: tuple[Served, ...]
    gpu_bytes: float
    engine_share: float
    of_free: bool = False
    """Whether the share is of what weights and work leave, see `theory.hardware.engines.EngineConstants`."""

    @property
    def weight_bytes(self) -> float:
        """Weights of all models on the fullest GPU, B."""
        return sum(model.weight_bytes for model in self.models)

    @property
    def work_bytes(self) -> float:
        """Working memory of all engines on it, B."""
        return sum(model.work_bytes for model in self.models)

    @property
    def free_bytes(self) -> float:
        """What remains for keys and values, B; negative where the weights do not fit."""
        taken = self.weight_bytes + self.work_bytes
        if self.of_free:
            return self.engine_share * (self.gpu_bytes - taken)
        return self.engine_share * self.gpu_bytes - taken

    def cache_bytes(self, context: float) -> float:
        """Return what an answer of ``context`` tokens takes on the fullest GPU, B."""
        return sum(model.cache_bytes(context) for model in self.models)

    def answers(self, context: float) -> float:
        """Return how many answers of ``context`` tokens fit, not rounded."""
        return max(self.free_bytes, 0.0) / self.cache_bytes(context)


def rooms_of(
    models: Sequence[Served],
    *,
    gpu_bytes: float,
    context: float,
    engine_share: float = ENGINE_SHARE,
    of_free: bool = False,
) -> tuple[Room, ...]:
    """Return what fits where: the target's GPUs first, then those of models with GPUs of their own.

    Parameters
    ----------
    models : the target first; the others on its GPUs, on as many at most, or on their own.
    gpu_bytes : memory of one GPU, B, > 0.
    context : tokens of an answer, its prompt included, > 0: at least one must fit.
    engine_share : of a GPU's memory that the engines take, in (0, 1].
    of_free : whether it is of what weights and work leave.

    Raises
    ------
    ParameterError : the models do not fit; the message says what is needed, what there is, and what would do.
    """
    shared = tuple(model for model in models if not model.own)
    groups = [shared, *((model,) for model in models if model.own)]
    rooms = tuple(
        Room(
            gpus=group[0].parallel.gpus,
            models=group,
            gpu_bytes=gpu_bytes,
            engine_share=engine_share,
            of_free=of_free,
        )
        for group in groups
    )
    for room in rooms:
        if room.answers(context) < 1.0:
            raise ParameterError("gpus", room.gpus, _too_little(room, context))
    return rooms


def _too_little(room: Room, context: float) -> str:
    needed = room.weight_bytes + room.work_bytes + room.cache_bytes(context)
    there = room.free_bytes + room.weight_bytes + room.work_bytes
    names = " + ".join(model.name for model in room.models)
    what = (
        f"of {room.gpu_bytes / _GB:.0f} GB hold too little for {names}: each needs {needed / _GB:.1f} GB "
        f"(weights {room.weight_bytes / _GB:.1f}, work {room.work_bytes / _GB:.1f}, one answer of {context:.0f} tokens "
        f"{room.cache_bytes(context) / _GB:.1f}) and offers {there / _GB:.1f}"
    )
    fewer = (name for name in ("fp8", "int4") if _would_do(room, context, partial(_in_format, name=name)))
    remedies = [*_more_gpus(room, context), *[f"{name} weights would do" for name in fewer][:1]]
    return f"{what}; {' or '.join(remedies) or 'neither more of them nor fewer bits would do: take larger ones'}"


def _more_gpus(room: Room, context: float) -> Iterator[str]:
    """How many GPUs would hold the models: of one machine, then of more, with as many more stages."""
    target, n = room.models[0], room.gpus * 2
    while n <= MOST_TP * target.shape.n_layers:
        tp, pp = min(n, MOST_TP) // target.parallel.stage, max(n // MOST_TP, 1)
        if _would_do(room, context, partial(_wider, factor=tp, stages=pp)):
            yield f"{n} GPUs would do" + (f", where plans go up to {MOST_GPUS}" if n > MOST_GPUS else "")
            return
        n *= 2


def _would_do(room: Room, context: float, change: Callable[[Served], Served]) -> bool:
    try:
        changed = replace(room, models=tuple(change(model) for model in room.models))
    except ParameterError:  # heads or experts that so many GPUs cannot share
        return False
    return changed.answers(context) >= 1.0


def _wider(model: Served, factor: int, stages: int) -> Served:
    """The model over so many times the GPUs in each stage; what drafts for it has no stages."""
    ep = model.parallel.ep * factor if model.parallel.ep > 1 else 1
    stages = stages if model.role == "target" else 1
    return replace(model, parallel=replace(model.parallel, tp=model.parallel.tp * factor, ep=ep, pp=stages))


def _in_format(model: Served, name: str) -> Served:
    """The model with weights in a format; a head of one layer stays as it is."""
    formats = Precision(weights=name, cache=model.precision.cache)
    return replace(model, precision=formats) if model.shape.n_layers > 1 else model
