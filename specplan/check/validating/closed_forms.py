"""The papers' closed forms for a configuration, with the parameters of a measured profile: a simpler prediction.

The forms are those of `sim.catalogue`, with their parameters: acceptance, c1 and the time of a verdict at the step
level, acceptance of tokens by position and the time of drafting at the token level. They neglect the spread of lengths,
shared iterations, prompts and the ends of answers, which the simulator has. A token-level method below a step-level one
multiplies its speedup, as in Lookahead Reasoning, Section 3.3.

A SPECS form needs both models' share of promising steps and gets the draft's, as in `sim.gaps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from calibrate.record.answer_records import RecordedAnswer, StepRecord
from calibrate.record.profile import Profile
from calibrate.record.token_records import NGramRecord, TokenAnswer, TokenRecord
from calibrate.replay.accuracy import accepts
from calibrate.replay.summary import cost_ratio
from calibrate.replay.token_passes import counts_of
from sim.algorithms.checks import CASCADE
from sim.catalogue import method
from sim.configuration import Configuration
from sim.gaps.forms import CLOSED_FORMS
from sim.gaps.table import Case
from sim.gaps.worlds import World
from sim.roles import GATE, REWARD
from theory.speedup import expected_tokens
from theory.token_methods import lookup_tokens, token_speedup, vector_tokens

__all__ = ["closed_form"]

_BY_BEAMS: Final = {"rsd-beams": "threshold", "specs": "tau"}
"""Methods whose form contains the share of candidates with a reward above this knob."""


def closed_form(profile: Profile, configuration: Configuration) -> float | None:
    """Return the speedup of a measured profile by the closed forms; None for methods without one, and ablations."""
    above = 1.0 if configuration.spec.level == "token" else _above(profile, configuration)
    if above is None or configuration.token is None:
        return above
    below = _below(profile, configuration.token, dict(configuration.token_knobs))
    return None if below is None else above * below


def _above(profile: Profile, configuration: Configuration) -> float | None:
    spec = configuration.spec
    if spec.ablation or spec.closed_form not in CLOSED_FORMS or not profile.answers:
        return None
    accepted, unsure = _verdicts(profile.all_answers, configuration)
    if accepted is None or unsure is None:
        return None
    knobs = {name: value for name, value in configuration.knobs.items() if value is not None}
    return Case(method=configuration.method, knobs=knobs).closed_form(_world(profile, accepted, unsure))


def _verdicts(answers: Sequence[RecordedAnswer], configuration: Configuration) -> tuple[float | None, float | None]:
    """Shares of accepted drafts, and of those on which the gate is not sure; None where the profile lacks some."""
    if configuration.spec.level == "beam":  # candidates that the reward accepts; all where the form has no such term
        knob = _BY_BEAMS.get(configuration.method)
        if knob is None:
            return 1.0, 0.0
        least = float(configuration.knobs[knob] or 0.0)
        rewards = (r for answer in answers for place in answer.beams for r in place.drafts.scores.get(REWARD, ()))
        return _share(reward >= least for reward in rewards), 0.0
    steps = [step for answer in answers for step in answer.steps]
    role, threshold = configuration.decider
    if role == CASCADE:
        gamma = float(configuration.knobs["gamma"] or 0.0)
        scores = [step.draft.scores.get(GATE) for step in steps]
        sure = [None if score is None else max(score, 1.0 - score) >= gamma for score in scores]
        decided = [
            accepts(step, GATE) if certain else step.verdict.accepted for step, certain in zip(steps, sure, strict=True)
        ]
        return _share(decided), _share(None if certain is None else not certain for certain in sure)
    return _share(accepts(step, role, threshold) for step in steps), 0.0


def _world(profile: Profile, accepted: float, unsure: float) -> World:
    """The profile's parameters of closed forms, in target steps."""
    steps = [step for answer in profile.answers for step in answer.steps]
    step_s = _mean(step.target.seconds for step in steps)
    judge = _mean(step.verdict.seconds for step in steps) / step_s
    own = [len(answer.baseline) or len(answer.steps) for answer in profile.all_answers]
    return World(
        alpha1=accepted,
        c1=min(cost_ratio(profile.answers).value, 1.0),
        escalation=unsure,
        steps=max(round(_mean(own)), 1),
        judge=judge,
        gate=judge * _token_ratio(steps),
    )


def _below(profile: Profile, name: str, knobs: dict[str, Any]) -> float | None:
    counts = counts_of(profile, name, knobs)
    if method(name).closed_form not in CLOSED_FORMS or counts is None or not counts.passes:
        return None
    n = method(name).most_per_pass(**knobs) - 1
    cost = 0.0
    if name == "draft-model":
        cost = n * _token_ratio([step for answer in profile.answers for step in answer.steps])
    elif name in ("eagle", "block-drafter"):
        cost = _drafting(profile, counts)
    return float(token_speedup(_tokens_per_pass(name, counts, n), draft_cost=cost))


def _tokens_per_pass(name: str, counts: TokenRecord | NGramRecord, n: int) -> float:
    """Tokens per pass by the form of the method, with the acceptance counted at the first ``n`` positions."""
    drafted, right = counts.drafted_at[:n], counts.accepted_at[:n]
    if not drafted or not drafted[0]:
        return 1.0
    tried = [drafted[0], *(min(before, here) for before, here in zip(right, drafted[1:], strict=False))]
    if name == "prompt-lookup":
        lengths = [(here - after) / drafted[0] for here, after in pairwise([*drafted, 0])]
        later = sum(right[1:]) / max(sum(tried[1:]), 1)
        return float(lookup_tokens(counts.drafts / counts.passes, right[0] / drafted[0], later, lengths))
    if name in ("eagle", "block-drafter"):  # the counts of a block are those of its own length
        return float(vector_tokens([yes / max(attempts, 1) for yes, attempts in zip(right, tried, strict=True)]))
    if name == "lookahead-decoding":  # alpha of Equation 5, fitted to these passes, reproduces them
        return 1.0 + sum(right) / counts.passes
    return float(expected_tokens(sum(right) / sum(tried), n))


def _drafting(profile: Profile, counts: TokenRecord | NGramRecord) -> float:
    """Drafting time of a pass over the time of a plain pass; 0 where the engine does not report it."""
    answers: Sequence[TokenAnswer] = counts.answers if isinstance(counts, TokenRecord) else ()
    sums = [one for answer in answers for one in answer.decode]
    passes = sum(one.n for one in sums)
    steps = [step.target for answer in profile.answers for step in answer.steps]
    plain = sum(step.seconds for step in steps) / sum(step.tokens for step in steps)
    return sum(one.drafting_s for one in sums) / passes / plain if passes else 0.0


def _token_ratio(steps: Sequence[StepRecord]) -> float:
    """c2: seconds per token of the draft / of the target, in [0, 1]."""
    drafts = sum(step.draft.seconds for step in steps) / sum(step.draft.tokens for step in steps)
    targets = sum(step.target.seconds for step in steps) / sum(step.target.tokens for step in steps)
    return min(drafts / targets, 1.0)


def _share(events: Iterable[bool | None]) -> float | None:
    every = list(events)
    known = [bool(event) for event in every if event is not None]
    return sum(known) / len(known) if known and len(known) == len(every) else None


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
