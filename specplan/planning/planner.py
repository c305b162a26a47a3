"""The planner: for each method the knobs within the budget that are predicted to be fastest, ranked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibrate.record.profile import Profile
from sim.catalogue import method
from sim.configuration import PLAIN, Configuration
from sim.roles import DRAFT
from specplan.output import Progress, silent
from specplan.planning.candidates import Request, knobs_in_words
from specplan.planning.predict import Prediction, Predictor
from specplan.worlds.drafters.naming import kind

__all__ = ["CLOSE", "Plan", "Request", "Row", "fastest", "plan"]

_FINALISTS = 5
"""Configurations of the best kinds that are simulated on all answers; the others on ``_ROUGH_ANSWERS`` at least."""
_ROUGH_ANSWERS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the plan."""

    prediction: Prediction
    label: str
    why: str
    ruled_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The ranked table."""

    profile: str
    rows: tuple[Row, ...]
    """Best first; what costs more accuracy than allowed comes last."""
    verdict: str
    unknown: Mapping[str, tuple[str, ...]]
    """Name of a method that could not be evaluated to what the profile lacks, and how to measure it."""
    assumptions: tuple[str, ...]
    rules: str
    max_parallel: int
    n_answers: int
    measured: bool

    @property
    def best(self) -> Row:
        """The first row."""
        return self.rows[0]


def plan(profile: Profile, request: Request, *, progress: Progress = silent) -> Plan:
    """Rank the methods for a profile.

    Raises
    ------
    CalibrationError : the profile's timings are not enough for a cost model.
    """
    predictor = Predictor(profile, n_answers=request.n_answers, sparing=True)
    rules = request.rules_for(profile)
    by_kind: dict[str, list[Configuration]] = {}
    considered = request.candidates(predictor.trials)
    for configuration in considered.known:
        by_kind.setdefault(kind(configuration), []).append(configuration)
    plain = predictor.predict(PLAIN)
    least = None if plain.accuracy is None else plain.accuracy.value - request.max_accuracy_loss
    lost: list[str] = []
    roughly: list[Prediction] = []
    with progress(f"planning for {profile.name}", len(by_kind)) as step_done:
        for alike in by_kind.values():
            if alike[0].method not in lost:  # else, whatever decodes below it, it loses as many right answers
                best = fastest(predictor, _accurate_enough(predictor.accuracy, alike, least))
                roughly.append(predictor.predict(best, n_answers=_ROUGH_ANSWERS))
                lost += [best.method] if _lost(roughly[-1], plain, request) else []
            step_done()
    roughly.sort(key=lambda p: (_lost(p, plain, request), -p.speedup.value))
    predictions, n_good = [plain], 0
    for rough in roughly:  # the first ones are made from all answers, until enough of them are good
        prediction = predictor.predict(rough.configuration) if n_good < _FINALISTS else rough
        n_good += not _lost(prediction, plain, request)
        predictions.append(prediction)
    rows = tuple(_ranked(predictions, plain, request))
    return Plan(
        profile=profile.name,
        rows=rows,
        verdict=_verdict(rows, considered.unknown),
        unknown=considered.unknown,
        assumptions=_assumptions(profile, rules),
        rules=rules,
        max_parallel=request.max_parallel,
        n_answers=predictor.n_answers,
        measured=profile.published is None,
    )


def accuracy_loss(prediction: Prediction, plain: Prediction | None = None) -> float:
    """Share of right answers expected to be lost against plain decoding; 0 where accuracy is not known.

    Of fewer answers than plain decoding's, which may be others by chance, the loss that they show beyond doubt.

    Parameters
    ----------
    plain : of plain decoding; default what is recorded.
    """
    own, reference = prediction.accuracy, prediction.baseline_accuracy if plain is None else plain.accuracy
    if own is None or reference is None:
        return 0.0
    return reference.value - (own.value if own.n >= reference.n else max(own.value, own.high))


def _lost(prediction: Prediction, plain: Prediction, request: Request) -> bool:
    """Whether it costs more right answers than allowed."""
    return accuracy_loss(prediction, plain) > request.max_accuracy_loss


def _ranked(predictions: Sequence[Prediction], plain: Prediction, request: Request) -> Iterator[Row]:
    """Fastest first; what costs more accuracy than allowed comes last."""
    for p in sorted(predictions, key=lambda p: (_lost(p, plain, request), -p.speedup.value)):
        lost = _lost(p, plain, request)
        said = f"ruled out: loses {accuracy_loss(p, plain):.2f} of the right answers; " if lost else ""
        why = said + "; ".join(_reasons(p))
        yield Row(prediction=p, label=label(p.configuration), why=why, ruled_out=lost)


def label(configuration: Configuration) -> str:
    """A configuration's method in words."""
    below = f" + {method(configuration.token).title}" if configuration.is_hybrid and configuration.token else ""
    chosen = f", {knobs_in_words(configuration)}" if configuration.spec.level == "beam" else ""
    return configuration.spec.title + chosen + below


def _accurate_enough(
    accuracy: Callable[[Configuration], float | None], alike: Sequence[Configuration], least: float | None
) -> Sequence[Configuration]:
    """Keep, of methods that choose among candidates, the settings with enough right answers, else the best one.

    Of other methods all: their knobs are about time.
    """
    if least is None or alike[0].spec.level != "beam":
        return alike
    right = [math.inf if (share := accuracy(one)) is None else share for one in alike]
    enough = min(least, max(right))
    return [configuration for configuration, share in zip(alike, right, strict=True) if share >= enough]


def _reasons(p: Prediction) -> Iterator[str]:
    """What the speedup comes from, or why there is none."""
    configuration = p.configuration
    if not configuration.speculates:
        yield "the reference: every token costs one target pass"
        return
    if configuration.k2 > 1:
        yield f"{p.tokens_per_pass:.2f} tokens per target pass"
    if configuration.spec.drafts_steps:
        if DRAFT not in configuration.spec.roles:
            yield "the target chooses among candidates of its own"
        else:
            yield f"draft writes {100 * p.accepted:.0f} % of the steps"
        if p.wasted_target > 1.0:
            yield f"costs {1.0 + p.wasted_target:.1f}x the target tokens"
    if p.speedup.value < 1.0:
        yield "loses to plain decoding"
    elif p.speedup.low < 1.0:
        yield "may lose"


def _verdict(rows: Sequence[Row], unknown: Mapping[str, tuple[str, ...]]) -> str:
    best = rows[0].prediction
    if len(rows) == 1 and unknown:
        return "Nothing to compare with plain decoding: the profile lacks data on every requested method."
    if not best.configuration.speculates:
        return "Plain decoding wins: no method that could be evaluated within the budget is expected to be faster."
    knobs = ", ".join(
        f"{name} = {value}"
        for name, value in (("k1", best.configuration.k1), ("k2", best.configuration.k2))
        if value > 1
    )
    what = f"{rows[0].label} with {knobs}" if knobs else rows[0].label
    text = f"Use {what}: expected {best.speedup.value:.2f} times as fast as plain decoding"
    text += f", between {best.speedup.low:.2f} and {best.speedup.high:.2f} with 95 % confidence"
    return text + (", so it may lose." if best.speedup.low < 1.0 else ".")


def _assumptions(profile: Profile, rules: str) -> tuple[str, ...]:
    if profile.published is None:
        return (f"recorded answers replayed on engines fitted to the profile's timings; schedule: {rules}",)
    timed = profile.provenance.notes[-1] if profile.engines else "published figures only"
    return (
        f"{timed}; step lengths lognormal and cut at 100 tokens, log lengths of draft and target "
        "correlated 0.6, of consecutive steps 0.37; acceptance independent from step to step, drafts after a cut step "
        "counted as refused; "
        f"one answer at a time; schedule: {rules}",
    )


CLOSE = 0.01
"""Speedups nearer than this share count as equal, and the configuration that keeps less in flight wins."""

_FIRST_ROUND = 5


def fastest(predictor: Predictor, candidates: Sequence[Configuration]) -> Configuration:
    """Return the smallest of the fastest configurations, at as little simulation as settles it.

    Where the recursion without shared iterations knows the configurations, it ranks them; the cost of sharing
    iterations grows evenly with k1 and is simulated at the smallest and the largest. Others race on the same answers,
    twice as many in each round; the slower half drops out until those that are left are equally fast.
    """
    unshared = {c.name: predictor.unshared_seconds(c) for c in candidates}
    known = {name: float(seconds.sum()) for name, seconds in unshared.items() if seconds is not None}
    if len(known) == len(unshared):
        ends = sorted(candidates, key=lambda c: c.k1)[:: max(len(candidates) - 1, 1)]
        shared = [predictor.sharing(end) for end in ends] if len(candidates) > 1 else [1.0]
        depths = [end.k1 for end in ends]
        seconds = {c.name: known[c.name] * float(np.interp(c.k1, depths, shared)) for c in candidates}
    else:
        seconds = _raced(predictor, candidates)
    least = min(seconds.values())
    good = [name for name, took in seconds.items() if least >= took * (1.0 - CLOSE)]
    return min((c for c in candidates if c.name in good), key=lambda c: (c.most_sequences * c.k2, c.k1))


def _raced(predictor: Predictor, candidates: Sequence[Configuration]) -> dict[str, float]:
    """Seconds of the configurations that are left when the race is decided, on the answers that it took."""
    n, running = min(_FIRST_ROUND, predictor.n_answers), list(candidates)
    while True:
        seconds = {c.name: float(predictor.simulated(c, n).seconds.sum()) for c in running}
        running.sort(key=lambda c: seconds[c.name])
        least = seconds[running[0].name]
        level = [c for c in running if least >= seconds[c.name] * (1.0 - CLOSE)]
        if len(level) == len(running) or n == predictor.n_answers:
            return {c.name: seconds[c.name] for c in running}
        running = running[: max(len(level), len(running) // 2)]
        n = min(2 * n, predictor.n_answers)
