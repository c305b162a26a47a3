"""Rows of servers: a served iteration, and times per output token and to first token under load, from what ran."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from specplan.check.scoreboard.deployments import (
    facts_of,
    loaded_parallel,
    precision_of,
    served_parallel,
    with_engines_cache,
)
from specplan.check.scoreboard.doubts import doubts_of_loaded, in_flight, served_doubt, server_of, twins
from specplan.check.scoreboard.rows import Loaded, Served, Steady
from specplan.check.scoreboard.score import Choice, Outcome
from specplan.worlds.model_files import ModelFacts
from theory.errors import SpecplanError
from theory.hardware.engines import BLACKWELL, engine_named, is_priced, nearest_engine
from theory.hardware.gpus import gpu_named
from theory.hardware.half_widths import FIRST_TOKEN, ITERATION, TIME_PER_TOKEN, around, half_width
from theory.hardware.loads import ClosedLoop, closed_loop
from theory.hardware.passes import PassModel
from theory.hardware.work import Work

__all__ = [
    "engine_notes",
    "iteration_of",
    "loaded_outcomes",
    "loop_of",
    "model_of",
    "rate_of",
    "served_iteration",
    "served_outcome",
    "steady_outcome",
    "unexplained",
]

_PROMPT_TOKENS: Final = {"gpqa": 250.0}
"""Mean prompt, by task; the table does not say it (its README gives these two)."""
_OTHER_PROMPT: Final = 150.0
_WIDE: Final = 0.7
"""95 % half-width of the logarithm where operators are known not to explain a server."""
_DRAWN: Final = 0.9
"""Mean length over the length named: InferenceX draws lengths evenly from 80 to 100 % of it."""
_FEW_LOOKS, _LOOKS, _LOADED = 10.0, 30.0, 16.0
"""Iterations of SGLang between looks for new requests in InferenceX's scripts of B200, up to and from a concurrency."""
_DRAWN_LENGTHS: Final = frozenset({(1024.0, 1024.0), (1024.0, 8192.0), (8192.0, 1024.0)})
"""Prompt and answer tokens of the runs of InferenceX; the other runs fix them."""


def served_iteration(row: Served) -> tuple[ModelFacts, PassModel, Work]:
    """Return what a row of the ML.ENERGY table ran: a model on GPUs, and the work of an iteration.

    Raises
    ------
    SpecplanError : a model, GPU, format or split that is not known.
    """
    facts = facts_of(row.model_id)
    model = PassModel(
        gpu=gpu_named(row.gpu),
        shape=facts.shape,
        precision=precision_of(facts, row.weight_precision),
        parallel=served_parallel(row),
        engine=engine_named("vllm", "0.11.1"),  # which served the ML.ENERGY Benchmark v3
    )
    context = row.mean_pos_len_biased + _PROMPT_TOKENS.get(row.task, _OTHER_PROMPT)
    return facts, model, Work(sequences=row.avg_batch, context=context)


def served_outcome(row: Served) -> list[Outcome]:
    """Predict a row of the ML.ENERGY table.

    Raises
    ------
    SpecplanError : as `served_iteration`.
    """
    facts, model, work = served_iteration(row)
    outcome = _iteration(row.where, facts.name, row.gpu, row.weight_precision, row.median_itl_ms, model, work)
    if (wide := unexplained(facts)) is not None:
        known = max(half_width(ITERATION, model, work), _WIDE)
        outcome = replace(outcome, wide=wide, interval=around(outcome.predicted, known))
    return [replace(outcome, doubt=served_doubt(row))]


def iteration_of(row: Steady) -> tuple[PassModel, Work]:
    """Return what a row of single iterations ran: a model on one GPU as published, and the work of an iteration.

    Raises
    ------
    SpecplanError : a model, GPU or engine that is not known.
    """
    facts = facts_of(row.model)
    name, _, version = row.engine.partition(" ")
    model = PassModel(
        gpu=gpu_named(row.gpu), shape=facts.shape, precision=facts.precision, engine=nearest_engine(name, version)
    )
    return model, Work(sequences=row.sequences, context=row.context_tokens)


def steady_outcome(row: Steady) -> list[Outcome]:
    """Predict a row of single iterations.

    Raises
    ------
    SpecplanError : as `iteration_of`.
    """
    model, work = iteration_of(row)
    return [_iteration(row.where, row.model, row.gpu, model.precision.weights, row.iteration_ms, model, work)]


def _iteration(
    where: str, name: str, gpu: str, precision: str, measured: float, model: PassModel, work: Work
) -> Outcome:
    """The predicted and the measured time of an iteration, ms."""
    predicted = 1e3 * model.seconds(work)
    return Outcome(
        where=where,
        quantity="time per iteration",
        unit="ms",
        model=name,
        labels={
            "GPU": f"{gpu.upper()}, {'experts' if model.shape.has_experts else 'dense'}",
            "GPUs": str(model.parallel.gpus),
            "precision": precision,
            "concurrency": _bucket(work.sequences),
        },
        measured=measured,
        predicted=predicted,
        interval=around(predicted, half_width(ITERATION, model, work)),
    )


def unexplained(facts: ModelFacts) -> str | None:
    """Return why operators are known not to explain a server, or None."""
    llama_4 = facts.architecture.startswith("llama4")
    return "Llama 4: about 200 us a layer that no operator explains" if llama_4 else None


def model_of(row: Loaded) -> PassModel:
    """What was deployed.

    Raises
    ------
    SpecplanError : a model, GPU, format or engine that is not known.
    """
    facts, gpu = facts_of(row.model_path), gpu_named(row.system)
    engine = nearest_engine(row.backend, row.backend_version)
    precision = precision_of(facts, row.gemm_quant_mode or row.precision, row.moe_quant_mode)
    return PassModel(
        gpu=gpu,
        shape=facts.shape,
        precision=with_engines_cache(precision, facts, engine.name, gpu.name),
        parallel=loaded_parallel(row),
        engine=engine,
    )


def loop_of(row: Loaded) -> ClosedLoop:
    """The requests of a row."""
    is_drawn = (row.isl, row.osl) in _DRAWN_LENGTHS
    drawn = _DRAWN if is_drawn else 1.0
    seldom = is_drawn and row.backend == "sglang" and gpu_named(row.system).name in BLACKWELL
    return ClosedLoop(
        concurrency=in_flight(row),
        prompt_tokens=drawn * row.isl,
        answer_tokens=drawn * row.osl,
        looks=1.0 if not seldom else _FEW_LOOKS if in_flight(row) < _LOADED else _LOOKS,
    )


def rate_of(row: Loaded) -> float | None:
    """Share of the data sheet's arithmetic that all prompts and answers of a row take; None of unknown models."""
    try:
        model = model_of(row)
    except SpecplanError:
        return None
    cycle = 1e-3 * (row.ttft_ms + row.osl * row.tpot_ms)
    tokens = in_flight(row) * (row.isl + row.osl) / cycle / model.parallel.gpus
    precision = model.precision
    of = precision.expert_format if model.shape.has_experts else precision.weight_format
    weights = model.shape.active_parameters - model.shape.embeddings
    return 2.0 * weights * tokens / model.gpu.sheet.rate(of.arithmetic)


def loaded_outcomes(rows: Iterable[Loaded]) -> Callable[[Loaded], list[Outcome]]:
    """Return what predicts a row: time per output token and to first token; all rows show which to trust.

    The function raises a SpecplanError as `model_of`, and of a row that repeats another one's measurement.
    """
    rows = tuple(rows)
    repeated, doubts = twins(rows), doubts_of_loaded(rows, rate_of)

    def outcomes(row: Loaded) -> list[Outcome]:
        if row.where in repeated:
            raise SpecplanError("repeats the measurement of another row")
        model = model_of(row)
        times = closed_loop(model, loop_of(row))
        first = Outcome(
            where=row.where,
            quantity="time to first token",
            unit="ms",
            model=row.model_path,
            labels={
                "GPU": model.gpu.name.removeprefix("NVIDIA "),
                "GPUs": str(model.parallel.gpus),
                "precision": row.precision or "as published",
                "engine": f"{row.backend} {row.backend_version}".rstrip(),
                "prompt and answer": f"{row.isl:.0f} and {row.osl:.0f}",
                "concurrency": _bucket(in_flight(row)),
            },
            measured=row.ttft_ms,
            predicted=1e3 * times.to_first_token,
            interval=around(1e3 * times.to_first_token, half_width(FIRST_TOKEN, model)),
            doubt=doubts.get(row.where),
        )
        per_token = replace(
            first,
            quantity="time per output token",
            measured=row.tpot_ms,
            predicted=1e3 * times.per_token,
            interval=around(1e3 * times.per_token, half_width(TIME_PER_TOKEN, model)),
            choices=_choices(row, model, 1e3 * times.per_token),
        )
        return [per_token, first]

    return outcomes


def engine_notes(rows: Iterable[Loaded]) -> Iterator[str]:
    """Yield the engines of rows whose version is not said or not priced, and what is taken for it."""
    for name, version in sorted({(row.backend, row.backend_version) for row in rows}):
        try:
            taken = nearest_engine(name, version).version
        except SpecplanError:  # the rows are refused
            continue
        if not version:
            yield f"{name} without a version is taken for {taken}, the latest that is priced"
        elif not is_priced(name, version):
            yield f"{name} {version} is not priced, and taken for {taken}"


def _choices(row: Loaded, model: PassModel, predicted: float) -> tuple[Choice, ...]:
    """The GPUs as a choice: for the least time at a concurrency, and at equal load on the same number of GPUs."""
    alike = (*server_of(row), f"{row.isl:.0f}", f"{row.osl:.0f}")
    parallel = model.parallel
    option = f"tp={parallel.tp} dp={parallel.dp} ep={parallel.ep}"
    share = math.floor(in_flight(row) / parallel.gpus * 1000.0) / 1000.0
    return tuple(
        Choice(goal=goal, alike=(*alike, kept), option=option, measured=1.0 / row.tpot_ms, predicted=1.0 / predicted)
        for goal, kept in (
            ("the GPUs of a copy for the least time per output token", f"{in_flight(row):g} requests"),
            ("GPUs per copy against more copies, at equal requests per GPU", f"{share:g} requests per GPU"),
        )
    )


def _bucket(number: float) -> str:
    """The power of two next to a number of sequences, above one half."""
    return str(2 ** max(0, round(math.log2(number))))
