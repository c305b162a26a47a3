"""A served iteration, predicted from what ran: model, formats, GPUs, sequences and their lengths."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from specplan.check.scoreboard.deployments import facts_of, precision_of, served_parallel
from specplan.check.scoreboard.doubts import served_doubt
from specplan.check.scoreboard.rows import Served, Steady
from specplan.check.scoreboard.score import Outcome
from specplan.worlds.model_files import ModelFacts
from theory.hardware.engines import engine_named, nearest_engine
from theory.hardware.gpus import gpu_named
from theory.hardware.half_widths import ITERATION, around, half_width
from theory.hardware.passes import PassModel
from theory.hardware.work import Work

__all__ = ["bucket", "iteration_of", "served_iteration", "served_outcome", "steady_outcome", "unexplained"]

_PROMPT_TOKENS: Final = {"gpqa": 250.0}
"""Mean prompt, by task; the table does not say it (its README gives these two)."""
_OTHER_PROMPT: Final = 150.0
_WIDE: Final = 0.7
"""95 % half-width of the logarithm where operators are known not to explain a server."""


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
    wide, known = unexplained(facts, model), half_width(ITERATION, model, work)
    if wide is not None:
        outcome = replace(outcome, wide=wide, interval=around(outcome.predicted, max(known, _WIDE)))
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
            "concurrency": bucket(work.sequences),
        },
        measured=measured,
        predicted=predicted,
        interval=around(predicted, half_width(ITERATION, model, work)),
    )


def unexplained(facts: ModelFacts, model: PassModel) -> str | None:
    """Return why operators are known not to explain a server, or None."""
    if facts.architecture.startswith("llama4"):
        return "Llama 4: about 200 us a layer that no operator explains"
    return None


def bucket(number: float) -> str:
    """The power of two next to a number of sequences, above one half."""
    return str(2 ** max(0, round(math.log2(number))))
