"""The methods, each written once as a generator of operations (see ``sim.operations``)."""

from sim.algorithms.autoregressive import autoregressive, step_by_step
from sim.algorithms.lookahead_async import lookahead_async
from sim.algorithms.lookahead_sync import lookahead_sync
from sim.algorithms.paired import draft_trajectory, paired_trajectory
from sim.algorithms.rules import EAGER, PAPER, RELEASED_CODE, Rules

__all__ = [
    "EAGER",
    "PAPER",
    "RELEASED_CODE",
    "Rules",
    "autoregressive",
    "draft_trajectory",
    "lookahead_async",
    "lookahead_sync",
    "paired_trajectory",
    "step_by_step",
]
