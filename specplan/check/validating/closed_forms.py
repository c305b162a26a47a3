"""What the papers' closed forms say about a configuration, given the figures of a measured profile: a stand-in.

The forms are those that `sim.catalogue` names, with what each has a term for: acceptance, c1 and the time of a verdict
above the tokens, acceptance of tokens by position and the time of drafting below. They know nothing of lengths that
vary, of shared iterations, of prompts and of the ends of answers: that is what the simulator adds. Below a step-level
method a token-level one multiplies its speedup, as in Lookahead Reasoning, Section 3.3.

A SPECS form needs both models' share of promising steps and gets the draft's, as `sim.gaps` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
from sim.operations import GATE, REWARD
from theory.speedup import expected_tokens
from theory.token_methods import lookup_tokens, token_speedup, vector_tokens

__all__ = ["closed_form"]

_BY_BEAMS: Final = {"rsd-beams": "threshold", "specs": "tau"}
"""Methods whose form has the share of candidates above this knob."""


def closed_form(profile: Profile, configuration: Configuration) -> float | None:
    """Return the speedup that the closed forms promise; None for methods without one.

    Parameters
    ----------
    profile : measured.
    configuration : what to predict; variants for comparison only (SPECS without a part) have no form of their own.
    """
    above = 1.0
    if configuration.spec.level != "token":
        found = _above(profile, configuration)
        if found is None:
            return None
        above = found
    if configuration.token is None:
        return above
    below = _below(profile, configuration.token, dict(configuration.token_knobs))
    return None if below is None else above * below


def _above(profile: Profile, configuration: Configuration) -> float | None:
    spec = configuration.spec
    if spec.ablation or spec.closed_form not in CLOSED_FORMS or not profile.answers:
        return None
    verdicts = _verdicts(profile.all_answers, configuration)
    if verdicts is None:
        return None
    knobs = {name: value for name, value in configuration.knobs.items() if value is not None}
    return Case(method=configuration.method, knobs=knobs).closed_form(_world(profile, verdicts))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdicts:
    """How drafts fare with a configuration."""

    accepted: float
    """Share, [-]."""
    asked_twice: float = 0.0
    """Share on which the draft's own verdict is not sure, [-]."""


def _verdicts(answers: Sequence[RecordedAnswer], configuration: Configuration) -> _Verdicts | None:
    """None where somebody was not asked."""
    if configuration.spec.level == "beam":
        return _promising(answers, configuration)
    steps = [step for answer in answers for step in answer.steps]
    role, threshold = configuration.decider
    if role == CASCADE:
        gamma = float(configuration.knobs["gamma"] or 0.0)
        scores = [step.draft.scores.get(GATE) for step in steps]
        sure = [None if score is None else max(score, 1.0 - score) >= gamma for score in scores]
        decided = [
            accepts(step, GATE) if alone else step.verdict.accepted for step, alone in zip(steps, sure, strict=True)
        ]
        unsure = _share(None if alone is None else not alone for alone in sure)
    else:
        decided, unsure = [accepts(step, role, threshold) for step in steps], 0.0
    accepted = _share(decided)
    return None if accepted is None or unsure is None else _Verdicts(accepted=accepted, asked_twice=unsure)


def _promising(answers: Sequence[RecordedAnswer], configuration: Configuration) -> _Verdicts | None:
    """Candidates of the draft that the reward lets pass; all where the form does not ask."""
    knob = _BY_BEAMS.get(configuration.method)
    if knob is None:
        return _Verdicts(accepted=1.0)
    least = float(configuration.knobs[knob] or 0.0)
    rewards = [r for answer in answers for place in answer.beams for r in place.drafts.scores.get(REWARD, ())]
    accepted = _share(reward >= least for reward in rewards)
    return None if accepted is None else _Verdicts(accepted=accepted)


def _world(profile: Profile, verdicts: _Verdicts) -> World:
    """The profile in target steps, as far as closed forms have terms."""
    steps = [step for answer in profile.answers for step in answer.steps]
    step_s = _mean(step.target.seconds for step in steps)
    own = [len(answer.baseline) or len(answer.steps) for answer in profile.all_answers]
    return World(
        alpha1=verdicts.accepted,
        c1=min(cost_ratio(profile.answers).value, 1.0),
        escalation=verdicts.asked_twice,
        steps=max(round(_mean(own)), 1),
        judge=_mean(step.verdict.seconds for step in steps) / step_s,
        gate=_mean(step.verdict.seconds for step in steps) / step_s * _token_ratio(steps),
    )


def _below(profile: Profile, name: str, knobs: dict[str, Any]) -> float | None:
    counts = counts_of(profile, name, knobs)
    if method(name).closed_form not in CLOSED_FORMS or counts is None or not counts.passes:
        return None
    n = method(name).most_per_pass(**knobs) - 1
    cost = 0.0
    if name == "draft-model":
        cost = n * _token_ratio([step for answer in profile.answers for step in answer.steps])
    elif name == "eagle":
        cost = _drafting(profile, counts)
    return float(token_speedup(_tokens_per_pass(name, counts, n), draft_cost=cost))


def _tokens_per_pass(name: str, counts: TokenRecord | NGramRecord, n: int) -> float:
    """By the form of the method, its acceptances as counted in the first ``n`` positions of drafts."""
    drafted, right = counts.drafted_at[:n], counts.accepted_at[:n]
    if not drafted or not drafted[0]:
        return 1.0
    tried = [drafted[0], *(min(before, here) for before, here in zip(right, drafted[1:], strict=False))]
    if name == "prompt-lookup":
        lengths = [(here - after) / drafted[0] for here, after in pairwise([*drafted, 0])]
        later = sum(right[1:]) / max(sum(tried[1:]), 1)
        return float(lookup_tokens(counts.drafts / counts.passes, right[0] / drafted[0], later, lengths))
    if name == "eagle":
        return float(vector_tokens([yes / max(asked, 1) for yes, asked in zip(right, tried, strict=True)]))
    if name == "lookahead-decoding":  # alpha of Equation 5, fitted to these very passes, gives them back
        return 1.0 + sum(right) / counts.passes
    return float(expected_tokens(sum(right) / sum(tried), n))


def _drafting(profile: Profile, counts: TokenRecord | NGramRecord) -> float:
    """Time of drafting for a pass in plain passes; 0 where the engine does not tell."""
    answers: Sequence[TokenAnswer] = counts.answers if isinstance(counts, TokenRecord) else ()
    sums = [one for answer in answers for one in answer.decode]
    passes = sum(one.n for one in sums)
    steps = [step.target for answer in profile.answers for step in answer.steps]
    plain = sum(step.seconds for step in steps) / sum(step.tokens for step in steps)
    return sum(one.drafting_s for one in sums) / passes / plain if passes else 0.0


def _token_ratio(steps: Sequence[StepRecord]) -> float:
    """c2: seconds of a token of the draft / of the target, in [0, 1]."""
    drafts = sum(step.draft.seconds for step in steps) / sum(step.draft.tokens for step in steps)
    targets = sum(step.target.seconds for step in steps) / sum(step.target.tokens for step in steps)
    return min(drafts / targets, 1.0)


def _share(events: Iterable[bool | None]) -> float | None:
    found = list(events)
    known = [bool(event) for event in found if event is not None]
    return sum(known) / len(known) if known and len(known) == len(found) else None


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
