"""What the package aiconfigurator-core estimates by itself for a deployment: its own model, formats and composition.

Unlike `specplan.worlds.measured_operators`, which takes single operators from its tables, this is the package as its
users run it: iterations by its compiled engine, load by its ``run_agg``, drafts as its multi-token prediction. Where it
has several kernels for a format of weights, tables do not say which ran: the fastest counts.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, Final, TypeVar

from specplan.worlds.measured_operators import SYSTEMS, package_version
from specplan.worlds.model_files import ModelFacts, facts_of_config
from theory.errors import ParameterError, SpecplanError
from theory.hardware.formats import Precision
from theory.hardware.loads import ClosedLoop
from theory.hardware.passes import PassModel
from theory.hardware.shapes import Shape
from theory.hardware.work import Parallel

__all__ = ["Peer", "Priced", "fastest_iteration", "fastest_load"]

Estimate = TypeVar("Estimate")

_KERNELS: Final[Mapping[str, tuple[str, ...]]] = {
    "bf16": ("bfloat16",),
    "fp8": ("fp8", "fp8_block"),
    "fp8-block": ("fp8_block", "fp8"),
    "int4": ("int4_wo",),
    "int4-group32": ("int4_wo",),
    "nvfp4": ("nvfp4",),
    "mxfp4": ("w4a16_mxfp4", "w4a8_mxfp4_mxfp8"),
}
"""Format of weights to the package's kernels; which of several ran, tables do not say."""
_CHUNK: Final = 8192


@dataclass(frozen=True, slots=True)
class Priced:
    """A closed loop as the package estimates it."""

    per_token_s: float
    to_first_token_s: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class Peer:
    """A model on a system, as the package builds it."""

    model: Any
    database: Any
    backend: str

    def iteration(self, sequences: float, context: float) -> float:
        """Return the time of a decoding iteration, s."""
        from aiconfigurator_core.sdk.rust_engine_step import estimate_decode_step_latency_with_rust

        n, tokens = max(1, round(sequences)), max(1, round(context))
        milliseconds = estimate_decode_step_latency_with_rust(
            self.model, self.database, gen_tokens=n, isl=tokens, osl=2
        )
        return 1e-3 * float(milliseconds)

    def load(self, loop: ClosedLoop, copies: int, tokens_per_round: float = 1.0) -> Priced:
        """Return a closed loop on ``copies`` of the attention.

        Of prompt tokens per iteration (one prompt, two, or 8,192) those with the most tokens per second count, which is
        how the package chooses.
        """
        from aiconfigurator_core.sdk.backends.factory import get_backend
        from aiconfigurator_core.sdk.config import RuntimeConfig

        batch = max(1, round(loop.concurrency / copies))
        prompt = max(1, round(loop.prompt_tokens))
        runtime = RuntimeConfig(batch_size=batch, isl=prompt, osl=max(2, round(loop.answer_tokens)))
        best: dict[str, float] = {}
        for tokens in sorted({prompt, 2 * prompt, max(prompt, _CHUNK)}):
            if best and tokens > prompt * (batch - 1):
                break  # one request at least decodes
            backend = get_backend(self.backend)  # a fresh one: it remembers results without the model
            summary = backend.run_agg(
                self.model, self.database, runtime, ctx_tokens=tokens, decode_tokens_per_iteration=tokens_per_round
            )
            best = max(best, summary.get_result_dict(), key=lambda one: one.get("tokens/s", 0.0))
        return Priced(1e-3 * best["tpot"], 1e-3 * best["ttft"], best["tokens/s"])


def fastest_iteration(
    name: str, facts: ModelFacts, passes: PassModel, sequences: float, context: float, drafted: int = 0
) -> float:
    """Return the time of a decoding iteration of ``sequences`` in each copy of the attention, s.

    Parameters
    ----------
    name, facts, passes : the model by the name that a table gives, and what was deployed.
    sequences, context : that decode, and cached tokens of each, mean.
    drafted : tokens by its multi-token prediction, verified in the same iteration.

    Raises
    ------
    SpecplanError : the package is not installed, or has no estimate of this model, GPU, format or engine.
    """
    return min(_estimates(name, facts, passes, drafted, lambda peer: peer.iteration(sequences, context)))


def fastest_load(
    name: str, facts: ModelFacts, passes: PassModel, loop: ClosedLoop, drafted: int = 0, tokens_per_round: float = 1.0
) -> Priced:
    """Return a closed loop; arguments and errors as `fastest_iteration`, of rounds that commit so many tokens."""
    copies = passes.parallel.dp
    loops = _estimates(name, facts, passes, drafted, lambda peer: peer.load(loop, copies, tokens_per_round))
    return min(loops, key=lambda one: one.per_token_s)


def _estimates(
    name: str, facts: ModelFacts, passes: PassModel, drafted: int, ask: Callable[[Peer], Estimate]
) -> list[Estimate]:
    """What each of the package's kernels comes to."""
    estimates, reason = [], "it has no kernels of these formats"
    for peer in _peers(name, facts, passes, drafted):
        try:
            estimates.append(ask(peer))
        except Exception as error:  # of any kind: a package's defect on a row must not end the table
            reason = str(error).partition("\n")[0][:100]
    if not estimates:
        raise ParameterError("aiconfigurator-core", name, f"has no estimate: {reason}")
    return estimates


def _peers(name: str, facts: ModelFacts, passes: PassModel, drafted: int) -> Iterator[Peer]:
    """The package's views of a deployment, one for each of its kernels."""
    package_version()
    if passes.gpu.name not in SYSTEMS:
        raise ParameterError("gpu", passes.gpu.name, "has no tables in aiconfigurator-core")
    published = _bundled().get(facts.shape)
    path = name if name in _names() else published
    if path is None:
        raise ParameterError("model", name, "is none of those that aiconfigurator-core ships")
    cache = "fp8" if passes.precision.cache == "fp8" else "bfloat16"
    key = path, passes.gpu.name, passes.engine.name, passes.parallel
    for kernels in _kernels(facts, passes.precision):
        peer = _built(*key, *kernels, cache, drafted)
        if peer is not None:
            yield peer


def _kernels(facts: ModelFacts, precision: Precision) -> Iterator[tuple[str, str | None]]:
    """Kernels of products and of experts that may have run together."""
    products = _KERNELS.get(precision.weights, ())
    if not facts.shape.has_experts:
        yield from ((one, None) for one in products)
        return
    for one, other in product(products, _KERNELS.get(precision.expert_format.name, ())):
        if one == other or not (one.startswith("fp8") and other.startswith("fp8")):
            yield one, other


@cache
def _built(
    path: str,
    gpu: str,
    engine: str,
    parallel: Parallel,
    products: str | None,
    experts: str | None,
    cache: str,
    drafted: int,
) -> Peer | None:
    from aiconfigurator_core.sdk import perf_database
    from aiconfigurator_core.sdk.config_builders import apply_nextn, build_model_config
    from aiconfigurator_core.sdk.models import get_model
    from aiconfigurator_core.sdk.models.helpers import resolve_context_fmha_by_data

    logging.getLogger("aiconfigurator_core").setLevel(logging.ERROR)
    try:
        version = perf_database.resolve_query_version(SYSTEMS[gpu], engine, "current")
        database = perf_database.get_database_view(SYSTEMS[gpu], engine, version, database_mode="HYBRID")
        config = build_model_config(
            parallel.tp, 1, parallel.dp, parallel.expert_tp, parallel.ep,
            gemm_quant_mode=products, moe_quant_mode=experts, kvcache_quant_mode=cache,
        )  # fmt: skip
        apply_nextn(config, drafted)
        resolve_context_fmha_by_data(config, path, database, engine, is_context_role=True)
        return Peer(get_model(path, config, engine), database, engine)
    except Exception:  # of any kind: no tables, no such split, no such format, or a defect of the package
        return None


@cache
def _names() -> frozenset[str]:
    from aiconfigurator_core.sdk.common import DefaultHFModels

    return frozenset(DefaultHFModels)


@cache
def _bundled() -> dict[Shape, str]:
    """The package's models by shape, published in bf16 before others."""
    names: dict[Shape, str] = {}
    for name in sorted(_names(), key=lambda one: (any(word in one.lower() for word in ("fp8", "nvfp4")), one)):
        file = files("aiconfigurator_core") / "model_configs" / f"{name.replace('/', '--')}_config.json"
        try:
            shape = facts_of_config(json.loads(file.read_text(encoding="utf-8")), name=name, where=name).shape
        except (SpecplanError, OSError):
            continue
        names.setdefault(shape, name)
    return names
