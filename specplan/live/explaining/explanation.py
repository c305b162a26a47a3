"""An explanation from readings: time and tokens of a round, where an answer's time goes, the best k, what to change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sim.estimate import Estimate
from specplan.live.explaining.causes import AnswerTime, Cause, answer_time, causes
from specplan.live.explaining.costs import DRAWS, Costs, Named, Point, costs
from specplan.live.explaining.depth import Depth, best_depth, percentiles
from specplan.live.explaining.reading import Reading
from specplan.live.explaining.rounds import CHUNK, RoundTime, round_time
from specplan.live.explaining.tokens import Acceptance, acceptance
from specplan.live.explaining.window import Window, spanned, windows, work_of
from theory.errors import ParameterError, SchemaError

__all__ = ["Explanation", "explained", "point_of"]

_BEYOND: Final = 2
"""The next k to run is at most this many times the counted positions."""
_LEAST_BEYOND: Final = 8
_MOST: Final = 64
"""Largest k that is considered, unless the server drafts more."""
_PRECISE: Final = 0.02
"""Relative half-width of the tokens of a round that distinguishes neighbouring k: their errors are mostly common."""
_LEAST_REQUESTS: Final = 20
_POLICY_NOTE: Final = (
    "adaptive verification: acceptance by position is that of what the engine verified, lower than the drafter's (by 2 "
    "to 35 % at a published server); it chooses at each round: leave num_speculative_tokens at the size of the block"
)
_ALIKE: Final = 0.2
"""Relative difference in batch or prompts up to which a baseline's load is the same."""
_RUN: Final = 0.02
"""Half-width of the relative difference between two runs of one server at one load: an assumption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What the counters of a speculating server show."""

    window: Window
    k: int
    acceptance: Acceptance
    committed: Estimate
    """Tokens that a round commits."""
    time: RoundTime
    answer: AnswerTime
    verification: Estimate | None
    """Seconds of a round; None if not even a bound is known."""
    drafting: Estimate | None
    depth: Depth | None
    """None where acceptance by position is unknown, or that of the engine's policy instead of the drafter's."""
    over_plain: Estimate | None
    """Tokens per second over those without speculation, [-]; None where nothing tells."""
    way: str
    """Source of the times at other k: ``window``, ``baseline``, ``names``, ``both`` or ``none``."""
    causes: tuple[Cause, ...]
    cache_lost: float
    """Share of the baseline's cache that speculation took, in [0, 1]; NaN without a baseline that reports its cache."""
    requests: int
    """Answers that a further measurement needs to know the tokens of a round to `_PRECISE`."""
    missing: tuple[str, ...]
    """Measurements that would narrow the intervals."""
    unlike: str
    """How the load of a baseline differs, so that it tells little; empty where none does."""
    renamed: str
    """Under which name a baseline serves its model, if that is another name than this server's; else empty."""
    notes: tuple[str, ...]


def explained(
    readings: Sequence[Reading],
    *,
    baselines: Sequence[Point] = (),
    named: Named | None = None,
    plain_cache: float = math.nan,
    k: int | None = None,
    chunk: int = CHUNK,
    drafter: str = "chain",
    adaptive: bool = False,
    seed: int = 0,
) -> Explanation:
    """Explain what a server did between readings.

    Parameters
    ----------
    readings : in order of time; with six or more, errors come from the spread between windows. A single one counts
        since the server's start.
    baselines : rounds of servers without speculation or with another k, at the same load.
    named : pass model of the round, made from names of models and a GPU.
    plain_cache : tokens in the cache of a server without speculation; NaN: unknown.
    k, chunk, drafter, adaptive, seed : as of `specplan.api.explaining.explain`.

    Raises
    ------
    SchemaError : readings that do not belong together, or of a server that does not speculate.
    ParameterError : a k that contradicts the counters.
    """
    whole = work_of(readings)
    if not readings[-1].speculates:
        rule = "it does not speculate: give the metrics of a server that drafts, and this one as --baseline"
        raise SchemaError(f"{readings[-1].source}: {rule}")
    if whole.spec is not None and whole.spec.drafts == 0:
        raise SchemaError(f"{whole.source}: nothing was drafted between the readings: is speculation switched off?")
    if k is not None and not 1 <= k <= _MOST:
        raise ParameterError("k", k, f"must be an integer in [1, {_MOST}]")
    if whole.k and k is not None and k != whole.k:
        raise ParameterError("k", k, f"must be {whole.k}, the positions that the server counts, or be left out")
    now = whole.k or k or 0
    parts = windows(readings)  # the window of all readings was checked
    deeper = [point.spec for point in baselines if point.spec is not None]
    accepted = acceptance(whole, parts, now, deeper, drafter=drafter)
    time = round_time(whole, chunk)
    committed = _committed(whole, accepted, now)
    depth, cost = None, None
    if now and accepted.k:
        plain = next((point.answer_s for point in baselines if point.k == 0), None)
        own = _answer_s(whole, math.hypot(time.whole.relative_half_width, committed.relative_half_width))
        measured = None if plain is None or own is None else (plain, own)
        depth, cost = _best(whole, now, accepted, time, baselines, named, measured, seed)
    over_plain = None if depth is None else depth.over_plain
    if adaptive:  # tokens that were not verified count as refused: nothing tells what other k would commit
        depth, accepted = None, replace(accepted, notes=(*accepted.notes, _POLICY_NOTE))
    cache_lost = 1.0 - whole.cache_tokens / plain_cache
    verification = drafting = None
    way, assumed = ("none", ()) if cost is None else (cost.way, cost.notes)
    if cost is not None:
        drafts = np.minimum(cost.drafting * now, cost.seconds[:, now])
        verification = percentiles(cost.seconds[:, now] - drafts, seed, "s")
        drafting = percentiles(drafts, seed, "s")
    return Explanation(
        window=whole,
        k=now,
        acceptance=accepted,
        committed=committed,
        time=time,
        answer=answer_time(whole),
        verification=verification,
        drafting=drafting,
        depth=depth,
        over_plain=over_plain,
        way=way,
        causes=causes(whole, accepted, time, depth, split=way not in ("none", "window"), cache_lost=cache_lost),
        cache_lost=cache_lost,
        requests=max(math.ceil(whole.answers * (committed.relative_half_width / _PRECISE) ** 2), _LEAST_REQUESTS),
        missing=tuple(_missing(whole, way, assumed, readings)),
        unlike=_unlike(whole, baselines),
        renamed=_renamed(whole, baselines),
        notes=tuple(dict.fromkeys((*_notes(whole, accepted, time, depth), *assumed))),
    )


def point_of(baseline: Window, chunk: int = CHUNK) -> Point:
    """Return the measured round of a baseline's window."""
    time = round_time(baseline, chunk)
    return Point(
        k=baseline.k,
        seconds=time.work,
        batch=baseline.batch,
        source=baseline.source,
        spec=baseline.spec,
        answer_s=_answer_s(baseline, time.whole.relative_half_width),
        prompt=baseline.prompt_tokens,
        models=baseline.models,
    )


def _unlike(whole: Window, baselines: Sequence[Point]) -> str:
    for point in baselines:
        for had, has, what in (
            (round(point.batch, 1), round(whole.batch, 1), "sequences in a pass"),
            (round(point.prompt, 0), round(whole.prompt_tokens, 0), "tokens in a prompt"),
        ):
            if abs(had - has) > _ALIKE * has:
                return f"{point.source} had {had:g} {what}, this server {has:g}: measure it at the same load"
    return ""


def _renamed(whole: Window, baselines: Sequence[Point]) -> str:
    for point in baselines:
        if point.models and whole.models and point.models != whole.models:
            return f"it serves {', '.join(sorted(point.models))}, this server {', '.join(sorted(whole.models))}"
    return ""


def _answer_s(whole: Window, relative_half_width: float) -> Estimate | None:
    """Seconds of an answer for a token of it; None where they are not reported."""
    value = whole.answer_s
    if not value > 0.0:
        return None
    half = value * math.hypot(relative_half_width, _RUN)
    how = "times to first tokens and between tokens over tokens; error of rounds, and between runs"
    return spanned((max(value - half, 0.0), value, value + half), half / 1.96, whole.answers, how, unit="s")


def _best(
    whole: Window,
    now: int,
    accepted: Acceptance,
    time: RoundTime,
    baselines: Sequence[Point],
    named: Named | None,
    measured: tuple[Estimate, Estimate] | None,
    seed: int,
) -> tuple[Depth, Costs]:
    """The best k; ``measured``: seconds of an answer for a token of it, without speculation and now, where reported."""
    farthest = max(_BEYOND * accepted.known, accepted.known + _LEAST_BEYOND)  # largest k that may be run next
    most = max(min(2 * farthest, _MOST), accepted.known)  # a better k beyond it counts as missed
    block, share = accepted.law is not None, min(whole.drafted / now, 1.0) if whole.k else 1.0
    cost = costs(now, time.work, whole.batch, baselines, named, most, seed, block=block, share=share)
    committed = accepted.draws(DRAWS, most, np.random.default_rng([seed, 1]))
    if measured is not None:  # whole answers were compared: believed before what rounds say of plain decoding
        rng = np.random.default_rng([seed, 3])
        plain, speculating = (rng.normal(one.value, one.stderr, DRAWS) for one in measured)
        rounds = cost.seconds[:, now] / committed[:, now] * np.maximum(plain / speculating, 1e-9)
        cost = replace(cost, seconds=np.column_stack((rounds, cost.seconds[:, 1:])))
    return best_depth(now, committed, cost, seed, known=accepted.known, farthest=farthest), cost


def _committed(whole: Window, accepted: Acceptance, now: int) -> Estimate:
    """Tokens that a round commits, with the error of the sum over positions."""
    value = whole.committed
    rounds = max(whole.rounds, 1.0)
    u = np.array([estimate.value for estimate in accepted.by_position])
    moment = float((2.0 * np.arange(u.size) + 1.0) @ u)  # E[n^2] of accepted tokens n
    variance = max(moment - float(u.sum()) ** 2, 0.0)
    stderr = math.sqrt(variance * accepted.design_effect / rounds)
    high = min(value + 1.96 * stderr, now + 1.0) if now else value + 1.96 * stderr
    how = f"tokens after the first over rounds; design effect {accepted.design_effect:.3g}"
    return spanned((max(value - 1.96 * stderr, 1.0), value, high), stderr, rounds, how, unit="tokens")


def _notes(whole: Window, accepted: Acceptance, time: RoundTime, depth: Depth | None) -> Iterator[str]:
    """Assumptions besides those of the costs."""
    yield from (*accepted.notes, *time.notes)
    if len(whole.histograms["gaps"].bounds) < 2:
        yield "this server times no single rounds: their deviation is taken to be as large as their mean"
    if whole.n_cold:
        yield f"{whole.n_cold:.0f} of {whole.answers:.0f} prefills are left out as cold starts: 10 medians or longer"
    if depth is not None and depth.best.value > accepted.known:
        yield f"acceptance beyond position {accepted.known} is extrapolated from the positions before it"


def _missing(whole: Window, way: str, notes: Sequence[str], readings: Sequence[Reading]) -> Iterator[str]:
    """What to measure, the most informative first."""
    if way == "none" and whole.engine == "sglang":
        yield "--k: tokens drafted per round (its --speculative-num-steps), which SGLang does not report"
    if way in ("window", "names"):
        yield "--baseline: the metrics of the same server without speculation, at the same load: the plain round"
    if way in ("window", "baseline"):
        yield "--target, --draft or --eagle, and --gpu: the split of a round into verification and drafting"
    if way == "baseline" and "another k" in " ".join(notes):
        yield "a second --baseline with another k: the part of a round that grows with k"
    if len(readings) < 6 and whole.spec is not None:
        yield "more readings (six files, or the server's URL): the spread between answers instead of an assumed one"
