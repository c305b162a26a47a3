"""The bottleneck of an option under load: what most of a round's time goes to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, get_args

from sim.roles import DRAFT, TARGET
from specplan.worlds.costs import RoundCost
from theory.hardware.operators import distinct_experts, fullest_share
from theory.hardware.shapes import Experts
from theory.hardware.sharding import weight_bytes_per_gpu
from theory.hardware.work import Work

if TYPE_CHECKING:
    from sim.configuration import Configuration
    from sim.serving.answers import ServedLoad
    from specplan.planning.loads.options import Option
    from specplan.worlds.arrangements import Split
    from specplan.worlds.world import World
    from theory.hardware.passes import PassModel

__all__ = ["LIMITS", "Limit", "limit_of", "runs_out"]

Limit = Literal["bandwidth", "arithmetic", "kernels", "cache reads", "cache full", "places", "links", "host", "draft"]
LIMITS: Final[tuple[Limit, ...]] = get_args(Limit)
"""``bandwidth``: reading weights; ``arithmetic``; ``kernels``: neither, products too small to fill the GPU; ``cache
reads``: attention over cached tokens; ``cache full``: answers wait for room in it; ``places``: they wait for one of the
engine's (``max_num_seqs``); ``links``: sums over GPUs; ``host``: what the engine takes between kernels and per
sequence; ``draft``: drafting, or a draft's GPU that is busier."""
_BF16_BYTES: Final = 2.0
_WAITING: Final = 0.05
"""If answers wait for a place at least this share of their time, the cache is the bottleneck, [-]."""


def limit_of(world: World, option: Option, answers: int, served: ServedLoad) -> Limit:
    """Return the bottleneck.

    Parameters
    ----------
    answers : in flight in a copy, >= 1.
    """
    if served.preempted or served.waited_s > _WAITING * served.seconds * max(served.in_flight, 1.0):
        places = world.deployment.max_num_seqs
        return "places" if places is not None and not served.preempted and answers > places else "cache full"
    busy = served.busy
    if option.arrangement.own_gpus and busy.get(DRAFT, 0.0) > max(busy[TARGET], 0.9):
        return "draft"
    context = world.deployment.prompt_tokens + world.deployment.answer_tokens / 2.0
    sequences = answers * max(option.configuration.k1, 1)
    return runs_out(world, option.configuration, option.arrangement.split, sequences, context)


def runs_out(world: World, configuration: Configuration, split: Split, sequences: float, context: float) -> Limit:
    """Return what takes most of a round's time.

    Parameters
    ----------
    configuration : of each sequence as many tokens are verified as it says.
    sequences : in the batch, > 0.
    context : cached tokens of each, mean.
    """
    cost = world.round_cost(configuration, split)
    model = (cost.target if isinstance(cost, RoundCost) else cost).model
    work = Work(sequences=sequences, tokens=world.passes(configuration).rows, context=context)
    parts = model.parts(work)
    seconds: dict[Limit, float] = {
        _of_products(model, work): parts.products + parts.experts + parts.head + parts.streams,
        "cache reads": parts.attention,
        "links": parts.sums,
        "host": parts.layers + parts.sequences + parts.ungraphed,
    }
    if isinstance(cost, RoundCost):
        seconds["draft"], engine = cost.rounds.besides(sequences, configuration.k2, context)
        seconds["host"] += engine
    return max(seconds, key=seconds.__getitem__)


def _of_products(model: PassModel, work: Work) -> Limit:
    """What most of the matrix products' time is: reading weights, arithmetic, or neither."""
    parts = model.parts(work)
    busy = parts.products + parts.experts + parts.head
    reading = _weights_read(model, work) / model.gpu.sheet.bandwidth
    flops = 2.0 * model.shape.active_parameters * work.rows / model.parallel.stage
    weights = model.precision.expert_format if model.shape.has_experts else model.precision.weight_format
    arithmetic = flops / model.gpu.sheet.rate(weights.arithmetic)
    if max(reading, arithmetic) < 0.5 * busy:
        return "kernels"
    return "bandwidth" if reading >= arithmetic else "arithmetic"


def _weights_read(model: PassModel, work: Work) -> float:
    """Bytes of weights that the fullest GPU reads in a pass, B: of experts those that the tokens choose."""
    shape, parallel = model.shape, replace(model.parallel, pp=1)  # the stages read theirs after each other
    total = weight_bytes_per_gpu(shape, model.precision, parallel)
    if not shape.tied:
        total -= _BF16_BYTES * shape.hidden * shape.vocab / parallel.tp  # embeddings are looked up, not multiplied
    for group in shape.layers:
        forward = group.feed_forward
        if isinstance(forward, Experts):
            touched = distinct_experts(forward.count, forward.per_token, work.asking_rows)
            unread = forward.count / parallel.ep - fullest_share(forward.count, touched, parallel.ep)
            size = forward.routed(shape.hidden, 1) / parallel.expert_tp
            total -= group.count * unread * size * model.precision.expert_format.bytes_per_number
    return total
