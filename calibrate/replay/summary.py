"""Summary of a measured profile, with errors: acceptance, cost ratio, lengths, engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrate.costs.fit import fit_cost, reread_tokens
from calibrate.record.answer_records import Generated, RecordedAnswer
from calibrate.record.profile import Profile
from calibrate.replay.accuracy import rates_text, said, share
from calibrate.replay.corruption import corruption
from sim.estimate import Estimate, mean, proportion, ratio_of_totals
from sim.roles import DRAFT, TARGET

__all__ = ["acceptance", "cost_ratio", "replay_error", "summarise"]

_TARGET: Final = "  T       target step               "
"""Beginning of the line on the target's steps."""


def acceptance(answers: Sequence[RecordedAnswer]) -> Estimate:
    """alpha1: share of the judged drafts that were accepted; its interval clusters the decisions by answer."""
    accepted, judged = _verdicts(answers)
    alpha = ratio_of_totals(accepted, judged, estimator="accepted / judged, clustered by answer")
    if alpha.value in (0.0, 1.0) or len(answers) < 2:  # a spread of 0 would give a width of 0
        alpha = proportion(int(accepted.sum()), int(judged.sum()))
    return replace(alpha, low=max(alpha.low, 0.0), high=min(alpha.high, 1.0))  # few answers exceed it


def _verdicts(answers: Sequence[RecordedAnswer]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Accepted drafts of each answer, and judged ones."""
    chains = [[step.verdict.accepted for step in answer.steps] for answer in answers]
    return np.array(list(map(sum, chains)), dtype=np.float64), np.array(list(map(len, chains)), dtype=np.float64)


def cost_ratio(answers: Sequence[RecordedAnswer]) -> Estimate:
    """c1: seconds of all drafts / seconds of all target steps after the same prefixes, ratio of totals over answers."""
    drafts = [sum(step.draft.seconds for step in answer.steps) for answer in answers]
    targets = [sum(step.target.seconds for step in answer.steps) for answer in answers]
    return ratio_of_totals(drafts, targets, estimator="ratio of totals, clustered by answer")


def replay_error(profile: Profile) -> dict[str, Estimate]:
    """Return predicted / measured step times by the fitted cost model, by role.

    ``baseline`` are answers of plain decoding, ``target`` and ``draft`` those generated concurrently. 1 is
    perfect; the two times come from different samples, so this tests the model, not the fit.
    """
    reread = reread_tokens(profile)
    fits = {name: fit_cost(record, reread=reread) for name, record in profile.engines.items()}
    target, draft = fits[profile.placement[TARGET]], fits[profile.placement[DRAFT]]
    record = profile.engines[profile.placement[TARGET]]
    whole = not record.plain_in_use or record.stepwise is not record.plain_in_use
    plain = fit_cost(record, use="plain", reread=reread_tokens(profile, "plain") if whole else reread).cost
    modelled, measured = np.zeros((3, len(profile.answers))), np.zeros((3, len(profile.answers)))
    for i, answer in enumerate(profile.answers):
        context, new = answer.prompt_tokens, answer.prompt_tokens
        requests = [(step.tokens, step.seconds) for step in answer.baseline]
        if whole and requests:  # one for the answer, else one for each step
            requests = [(sum(tokens for tokens, _ in requests), sum(seconds for _, seconds in requests))]
        for tokens, measured_s in requests:
            modelled[0, i] += plain.alone(tokens, new, context)
            measured[0, i] += measured_s
            context, new = context + tokens, 0
        context, by_draft = answer.prompt_tokens, True
        last = answer.prompt_tokens
        for position in answer.steps:
            unseen = (last if by_draft else 0, 0 if by_draft and context > answer.prompt_tokens else last)
            modelled[1:, i] += _side_by_side(
                (target.cost.alone(position.target.tokens, unseen[0], context), target.factors.beside or 1.0),
                (draft.cost.alone(position.draft.tokens, unseen[1], context), draft.factors.beside or 1.0),
            )
            measured[1:, i] += position.target.seconds, position.draft.seconds
            by_draft = position.verdict.accepted
            last = position.draft.tokens if by_draft else position.target.tokens
            context += last
    both = zip(("baseline", TARGET, DRAFT), modelled, measured, strict=True)
    return {name: ratio_of_totals(ours, theirs, estimator="modelled / measured") for name, ours, theirs in both}


def _side_by_side(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """End times of two engines that start together, s; each given as its seconds without the other and its slowdown."""
    if one[0] * one[1] > other[0] * other[1]:
        return _side_by_side(other, one)[::-1]
    first = one[0] * one[1]
    return first, other[0] + first * (1.0 - 1.0 / other[1])


def summarise(profile: Profile) -> list[str]:
    """Describe a measured profile in lines of text."""
    answers = profile.answers
    steps = [step for answer in answers for step in answer.steps]
    more = f"{len(profile.texts)} more that were not timed, " if profile.texts else ""
    lines = [
        f"{profile.name}: {len(answers)} answers, {more}"
        f"{sum(len(answer.steps) for answer in profile.all_answers)} judged steps, {profile.provenance.device}, "
        f"{profile.provenance.engine} {profile.provenance.engine_version}",
        *(
            _of_steps(profile)
            if steps
            else [_TARGET + _seconds_and_tokens([step for answer in answers for step in answer.baseline])]
        ),
    ]
    lines += [_engine_line(profile, name) for name in profile.engines]
    for ngram in profile.ngram:
        accepted, drafted = sum(ngram.accepted_at), sum(ngram.drafted_at)
        lines.append(
            f"  n-gram  up to {ngram.max_ngram}, {ngram.n_speculative} tokens"
            f"         {ngram.tokens / max(ngram.passes, 1):.2f} tokens per target pass, "
            f"{accepted} of {drafted} drafted tokens accepted ({100 * accepted / drafted if drafted else 0.0:.0f} %)"
        )
    for record in profile.token if not steps else ():
        key = " ".join([record.method, *(f"{name}={value}" for name, value in sorted(record.settings.items()))])
        lines.append(f"  token   {key:<25} {record.tokens / max(record.passes, 1):.2f} tokens per target pass")
    if steps:
        checks = ", ".join(f"{name} {said(value)}" for name, value in replay_error(profile).items())
        lines.append(f"  check   modelled / measured time  {checks}")
    return lines


def _of_steps(profile: Profile) -> list[str]:
    """Return the lines on both models' steps and their verdicts: times of timed answers, verdicts of all."""
    all_answers, steps = profile.all_answers, [step for answer in profile.answers for step in answer.steps]
    alpha, (accepted, judged) = acceptance(all_answers), _verdicts(all_answers)
    own, chance = accepted / judged, float(np.mean(alpha.value * (1.0 - alpha.value) / judged))
    beyond_chance = float(np.sqrt(max(own.var(ddof=1) - chance, 0.0))) if len(own) > 1 else 0.0
    verdicts = [[step.verdict for step in answer.steps] for answer in all_answers]
    pairs = [pair for one in verdicts for pair in pairwise(one)]
    after = [said(share([b.accepted for a, b in pairs if a.accepted is yes])) for yes in (True, False)]
    lines = [
        f"  alpha1  step acceptance           {said(alpha)}",
        f"          after accepted, rejected  {after[0]}; {after[1]}",
        f"          between problems          sd {beyond_chance:.3f} beyond chance",
        f"  c1      draft / target step time  {said(cost_ratio(profile.answers))}",
        _TARGET + _seconds_and_tokens([step.target for step in steps]),
        f"          draft step                {_seconds_and_tokens([step.draft for step in steps])}",
        f"          verification              {_milliseconds([s.verdict.seconds for s in steps])}",
    ]
    known = [one for of_answer in verdicts for one in of_answer if one.same_meaning is not None]
    false_accepts = share([not one.same_meaning for one in known if one.accepted])
    if false_accepts is not None:
        false_rejects = share([bool(one.same_meaning) for one in known if not one.accepted])
        lines.append(f"  judge   false accepts, rejects    {said(false_accepts)}; {said(false_rejects)}")
    lines += [f"  accepts {line}" for line in rates_text(all_answers)]
    lost = corruption(all_answers)
    if lost is not None:
        lines.append(f"          corruption                {said(lost)} of acceptance lost after a wrong step")
    return lines


def _milliseconds(seconds: Sequence[float]) -> str:
    estimate = mean(np.array(seconds) * 1e3)
    return f"{estimate.value:.1f} ± {estimate.stderr:.1f} ms"


def _seconds_and_tokens(steps: Sequence[Generated]) -> str:
    tokens = np.array([step.tokens for step in steps], dtype=np.float64)
    spread = tokens.std(ddof=1) / tokens.mean() if tokens.size > 1 else 0.0
    return f"{_milliseconds([step.seconds for step in steps])}, {tokens.mean():.1f} tokens (CV {spread:.2f})"


def _engine_line(profile: Profile, name: str) -> str:
    fit = fit_cost(profile.engines[name])
    slowdown = fit.factors.beside
    times = ", ".join(f"{b}: {1e3 * s:.2f}" for b, s in zip(fit.cost.batches, fit.cost.seconds, strict=True))
    return (
        f"  engine  {name:<25} iteration ms by batch {times}; +{1e6 * fit.cost.context_s:.2f} us per cached token; "
        f"fit error {100 * fit.sweep.decode_error:.0f} %, n = {fit.sweep.n_decode}; in use x{fit.factors.decode:.2f}"
        + (f", while another works x{slowdown:.2f} more" if slowdown is not None else "")
    )
