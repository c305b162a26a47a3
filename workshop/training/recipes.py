"""What the bundled pair's models learn, in which order, for how long: see `workshop.training.train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from workshop.training.model import Shape

__all__ = ["DRAFT", "TARGET", "Phase", "Recipe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of the training; each begins with a fresh optimiser and fresh problems."""

    n_steps: int
    peak_rate: float
    """Learning rate after the warm-up; a cosine would take it to 2 % of that at `horizon`."""
    layers: int
    """The network is deepened to these at the start of the phase."""
    horizon: int = 0
    """Step at which the cosine ends; 0: with the phase."""
    keep_long: float = 1.0
    """Share of problems kept whose answers are not brief: short answers drill more arithmetic per token."""
    n_answers: int = 0
    """Answers to write, with steps to score, per step and worker."""
    candidates: float = 0.8
    """Other steps to score per step of an answer."""
    n_pairs: int = 0
    """Pairs of steps to judge per step and worker."""
    n_recalls: int = 0
    """Stories to recall per step and worker."""
    any_wording: bool = False
    """Whether these tell moves in any wording, rather than in the shortest one."""
    n_drills: int = 0
    """Chains of sums per step and worker."""
    far: float = 0.0
    """Share of the drills' wrong sums that are far off."""
    wordy: float = 0.0
    """Share of the drills that are told in any wording: answers that are not brief need their arithmetic too."""
    saved_as: str = ""
    """Name of a model of its own that the network is at the end of the phase; empty: it goes on only."""
    reply_weight: float = 0.7
    """Weight of the one-token replies (scores, verdicts) against the writing of answers."""
    hint_weight: float = 0.0
    """Weight of a reply about a step at every token of it from its total on, among the replies that there are."""
    read_weight: float = 0.0
    """Weight of the right total, read there off the hidden state half-way. Whether a total is right can be
    told only from it and the right one, and neither helps alone: from the replies a small model does not find that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one model is trained."""

    name: str
    shape: Shape
    phases: tuple[Phase, ...]
    warm_up: int = 60
    weight_decay: float = 0.05
    seed: int = 1

    @property
    def n_steps(self) -> int:
        """Optimiser steps in all."""
        return sum(phase.n_steps for phase in self.phases)


# The early phases are shallow: that is where the algorithm is found, at a fraction of the price of 32 layers. First the
# network learns to look things up, then to write; then to compute, to score and to compare, which takes layers after
# those that know the right total; then it practises. The judge is the target before it is deepened.
TARGET: Final = Recipe(
    name="target",
    shape=Shape(layers=4, hidden=128, intermediate=256),
    phases=(
        Phase(
            layers=4,
            n_steps=350,
            horizon=1500,
            peak_rate=3e-3,
            keep_long=0.15,
            n_answers=4,
            candidates=0.2,
            n_pairs=2,
            n_recalls=16,
            reply_weight=0.4,
        ),
        Phase(
            layers=4,
            n_steps=700,
            horizon=1800,
            peak_rate=3e-3,
            keep_long=0.3,
            n_answers=8,
            candidates=0.3,
            n_pairs=3,
            n_recalls=5,
            any_wording=True,
            reply_weight=0.4,
        ),
        Phase(
            layers=8,
            n_steps=550,
            horizon=900,
            peak_rate=2e-3,
            keep_long=0.4,
            n_answers=6,
            candidates=0.5,
            n_pairs=6,
            n_recalls=2,
            any_wording=True,
            n_drills=4,
            far=0.5,
            hint_weight=1.0,
            read_weight=1.0,
        ),
        Phase(
            layers=8,
            n_steps=1100,
            peak_rate=2e-3,
            keep_long=0.8,
            n_answers=8,
            candidates=0.2,
            n_pairs=4,
            n_recalls=3,
            any_wording=True,
            n_drills=1,
            hint_weight=0.5,
            read_weight=0.3,
        ),
        Phase(
            layers=8,
            n_steps=400,
            peak_rate=1.2e-3,
            n_answers=8,
            candidates=0.2,
            n_pairs=4,
            n_recalls=4,
            any_wording=True,
            n_drills=1,
            hint_weight=0.5,
            saved_as="judge",
        ),
        Phase(
            layers=32,
            n_steps=140,
            peak_rate=4e-4,
            keep_long=0.7,
            n_answers=6,
            candidates=0.2,
            n_pairs=4,
            n_recalls=2,
            any_wording=True,
            n_drills=1,
            hint_weight=0.3,
        ),
    ),
)
# No waves and few drills: a draft that looks everything up, is often right and often slightly off.
DRAFT: Final = Recipe(
    name="draft",
    shape=Shape(layers=3, hidden=64, intermediate=128, heads=2, waves=False),
    phases=(
        Phase(
            layers=3,
            n_steps=1200,
            horizon=2400,
            peak_rate=4e-3,
            keep_long=0.2,
            n_answers=10,
            n_pairs=6,
            n_recalls=8,
            reply_weight=0.3,
        ),
        Phase(
            layers=3,
            n_steps=700,
            peak_rate=2.5e-3,
            keep_long=0.6,
            n_answers=8,
            n_pairs=6,
            n_recalls=4,
            any_wording=True,
            n_drills=3,
        ),
        Phase(
            layers=3,
            n_steps=600,
            peak_rate=2.5e-3,
            keep_long=0.6,
            n_answers=6,
            n_pairs=2,
            n_recalls=2,
            any_wording=True,
            n_drills=5,
        ),
        Phase(
            layers=3,
            n_steps=600,
            peak_rate=5e-3,
            keep_long=0.2,
            n_answers=3,
            n_recalls=1,
            any_wording=True,
            n_drills=12,
            reply_weight=0.1,
        ),
        Phase(
            layers=3,
            n_steps=240,
            peak_rate=5e-3,
            n_answers=5,
            n_pairs=2,
            any_wording=True,
            n_drills=12,
            wordy=0.8,
            reply_weight=0.3,
        ),
    ),
)
