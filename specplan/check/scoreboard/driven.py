"""A server under a constant number of requests: throughput, iterations or rounds, and what drafts gain, by concurrency.

Throughput comes from the closed-loop identity, requests in flight over the mean time of an answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from specplan.check.scoreboard.deployments import facts_of, precision_of
from specplan.check.scoreboard.rows import Driven
from specplan.check.scoreboard.score import Choice, Outcome
from specplan.worlds.model_files import ModelFacts, draft_head
from theory.errors import ParameterError
from theory.hardware.engines import nearest_engine
from theory.hardware.gpus import gpu_named
from theory.hardware.half_widths import GAIN, ROUND, THROUGHPUT, around, half_width
from theory.hardware.loads import ClosedLoop, Drafted, LoopTimes, closed_loop
from theory.hardware.passes import PassModel
from theory.hardware.rounds import head_round
from theory.hardware.work import Work

__all__ = ["deployed", "driven_outcomes", "loop_of", "loop_times", "plain_rows", "prompt_tokens", "throughput"]

_PROMPT_TOKENS: Final = {"gsm8k": 600.0, "humaneval": 190.0}
"""Mean prompt by workload, where tables do not say it: of gsm8k with few shots, from what prompts take of decoding (450
to 650 tokens on A100)."""
_OTHER_PROMPT: Final = 200.0
_HEADS: Final = ("eagle3", "eagle", "mtp")
_GOAL: Final = "how many drafts or none, acceptance lengths known,"


def prompt_tokens(row: Driven) -> float:
    """Return the mean prompt that a row is taken to have."""
    return _PROMPT_TOKENS.get(row.workload.lower(), _OTHER_PROMPT)


def deployed(row: Driven) -> tuple[ModelFacts, PassModel]:
    """Return the target of a row, and its passes.

    Raises
    ------
    SpecplanError : a model, GPU, format or engine that is not known.
    """
    facts = facts_of(row.target)
    name, _, version = row.engine.partition(" ")
    precision = precision_of(facts, row.weights)
    cache = "fp8" if "fp8" in row.kv_cache.lower() else "bf16"
    return facts, PassModel(
        gpu=gpu_named(row.gpu), shape=facts.shape, precision=replace(precision, cache=cache),
        engine=nearest_engine(name, version),
    )  # fmt: skip


def loop_of(row: Driven) -> ClosedLoop:
    """Return the requests of a row."""
    return ClosedLoop(
        concurrency=row.concurrency, prompt_tokens=prompt_tokens(row), answer_tokens=max(row.answer_tokens, 1.0)
    )


def loop_times(row: Driven, facts: ModelFacts, model: PassModel) -> LoopTimes:
    """Return the mean times of a row's requests, acceptance known.

    Raises
    ------
    ParameterError : drafts by a method that is not a head.
    """
    loop = loop_of(row)
    if not row.drafts:
        return closed_loop(model, loop)
    method = row.method.lower().replace("-", "")
    if method not in _HEADS:
        raise ParameterError("method", row.method, f"is not predicted by load; must be none or {', '.join(_HEADS)}")
    rounds = head_round(model, draft_head(facts, method).shape)
    k = row.num_speculative_tokens + 1.0
    return closed_loop(model, loop, Drafted(rounds=rounds, k=k, tokens=min(row.acceptance_length, k)))


def plain_rows(rows: Iterable[Driven]) -> dict[str, Driven]:
    """Return ``where`` of each speculating row -> the plain row of the same server under the same load."""
    rows = tuple(rows)
    plain = {_server(row): row for row in rows if not row.drafts}
    return {row.where: plain[_server(row)] for row in rows if row.drafts and _server(row) in plain}


def driven_outcomes(row: Driven, plain: Driven | None) -> list[Outcome]:
    """Predict a row: throughput, median time between outputs, and the gain over the plain row that is like it, if any.

    Raises
    ------
    SpecplanError : as `deployed` and `loop_times`.
    """
    facts, model = deployed(row)
    times = loop_times(row, facts, model)
    speed = throughput(row, times)
    between = 1e3 * times.decoding * row.acceptance_length
    outcomes = [
        _outcome(row, model, "throughput under load", "tokens/s", row.throughput_tok_s, speed, THROUGHPUT),
        _outcome(row, model, "time between outputs", "ms", row.itl_p50_ms, between, ROUND),
    ]
    if plain is None:
        return outcomes
    measured = row.throughput_tok_s / plain.throughput_tok_s
    gain = speed / throughput(plain, loop_times(plain, facts, model))
    options = ((f"{row.method} k={row.num_speculative_tokens}", measured, gain), ("none", 1.0, 1.0))
    alike = tuple(map(str, _server(row)))
    choices = tuple(
        Choice(goal=_GOAL, alike=alike, option=option, measured=worth, predicted=predicted)
        for option, worth, predicted in options
    )
    return [*outcomes, replace(_outcome(row, model, "gain under load", "", measured, gain, GAIN), choices=choices)]


def throughput(row: Driven, times: LoopTimes) -> float:
    """Return requests in flight over the mean time of an answer, in tokens: tokens/s."""
    return row.concurrency * row.answer_tokens / times.answer(row.answer_tokens)


def _outcome(
    row: Driven, model: PassModel, quantity: str, unit: str, measured: float, predicted: float, kind: str
) -> Outcome:
    return Outcome(
        where=row.where,
        quantity=quantity,
        unit=unit,
        model=row.target,
        labels={
            "GPU": model.gpu.name.removeprefix("NVIDIA "),
            "cache": model.precision.cache,
            "weights": model.precision.weights,
            "method": row.method,
            "concurrency": f"{row.concurrency:g}",
        },
        measured=measured,
        predicted=predicted,
        interval=around(predicted, half_width(kind, model, Work(sequences=row.concurrency))),
    )


def _server(row: Driven) -> tuple[object, ...]:
    return row.gpu, row.engine, row.target, row.weights, row.kv_cache, row.workload, row.concurrency
