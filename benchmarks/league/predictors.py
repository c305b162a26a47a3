"""Predictors of a measured row: from what was deployed to the quantities of the scoreboard.

Every predictor gives the same quantities of the same deployment, by the functions that the scoreboard itself uses
(`specplan.check.scoreboard`), so that predictors differ in nothing but what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.league.aiconfigurator import fastest_iteration, fastest_load
from benchmarks.league.data_sheet import at_data_sheet
from specplan.check.scoreboard import driven, served, speculated
from specplan.check.scoreboard.deployments import facts_of
from specplan.check.scoreboard.rows import Driven, Loaded, Measured, Served, Speculated, Steady
from specplan.worlds.measured_operators import with_operators
from specplan.worlds.model_files import ModelFacts
from theory.errors import ParameterError
from theory.hardware.gpus import unmeasured
from theory.hardware.loads import closed_loop
from theory.hardware.passes import PassModel
from theory.hardware.rounds import head_round
from theory.hardware.shapes import LatentAttention, Shape

__all__ = ["LEFT_OUT", "PREDICTORS", "TABLES", "Predictor", "deployment_of", "family_of"]

Predictions = Mapping[str, float]
"""Quantity of the scoreboard to its value, in its unit."""
_SMALL: Final = 4e9  # parameters of a dense model


@dataclass(frozen=True, slots=True)
class Predictor:
    """One of those that are compared."""

    name: str
    how: str
    """How it was run, a sentence or two."""
    predict: Callable[[Measured, Driven | None], Predictions]
    """Predictions of a row, with the plain row that a speculating one is compared with; raises SpecplanError."""


def deployment_of(row: Measured) -> tuple[ModelFacts, PassModel]:
    """Return what a row ran: a model, and its passes by the constants of its GPU.

    Raises
    ------
    SpecplanError : a model, GPU, format, split or engine that is not known.
    """
    match row:
        case Served():
            facts, passes, _ = served.served_iteration(row)
            return facts, passes
        case Steady():
            return facts_of(row.model), served.iteration_of(row)[0]
        case Loaded():
            return facts_of(row.model_path), served.model_of(row)
        case Speculated():
            facts, round_ = speculated.deployed(row.target, row.draft)
            return facts, round_.target
        case Driven():
            return driven.deployed(row)
    raise ParameterError("row", row.where, "tells nothing of a deployment")


def family_of(shape: Shape) -> str:
    """Return the family of a model: latent attention, experts (MoE), dense, or dense and small (under 4 billion)."""
    if any(isinstance(group.attention, LatentAttention) for group in shape.layers):
        return "latent"
    if shape.has_experts:
        return "MoE"
    return "small" if shape.parameters < _SMALL else "dense"


def _by_passes(serve: Callable[[PassModel], PassModel]) -> Callable[[Measured, Driven | None], Predictions]:
    """Predictions by passes that something serves."""

    def predict(row: Measured, plain: Driven | None) -> Predictions:
        facts, passes = deployment_of(row)
        passes = serve(passes)
        match row:
            case Served():
                return {"time per iteration": 1e3 * passes.seconds(served.served_iteration(row)[2])}
            case Steady():
                return {"time per iteration": 1e3 * passes.seconds(served.iteration_of(row)[1])}
            case Loaded():
                times = closed_loop(passes, served.loop_of(row))
                return _loaded(times.per_token, times.to_first_token)
            case Speculated():
                _, round_ = speculated.deployed(row.target, row.draft)
                assert round_.draft is not None
                return {"speedup": speculated.speedup(head_round(passes, round_.draft.shape), row)}
            case Driven():
                times = driven.loop_times(row, facts, passes)
                speed = driven.throughput(row, times)
                values = _driven(speed, times.decoding * row.acceptance_length)
                if plain is not None:
                    values["gain under load"] = speed / driven.throughput(
                        plain, driven.loop_times(plain, facts, passes)
                    )
                return values
        raise ParameterError("row", row.where, "is of no deployment")

    return predict


def _loaded(per_token_s: float, to_first_token_s: float) -> dict[str, float]:
    return {"time per output token": 1e3 * per_token_s, "time to first token": 1e3 * to_first_token_s}


def _driven(tokens_per_s: float, between_s: float) -> dict[str, float]:
    return {"throughput under load": tokens_per_s, "time between outputs": 1e3 * between_s}


def _by_tables(passes: PassModel) -> PassModel:
    served, note = with_operators(passes, "measured")
    if served.measured is None:
        raise ParameterError("operators", passes.gpu.name, f"have no tables for all of it: {note}")
    return served


def _by_length(row: Measured, plain: Driven | None) -> Predictions:
    """A round takes as long as an iteration: the speedup is the acceptance length."""
    if isinstance(row, Speculated):
        return {"speedup": row.accept_length}
    return {"gain under load": row.acceptance_length} if isinstance(row, Driven) and plain is not None else {}


def _by_peer(row: Measured, plain: Driven | None) -> Predictions:
    """What the package aiconfigurator-core says by itself; nothing of drafts that form a tree."""
    facts, passes = deployment_of(row)
    match row:
        case Served():
            work = served.served_iteration(row)[2]
            sequences = work.sequences / passes.parallel.dp
            seconds = fastest_iteration(row.model_id, facts, passes, sequences, work.context)
            return {"time per iteration": 1e3 * seconds}
        case Steady():
            seconds = fastest_iteration(row.model, facts, passes, row.sequences, row.context_tokens)
            return {"time per iteration": 1e3 * seconds}
        case Loaded():
            priced = fastest_load(row.model_path, facts, passes, served.loop_of(row))
            return _loaded(priced.per_token_s, priced.to_first_token_s)
        case Speculated() if row.topk == 1:
            given = row.target, facts, passes, float(row.batch), speculated.CONTEXT
            rounds = fastest_iteration(*given, row.num_draft_tokens - 1) / row.accept_length
            return {"speedup": fastest_iteration(*given) / rounds}
        case Driven():
            return _driven_by_peer(row, plain, facts, passes)
    return {}


def _driven_by_peer(row: Driven, plain: Driven | None, facts: ModelFacts, passes: PassModel) -> Predictions:
    drafted = row.num_speculative_tokens if row.drafts else 0
    length = min(row.acceptance_length, drafted + 1.0)
    priced = fastest_load(row.target, facts, passes, driven.loop_of(row), drafted, length)
    values = _driven(priced.tokens_per_s, priced.per_token_s * length)
    if plain is not None:
        before = fastest_load(row.target, facts, passes, driven.loop_of(plain))
        values["gain under load"] = priced.tokens_per_s / before.tokens_per_s
    return values


LEFT_OUT: Final = "GPU left out"
TABLES: Final = "measured operators"
PREDICTORS: Final = (
    Predictor(
        "specplan",
        "`plan --target`'s passes and rounds, with the constants of the GPU and the engine.",
        _by_passes(lambda passes: passes),
    ),
    Predictor(
        LEFT_OUT,
        "The same with the GPU's constants scaled from another one's by the data sheets, as if nobody had measured it: "
        "the H100's, for the H100 the H200's.",
        _by_passes(lambda passes: replace(passes, gpu=unmeasured(passes.gpu))),
    ),
    Predictor(
        TABLES,
        "The same with operators from the tables of `aiconfigurator-core` 0.12.0 (`--operators measured`), where these "
        "hold all of a model's.",
        _by_passes(_by_tables),
    ),
    Predictor(
        "aiconfigurator-core",
        "The package 0.12.0 by itself: its compiled engine for iterations, its `run_agg` for loads, EAGLE-3 chains as "
        "its multi-token prediction; its current tables of the engine (vLLM 0.24.0, SGLang 0.5.14, "
        "TensorRT-LLM 1.3.0rc20), with what it fills up itself (HYBRID), the fastest of its kernels for a format.",
        _by_peer,
    ),
    Predictor(
        "data sheet",
        "The same passes at the data sheet's bandwidth and arithmetic, under an engine that takes no time.",
        _by_passes(at_data_sheet),
    ),
    Predictor("acceptance length", "The speedup is the acceptance length.", _by_length),
)
"""The product first."""
