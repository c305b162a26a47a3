"""Data that a prediction needs and a profile lacks, with the command that measures them.

A measured profile has the verdicts, scores and candidates that were recorded. A published profile has the acceptance by
Lookahead Reasoning's judge only: verdicts and scores of other verifiers or scorers are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Final

from calibrate.record.answer_records import StepRecord
from calibrate.record.profile import Profile
from calibrate.replay.token_level import TokenLevel
from sim.configuration import Configuration
from sim.roles import CHOOSER, DRAFT, DRAFT_LIKELIHOOD, EMBEDDING, EXACT, GATE, JUDGE, LIKELIHOOD, RANDOM, REWARD

__all__ = ["Known", "needed_roles"]

_LOCAL: Final = "specplan calibrate torch or vllm"
_HOW: Final[Mapping[str, str]] = {
    JUDGE: "specplan calibrate torch, vllm or openai",
    GATE: "specplan calibrate torch, vllm or openai",
    EXACT: "specplan calibrate torch, vllm or openai",
    EMBEDDING: f"{_LOCAL}, with --embedding",
}
"""Role -> calibration that records its verdicts or scores; `_LOCAL` for other roles."""
_HOW_TOKEN: Final[Mapping[str, str]] = {
    "prompt-lookup": _HOW[JUDGE],
    "draft-model": f"{_LOCAL}, or openai with --speculative",
    "eagle": "specplan calibrate torch, with --eagle",
    "block-drafter": "specplan calibrate vllm or openai, with --speculative",
}
"""Token-level method -> calibration that records it; ``specplan calibrate torch`` for other methods."""


def needed_roles(configuration: Configuration) -> frozenset[str]:
    """Return the roles whose recorded verdicts or scores a configuration needs; random numbers need no record."""
    knobs = configuration.knobs
    roles = set(configuration.spec.roles) - {DRAFT}
    verifier = knobs.get("verifier")
    if verifier is not None:
        roles = {GATE, JUDGE} if verifier == "cascade" else {str(verifier)}
    if knobs.get("select") == "choice":
        roles = {CHOOSER}
    if knobs.get("likelihood") is False:
        roles -= {LIKELIHOOD, DRAFT_LIKELIHOOD}
    return frozenset(roles - {RANDOM})


class Known:
    """Verdicts, scores and candidates that a profile has; computed once for many configurations."""

    def __init__(self, profile: Profile, token_level: TokenLevel) -> None:
        steps = [step for answer in profile.answers for step in answer.steps]
        n_drafts = min((1 + len(step.candidates) for step in steps), default=0)
        positions = [position for answer in profile.answers for position in answer.beams]
        counts = [len(one.tokens) for position in positions for one in (position.drafts, position.targets)]
        rewarded = all(REWARD in position.targets.scores for position in positions)
        beam_scores = _in_all(position.drafts.scores for position in positions)
        self._drawn = profile.published is not None and not profile.answers
        self._scores = [_in_all(_scores(step, draft) for step in steps) for draft in range(n_drafts)]
        """For each draft of a position, the judged draft first: the roles whose scores all positions have."""
        self._judged = min((1 + next(_unjudged(step), len(step.candidates)) for step in steps), default=0)
        """Drafts per position with a verdict by the judge, with or without a score."""
        self._beams = min(counts) if counts and all(answer.beams for answer in profile.answers) else 0
        """Candidates per position and model in answers with candidates; 0 without such answers."""
        self._beam_scores = beam_scores if rewarded else beam_scores - {REWARD}
        """Roles whose scores all the draft's candidates have; the reward only if the target's have it too."""
        self._timed = {role for role, seconds in profile.role_seconds.items() if seconds}
        """Roles without an engine whose times were recorded."""
        self._token_level = token_level

    def missing(self, configuration: Configuration, *, answers: bool = True) -> tuple[str, ...]:
        """Return a line for each item that a configuration needs and the profile lacks.

        Parameters
        ----------
        answers : whether it is simulated on the profile's answers; if not, only timings are needed.
        """
        needs = [*self._missing_answers(configuration)] if answers else []
        if EMBEDDING in needed_roles(configuration) - self._timed:
            needs.append(f"the time of a verdict by embedding ({_HOW[EMBEDDING]})")
        return (*needs, *self._missing_passes(configuration))

    def _missing_answers(self, configuration: Configuration) -> Iterator[str]:
        """Missing data of answers: verdicts, scores, candidates."""
        spec, roles = configuration.spec, needed_roles(configuration)
        needed = spec.drafts_seen(**configuration.knobs)
        if spec.level not in ("step", "beam"):
            return
        if self._drawn:
            own_threshold = configuration.knobs.get("threshold") is None
            yield from _scores_of(roles - {JUDGE} if own_threshold else roles)
        elif spec.level == "beam":
            yield from _scores_of(roles - self._beam_scores)
            if self._beams < needed:
                yield f"{needed} candidates per position and model, {self._beams} are recorded ({_LOCAL})"
        else:
            # The judge's scores are compared with a threshold that is not its own, or among accepted drafts.
            most_confident = configuration.width > 1 and GATE in spec.roles
            compares = most_confident or configuration.knobs.get("threshold") is not None
            unscored = roles if compares else roles - {JUDGE}
            drafts = self._judged if unscored != roles else len(self._scores)
            if drafts < needed:
                yield f"{needed} drafts per position, {drafts} are recorded ({_LOCAL})"
            yield from _scores_of(unscored - frozenset.intersection(unscored, *self._scores[:needed]))

    def _missing_passes(self, configuration: Configuration) -> Iterator[str]:
        """Missing data of the token level."""
        token = configuration.token
        if token is None:
            return
        given = {name: value for name, value in configuration.token_knobs.items() if value is not None}
        known = self._token_level.choices(token)
        if not any(all(one.get(name, value) == value for name, value in given.items()) for one in known):
            own = "known are " + ", ".join(" ".join(f"{k}={v}" for k, v in one.items()) for one in known)
            how = _HOW_TOKEN.get(token, "specplan calibrate torch")
            at = " ".join(f"{name}={value}" for name, value in given.items())
            yield f"tokens per pass of {token} at {at} ({own if known else how})"


def _scores(step: StepRecord, draft: int) -> Mapping[str, float]:
    if draft:
        return step.candidates[draft - 1].scores
    judge = {} if step.verdict.score is None else {JUDGE: step.verdict.score}
    return {**step.draft.scores, **judge}


def _unjudged(step: StepRecord) -> Iterator[int]:
    """Indices of the candidates of a position that the judge did not see."""
    return (i for i, draft in enumerate(step.candidates) if draft.accepted is None)


def _in_all(scores: Iterable[Iterable[str]]) -> frozenset[str]:
    sets = [frozenset(one) for one in scores]
    return reduce(frozenset.intersection, sets) if sets else frozenset()


def _scores_of(roles: Iterable[str]) -> Iterator[str]:
    """A line for all roles that the same calibration records."""
    by_how: dict[str, list[str]] = {}
    for role in sorted(roles):
        by_how.setdefault(_HOW.get(role, _LOCAL), []).append(role)
    for how, names in by_how.items():
        yield f"scores of {', '.join(names)} ({how})"
