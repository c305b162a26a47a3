"""Why a speculating server is slow, and what moved from a profile's predictions, from its metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from calibrate.engines.http.metrics_page import metrics_url, pages
from calibrate.record.files import read_text
from sim.catalogue import choice
from specplan.api.planning import profile as profile_of
from specplan.live.drift.offline import token_drift
from specplan.live.explaining.costs import Named, Point
from specplan.live.explaining.explanation import explained, point_of
from specplan.live.explaining.names import named_round
from specplan.live.explaining.reading import Reading, read_metrics
from specplan.live.explaining.window import windows, work_of
from specplan.output import progress
from specplan.readers.formats import is_benchmark, read_benchmarks
from specplan.show.explanations import Explained
from theory.block_drafting import LAWS
from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.record.profile import Profile

__all__ = ["Explained", "Metrics", "explain"]

Metrics: TypeAlias = "str | Path"
"""Result of ``GET /metrics``: a file, or the text itself, which has several lines."""
_WHAT: Final = "Prometheus metrics"
_PARTS: Final = 12
"""Windows of a live server; it is read once more than that."""


def explain(
    sources: str | Sequence[Metrics],
    *,
    baseline: Metrics | Sequence[Metrics] = (),
    seconds: float = 60.0,
    k: int | None = None,
    chunk: int = 8192,
    drafter: str = "chain",
    adaptive: bool = False,
    target: str | None = None,
    draft: str | None = None,
    eagle: str | None = None,
    gpu: str | None = None,
    tp: int = 1,
    profile: Profile | str | Path | None = None,
    method: str | None = None,
    false_alarm: float = 0.05,
    seed: int = 0,
) -> Explained:
    r"""Explain why a speculating server is slow, and which k is best, as ``specplan explain`` does.

    >>> import specplan as sp
    >>> def metrics(answers):  # metrics of a server: 100 tokens, 40 rounds and 0.8 s for each answer
    ...     return (f'sglang:generation_tokens_total {100 * answers}\nsglang:prompt_tokens_total {50 * answers}\n'
    ...             f'sglang:num_requests_total {answers}\nsglang:spec_accept_length 2.5\n'
    ...             f'sglang:inter_token_latency_seconds_sum {0.8 * answers}\n'
    ...             f'sglang:inter_token_latency_seconds_bucket{{le="+Inf"}} {100 * answers}\n'
    ...             f'sglang:time_to_first_token_seconds_sum {0.1 * answers}\n'
    ...             f'sglang:time_to_first_token_seconds_bucket{{le="+Inf"}} {answers}\n')
    >>> explained = sp.explain([metrics(10), metrics(60)], k=4)
    >>> depth = explained.explanation.depth
    >>> depth.best.low <= depth.best.value <= depth.best.high
    True

    Parameters
    ----------
    sources : the server's URL, which is then read for ``seconds``, or readings in order of time: files, or their text.
        A single reading counts since the server's start.
    baseline : metrics of the same server without speculation or with another k, at the same load: a reading since its
        start, or two with a comma between their names; or a result file of ``vllm bench serve``. Or several.
    seconds : how long to read a live server, [1, 86400].
    k : tokens drafted per round, where the server does not report it.
    chunk : the server's ``--max-num-batched-tokens``.
    drafter : ``chain`` (MTP, EAGLE, a draft model, n-grams), whose acceptance at a position holds for every k, or
        ``dflash`` or ``dspark``, whose acceptance depends on the size of the block.
    adaptive : whether the server runs with vLLM's ``enable_adaptive_verification``: then what it counts by position is
        what its policy verified, which shows neither other k nor a worse drafter.
    target, draft, eagle, gpu, tp : names of models and their GPUs, from which the times of a round are modelled.
    profile, method : report what moved from the predictions of this profile for this token-level method.
    false_alarm : probability of reporting a move while everything is as predicted.
    seed : seed of the draws behind intervals.

    Raises
    ------
    ParameterError : too few readings, or arguments that do not belong together.
    SchemaError : readings that do not belong together, or of a server that does not speculate.
    """
    drafts = choice("drafter", drafter, ("chain", *LAWS))
    if adaptive and profile is not None:
        rule = "counts what its policy verified, which no profile predicts: leave out the profile"
        raise ParameterError("adaptive", adaptive, rule)
    if method is not None and profile is None:
        raise ParameterError("method", method, "needs a profile: it chooses a record of the profile")
    readings = _readings([sources] if isinstance(sources, str) else list(sources), seconds)
    points, plain_cache = _baselines(baseline, chunk, readings[-1].engine)
    explanation = explained(
        readings,
        baselines=points,
        named=_named(readings, target, draft, eagle, gpu, tp, drafts),
        plain_cache=plain_cache,
        k=k,
        chunk=chunk,
        drafter=drafts,
        adaptive=adaptive,
        seed=seed,
    )
    drift = None
    if profile is not None:
        parts = windows(readings) or [work_of(readings)]
        drift = token_drift(parts, profile_of(profile), method=method, false_alarm=false_alarm)
    return Explained(explanation=explanation, drift=drift)


def _readings(sources: Sequence[Metrics], seconds: float) -> list[Reading]:
    live = [source for source in sources if "://" in str(source) and not _is_text(source)]
    if live and len(sources) > 1:
        raise ParameterError("sources", str(live[0]), "must be a single URL, or files: not both")
    if not sources:
        raise ParameterError("sources", 0, "must be files in order of time, or the server's URL")
    return _watched(str(live[0]), seconds) if live else [_reading(source) for source in sources]


def _is_text(source: Metrics) -> bool:
    return "\n" in str(source)


def _reading(source: Metrics) -> Reading:
    if _is_text(source):
        return read_metrics(str(source), "metrics")
    return read_metrics(read_text(source, _WHAT), str(source))


def _watched(url: str, seconds: float) -> list[Reading]:
    """Read the metrics of a live server several times."""
    where = metrics_url(url)
    n = min(_PARTS, max(int(seconds), 1)) + 1
    with progress(f"watching {where} for {seconds:g} s", n) as report:
        every = list(pages(url, n, seconds, on_page=report))
    return [read_metrics(text, where) for text, _ in every]


def _baselines(given: Metrics | Sequence[Metrics], chunk: int, engine: str) -> tuple[list[Point], float]:
    """The rounds of baselines, and the cache tokens of the baseline without speculation; NaN where there is none."""
    points: list[Point] = []
    plain_cache = math.nan
    several = [given] if isinstance(given, (str, Path)) else list(given)
    for i, one in enumerate(several):
        if one in several[:i]:
            raise ParameterError("baseline", str(one), "is given twice: leave one out")
        paths = [one] if _is_text(one) else str(one).split(",")
        if len(paths) > 2 or not all(map(str, paths)):
            raise ParameterError("baseline", str(one), "must be a file, or two files with a comma between them")
        if len(paths) == 1 and not _is_text(one) and is_benchmark(Path(one), _WHAT):
            run = read_benchmarks(str(one))[0]
            points.append(Point(k=run.k, seconds=run.round_s, batch=max(run.concurrency, 1.0), source=run.source))
            continue
        whole = work_of([_reading(path) for path in paths])
        if whole.engine != engine or (whole.speculates and not whole.k):
            rule = f"must be metrics of {engine}, as the server's, that say how many tokens are drafted, if any are"
            raise ParameterError("baseline", whole.source, rule)
        points.append(point_of(whole, chunk))
        if whole.k == 0:
            plain_cache = whole.cache_tokens
    return points, plain_cache


def _named(
    readings: Sequence[Reading],
    target: str | None,
    draft: str | None,
    eagle: str | None,
    gpu: str | None,
    tp: int,
    drafter: str,
) -> Named | None:
    """The pass model of the round from names; None where no name is given."""
    if target is None and gpu is None:
        for name, value in (("draft", draft), ("eagle", eagle)):
            if value is not None:
                raise ParameterError(name, value, "needs target and gpu")
        return None
    if target is None or gpu is None:
        rule = "must be given too: the times of a round are modelled from target and gpu"
        raise ParameterError("target" if target is None else "gpu", None, rule)
    window, engine = work_of(readings), readings[-1].engine
    return named_round(target, draft=draft, eagle=eagle, gpu=gpu, tp=tp, window=window, engine=engine, drafter=drafter)
