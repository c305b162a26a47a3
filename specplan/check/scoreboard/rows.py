"""Rows of public measurements, as their tables give them.

Six tables are known, by their columns and not by the names of their files: served iterations (ML.ENERGY), iterations at
given sequences and context, aggregated serving under load (NVIDIA aiconfigurator), speculative serving of a batch
(SpecBundle) and by concurrency, and acceptance lengths (InferenceX). Further models, GPUs, engines and columns may
stand in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

__all__ = ["MODEL_COLUMNS", "TABLES", "Acceptance", "Driven", "Loaded", "Measured", "Served", "Speculated", "Steady"]


def _blank(value: Any) -> Any:
    """An empty cell as no value."""
    return None if isinstance(value, str) and not value.strip() else value


Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count: TypeAlias = Annotated[int, BeforeValidator(lambda v: float(v) if isinstance(v, str) else v), Field(ge=1)]
One: TypeAlias = Annotated[int, BeforeValidator(lambda v: float(_blank(v) or 1)), Field(ge=1)]
"""A count of GPUs that is 1 where the cell is empty."""
Name: TypeAlias = Annotated[str, Field(min_length=1)]
MODEL_COLUMNS: Final = ("model_path", "model_id", "target", "model")
"""Columns that name the model that was measured."""


class _Row(BaseModel):
    """A line of a table; columns that it does not name are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=True)

    where: str
    """File and line, as ``serving_load.csv:12``."""

    @property
    def about(self) -> str:
        """Name of the model that was measured."""
        return next(str(getattr(self, name)) for name in MODEL_COLUMNS if hasattr(self, name))

    def read(self) -> Measured:
        """Return the row as the kind that is predicted."""
        return self  # type: ignore[return-value]  # every kind but those that override this is one of them


class Served(_Row):
    """Time between tokens of a server that only decodes, at a mean number of sequences (ML.ENERGY)."""

    task: str
    model_id: Name
    weight_precision: str
    gpu: Name
    num_gpus: Count
    tp: One
    dp: One
    ep: One
    max_num_seqs: Positive
    avg_batch: Positive
    median_itl_ms: Positive
    avg_output_len: Positive
    mean_pos_len_biased: Positive
    """Mean position of a running sequence in its answer, tokens."""


class Loaded(_Row):
    """Time to first token and per output token in a closed loop of requests (NVIDIA aiconfigurator)."""

    backend: Name
    backend_version: str
    model_path: Name
    system: Name
    precision: str
    isl: Positive
    osl: Positive
    gemm_quant_mode: str
    moe_quant_mode: str
    concurrency: Positive
    """Requests in flight per copy of the attention."""
    tp_size: One
    attention_dp_size: One
    moe_tp_size: One
    moe_ep_size: One
    ttft_ms: Positive
    tpot_ms: Positive


class Positioned(_Row):
    """The same by the positions that tokens have (InferenceX's experiment), read as a row under load."""

    model: Name
    engine: Name
    gpu: Name = "H200"
    """The table does not state it; its authors do."""
    parallel: Annotated[str, Field(pattern=r"^(tp|tep|dep)[1-9]\d*$")]
    """Tensor parallel, the same with experts dealt out, or copies of the attention with experts dealt out."""
    prompt_tokens: Positive
    answer_tokens: Positive
    concurrency: Positive
    """Requests in flight over all copies."""
    median_tpot_ms: Positive
    median_ttft_s: Positive

    def read(self) -> Loaded:
        """Return the row as one of a server under load."""
        split = self.parallel.rstrip("0123456789")
        gpus = int(self.parallel.removeprefix(split))
        copies = gpus if split == "dep" else 1
        return Loaded(
            where=self.where,
            backend=self.engine,
            backend_version="",
            model_path=self.model,
            system=self.gpu,
            precision="",
            isl=self.prompt_tokens,
            osl=self.answer_tokens,
            gemm_quant_mode="",
            moe_quant_mode="",
            concurrency=self.concurrency / copies,
            tp_size=gpus // copies,
            attention_dp_size=copies,
            moe_tp_size=gpus if split == "tp" else 1,
            moe_ep_size=1 if split == "tp" else gpus,
            ttft_ms=1e3 * self.median_ttft_s,
            tpot_ms=self.median_tpot_ms,
        )


class Speculated(_Row):
    """Throughput of a batch without and with an EAGLE-3 draft (SpecBundle)."""

    target: Name
    dataset: str
    batch: Count
    steps: Count
    topk: Count
    num_draft_tokens: Count
    draft: Name
    accept_length: Annotated[float, Field(ge=1, allow_inf_nan=False)]
    speedup: Positive


class Steady(_Row):
    """An iteration of a model at so many sequences and cached tokens of each."""

    gpu: Name
    model: Name
    engine: Name
    """With its version after a space, where it is known."""
    sequences: Positive
    context_tokens: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    iteration_ms: Positive


class Driven(_Row):
    """A server under a constant number of requests, plain or with drafts."""

    gpu: Name
    engine: Name
    """With its version after a space, where it is known."""
    target: Name
    weights: str
    kv_cache: str
    method: Name
    """``none`` for plain decoding."""
    num_speculative_tokens: One
    """1 where the cell is empty."""
    workload: str
    concurrency: Positive
    throughput_tok_s: Positive
    acceptance_length: Annotated[float, BeforeValidator(lambda v: _blank(v) or 1.0), Field(ge=1, allow_inf_nan=False)]
    """Tokens per target pass, 1 where the cell is empty."""
    itl_p50_ms: Positive
    """Median time between outputs: an iteration or a round."""
    answer_tokens: Positive

    @property
    def drafts(self) -> bool:
        """Whether the server drafts tokens."""
        return self.method.lower() != "none"


class Acceptance(_Row):
    """Tokens per target pass by the number of speculative tokens (InferenceX)."""

    file: str
    model: Name
    mode: str
    method: str
    dataset: str
    temperature: str
    measured_on: str
    num_speculative_tokens: Count
    acceptance_length: Annotated[float, Field(ge=1, allow_inf_nan=False)]


Measured: TypeAlias = Served | Steady | Loaded | Speculated | Driven | Acceptance

TABLES: Final[Mapping[str, tuple[type[_Row], frozenset[str]]]] = {
    "served": (Served, frozenset({"model_id", "median_itl_ms"})),
    "steady": (Steady, frozenset({"sequences", "context_tokens", "iteration_ms"})),
    "loaded": (Loaded, frozenset({"model_path", "tpot_ms"})),
    "positioned": (Positioned, frozenset({"parallel", "median_tpot_ms", "median_ttft_s"})),
    "speculated": (Speculated, frozenset({"target", "accept_length"})),
    "driven": (Driven, frozenset({"kv_cache", "concurrency", "throughput_tok_s"})),
    "acceptance": (Acceptance, frozenset({"num_speculative_tokens", "acceptance_length"})),
}
"""Kind -> (its rows, the columns by which a table is known to be of that kind); the first that fits counts."""
