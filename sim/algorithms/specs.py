"""SPECS: candidates by the target until one is rewarded highly, then by the draft, and a soft selection among them.

Source: *SPECS: Faster Test-Time Scaling through Speculative Drafts and Dynamic Switching*, Algorithms 1 and 2, and the
variants of its ablations: no target, random switching (Table 2), the draft first and no likelihood in the score (Table
6), a noisy reward model (Table 4). As printed, Algorithm 1 never goes back to the target once it has switched.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from sim.algorithms.beams import EXACT, MEASURED, NOISE, WIDTH
from sim.algorithms.candidates import SELECTION, SWITCHING, Candidates, best, drawn_lot, soft_choice
from sim.algorithms.rules import check_counts
from sim.catalogue import Knob, KnobValue, Method, built, drafts_per_position
from sim.operations import Algorithm, Outcome, Step
from sim.roles import DRAFT, DRAFT_LIKELIHOOD, LIKELIHOOD, REWARD, TARGET
from theory.errors import ParameterError

__all__ = ["METHODS", "Switch", "specs"]

Switch: TypeAlias = Literal["once", "both-ways", "retry", "random", "never"]
"""When the generator changes: ``once``, to the draft, after a step with a reward above tau (Algorithm 1); after every
step, to the draft or back to the target; ``retry`` begins every step with the draft and has the target generate the
same step if no reward is above tau; at ``random``, drawn anew for every step; never."""


def specs(
    root: Step,
    *,
    width: int,
    beta: float,
    tau: float,
    switch: Switch = "once",
    start: str = TARGET,
    share: float = 0.5,
    likelihood: bool = True,
    noise: float = 0.0,
) -> Algorithm:
    """Generate the answer to ``root`` by speculative beams with soft verification (Equation 1).

    Keywords are the knobs in `METHODS`: beta weighs the reward in the score, nats per unit; the draft generates the
    next step where some reward is above tau; with ``retry`` the draft starts. An unknown ``switch`` or ``start`` is a
    `ParameterError`.
    """
    check_counts(1, width)
    if switch not in get_args(Switch):
        raise ParameterError("switch", switch, f"must be one of {', '.join(get_args(Switch))}")
    if start not in (TARGET, DRAFT):
        raise ParameterError("start", start, f"must be {TARGET!r} or {DRAFT!r}")
    tree = Candidates(root, noise)
    step, role = root, DRAFT if switch == "retry" else start
    while not step.final:
        candidates = yield from tree.grow([step], role, width, likelihood=likelihood and role == DRAFT)
        is_promising = best(candidates).reward > tau
        if switch == "retry" and not is_promising:
            for draft in candidates:
                draft.become(Outcome.REJECTED)
            candidates = yield from tree.grow([step], TARGET, width)
        lot = yield from drawn_lot(candidates, SELECTION)
        scores = [candidate.log_ratio + beta * candidate.reward for candidate in candidates]
        step = candidates[soft_choice(scores, lot)].step
        yield from tree.settle([step])
        if switch == "random":
            role = TARGET if (yield from drawn_lot(candidates, SWITCHING)) < share else DRAFT
        elif switch in ("once", "both-ways") and is_promising:
            role = DRAFT
        elif switch == "both-ways":
            role = TARGET


_KNOBS: Final = (
    WIDTH,
    Knob(name="beta", kind="number", default=20.0, low=0.0, high=1e6, help="weight of the reward in the score, nats"),
    Knob(
        name="tau",
        kind="number",
        default=0.8,
        low=0.0,
        high=1.0,
        help="reward above which the draft generates the next step",
    ),
    Knob(
        name="switch",
        kind="choice",
        default="once",
        choices=get_args(Switch),
        help="when the generator changes: once (Algorithm 1), both-ways, retry (draft first), random, never",
    ),
    Knob(
        name="start", kind="choice", default=TARGET, choices=(TARGET, DRAFT), help="model that generates the first step"
    ),
    Knob(name="share", kind="number", default=0.5, low=0.0, high=1.0, help="random: share of steps by the target"),
    Knob(name="likelihood", kind="switch", default=True, help="whether the score has the log ratio of probabilities"),
    NOISE,
)


def _variant(name: str, title: str, where: str, **defaults: KnobValue) -> Method:
    knobs = tuple(knob.with_default(defaults[knob.name]) if knob.name in defaults else knob for knob in _KNOBS)
    return Method(
        name=name,
        title=title,
        paper=f"SPECS, {where}",
        level="beam",
        algorithm=built(specs),
        knobs=knobs,
        roles=(DRAFT, REWARD, LIKELIHOOD, DRAFT_LIKELIHOOD),
        exact=f"{EXACT}; the distribution of the selected step on small alphabets",
        measured=MEASURED,
        closed_form="theory.specs.beams.specs_speedup",
        in_flight=drafts_per_position,
        ablation=name != "specs",
    )


METHODS = (
    _variant("specs", "SPECS", "Algorithms 1 and 2"),
    _variant("specs-no-target", "SPECS, no target", "Table 2", start=DRAFT, switch="never"),
    _variant("specs-random-switch", "SPECS, random switch", "Table 2", switch="random"),
    _variant("specs-draft-first", "SPECS, draft first", "Table 6", start=DRAFT, switch="retry"),
    _variant("specs-no-likelihood", "SPECS, no likelihood", "Table 6", likelihood=False),
    _variant("specs-noisy-reward", "SPECS, noisy reward", "Table 4", noise=0.1),
)
