"""Why a speculating server is slow, and what moved from a profile's predictions, from its metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from calibrate.engines.http.metrics_page import metrics_url, pages
from calibrate.engines.token_vocabulary import BLOCK_DRAFTERS
from calibrate.record.files import read_text
from sim.catalogue import choice
from specplan.api.planning import profile as profile_of
from specplan.live.drift.offline import token_drift
from specplan.live.explaining.costs import Named, Point
from specplan.live.explaining.explanation import explained, point_of
from specplan.live.explaining.reading import Reading, read_metrics
from specplan.live.explaining.window import windows, work_of
from specplan.output import progress
from specplan.readers.formats import is_benchmark, read_benchmarks
from specplan.show.explanations import Explained
from specplan.worlds.drafters.finding import find_block, head_named
from specplan.worlds.measured_operators import with_operators
from specplan.worlds.model_files import ModelFacts, block_drafter, shape_of
from theory.block_drafting import LAWS
from theory.errors import ParameterError
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named
from theory.hardware.half_widths import GAIN, half_width
from theory.hardware.passes import PassModel
from theory.hardware.rounds import Round, head_round, model_round
from theory.hardware.work import Parallel, Work

if TYPE_CHECKING:
    from calibrate.record.profile import Profile

__all__ = ["Explained", "Metrics", "explain"]

Metrics: TypeAlias = "str | Path"
"""Result of ``GET /metrics``: a file, or the text itself, which has several lines."""
_WHAT: Final = "Prometheus metrics"
_CONTEXT: Final = 2048.0
"""Cached tokens of a sequence where the readings do not show them."""
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
    if not live:
        return [_reading(source) for source in sources]
    where = metrics_url(str(live[0]))
    n = min(_PARTS, max(int(seconds), 1)) + 1
    with progress(f"watching {where} for {seconds:g} s", n) as report:
        every = list(pages(str(live[0]), n, seconds, on_page=report))
    return [read_metrics(text, where) for text in every]


def _is_text(source: Metrics) -> bool:
    return "\n" in str(source)


def _reading(source: Metrics) -> Reading:
    if _is_text(source):
        return read_metrics(str(source), "metrics")
    return read_metrics(read_text(source, _WHAT), str(source))


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
    """The pass model of a round at the batch and context of the readings; None where no name is given."""
    if target is None and gpu is None:
        for name, value in (("draft", draft), ("eagle", eagle)):
            if value is not None:
                raise ParameterError(name, value, "needs target and gpu")
        return None
    if target is None or gpu is None:
        rule = "must be given too: the times of a round are modelled from target and gpu"
        raise ParameterError("target" if target is None else "gpu", None, rule)
    window = work_of(readings)
    if window.engine == "llamacpp":
        raise ParameterError("target", target, "must be left out: the times of llama.cpp are not modelled")
    if draft is not None and eagle is not None:
        raise ParameterError("eagle", eagle, "must not be given with --draft: one of them drafts")
    facts = shape_of(target)
    if tp < 1 or any(layer.attention.heads % tp for layer in facts.shape.layers):
        raise ParameterError("tp", tp, f"must divide the attention heads of {target}")
    fitted = PassModel(
        gpu=gpu_named(gpu),
        shape=facts.shape,
        precision=facts.precision,
        parallel=Parallel(tp=tp),
        engine=engine_named(window.engine),
    )
    passes, _ = with_operators(fitted)
    context = window.prompt_tokens + window.answer_tokens / 2.0
    return Named(
        rounds=_round(passes, facts, draft, eagle, drafter),
        batch=window.batch,
        context=context if math.isfinite(context) else _CONTEXT,
        half_width=half_width(GAIN, passes, Work(sequences=window.batch)),
    )


def _round(target: PassModel, known: ModelFacts, draft: str | None, eagle: str | None, drafter: str) -> Round:
    """Rounds of the drafter; a head and a block drafter have the usual size where none is named or published."""
    if drafter != "chain":
        method = next(one for one in BLOCK_DRAFTERS if one == drafter)
        block = find_block(known, (method,), draft or "").facts
        if block is None:
            block = block_drafter(known, method) if draft is None else shape_of(draft)
        return head_round(target, block.shape, "block-drafter")
    if eagle is not None:
        return head_round(target, head_named(eagle, known).shape)
    if draft is None:
        return Round(target=target, method="prompt-lookup")
    facts = shape_of(draft)
    return model_round(target, facts.shape, facts.precision)
