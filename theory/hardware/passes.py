r"""One iteration of a serving engine on a GPU or several: seconds against shape, formats, work and split.

.. math::

    t = \sum_{\text{layers}} (t_{\text{products}} + t_{\text{attention}} + t_{\text{experts}} + t_{\text{sums}}
        + t_{\text{streams}} + \ell n) + t_{\text{head}} + u b

b is the number of sequences and n that of a layer's normalisations: :math:`\ell` (per normalisation) and u (per
sequence) belong to the engine, as do terms per drafted token and per iteration outside its graphs; all else belongs to
the GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Final

from theory.hardware.engines import BLACKWELL, EngineConstants, Launches, engine_named
from theory.hardware.formats import FORMATS, Precision
from theory.hardware.gpu_records import Gpu
from theory.hardware.mixers.sparse import CompressedAttention
from theory.hardware.mixers.states import Recurrent
from theory.hardware.shapes import Attention, Experts, FeedForward, LatentAttention, Layers, Mixer, Shape
from theory.hardware.sharding import check_split
from theory.hardware.sources import FittedOperators, OperatorSource
from theory.hardware.work import Parallel, Work

__all__ = ["PassModel", "PassParts", "attends_generally"]

_BF16: Final = FORMATS["bf16"]
_WIDENING: Final = 2.0
"""Time of attention over a cache whose format the GPU cannot multiply, over that of attention alike, [-]: its numbers
are widened in registers. From plain decoding of an 8B model with an fp8 cache on A100 (vLLM 0.24): 1.6 to 2.7."""
_WIDE: Final = 256
"""Numbers of a head above which FlashAttention 3 and FlashInfer have no kernel (Gemma-4's full attention has 512)."""
_WITH_WIDE: Final = frozenset({"NVIDIA B200 SXM", "NVIDIA GB200"})
"""GPUs on which SGLang takes TensorRT-LLM's there (sgl-project/sglang#25006): for compute capability 10.3 some are
missing (#27175), and its cookbook has B300 attend in Triton."""
_SHORT_PROMPT: Final = 128.0
"""Prompt tokens of an iteration below which it takes less time outside graphs, in proportion: a step of Qwen3-32B on
two H100, which reads a few tens of new tokens, takes 6 ms besides its tokens. Prompts of 190 take all of it."""
_NARROW: Final = 512.0
"""Columns of an expert on a GPU up to which the kernel that lays rows out in blocks is passed over for one that does
not (vLLM's ``_valid_deep_gemm``: "DeepGemm disabled for N <= 512")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassParts:
    """Where the seconds of a pass go, s."""

    products: float = 0.0
    """Matrix products of attention and dense layers."""
    experts: float = 0.0
    attention: float = 0.0
    """Attention over cached tokens; of latent attention with its projections."""
    sums: float = 0.0
    head: float = 0.0
    streams: float = 0.0
    layers: float = 0.0
    """The engine's, per layer."""
    sequences: float = 0.0
    """The engine's, per sequence and drafted token."""
    ungraphed: float = 0.0
    """The engine's, per iteration outside the graphs of whole passes, where the GPU may wait for the host."""

    @property
    def seconds(self) -> float:
        """All of them; one by one, for a plan asks for tens of thousands of sums."""
        computed = self.products + self.experts + self.attention + self.sums + self.head + self.streams
        return computed + self.layers + self.sequences + self.ungraphed


@dataclass(frozen=True, slots=True, kw_only=True)
class PassModel:
    """A model on GPUs under an engine.

    Raises
    ------
    ParameterError : a split that engines refuse.
    """

    gpu: Gpu
    shape: Shape
    precision: Precision = field(default_factory=Precision)
    parallel: Parallel = field(default_factory=Parallel)
    engine: EngineConstants = field(default_factory=lambda: engine_named("vllm"))
    is_new: bool = False
    """Whether no rows of its architecture tell the engine's constants, where that matters."""
    measured: OperatorSource | None = None
    """Operators measured one by one, whose seconds are added up; None: those of the GPU's fitted constants."""

    general: bool = field(init=False, repr=False, compare=False)
    """Whether all layers attend by kernels in Triton."""
    operators: OperatorSource = field(init=False, repr=False, compare=False)
    _reading_s: float = field(init=False, repr=False, compare=False)
    """What the engine takes more for an iteration that reads a prompt, s."""
    _between_s: float = field(init=False, repr=False, compare=False)
    _launching_s: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_split(self.shape, self.parallel)
        object.__setattr__(self, "general", attends_generally(self.engine.name, self.gpu.name, self.shape))
        kernels = self.engine.kernels(self.gpu.name)
        operators = self.measured or FittedOperators(self.gpu, general=self.general, **kernels)
        object.__setattr__(self, "operators", operators)
        recurrent = sum(group.count for group in self.shape.layers if isinstance(group.attention, Recurrent))
        reading = self.engine.ungraphed_s + recurrent * self.engine.recurrent_prompt_s
        object.__setattr__(self, "_between_s", self._between() + recurrent * self.engine.recurrent_s)
        object.__setattr__(self, "_reading_s", reading)
        launching = sum(group.count * _launch(self.engine.launches, group) for group in self.shape.layers)
        object.__setattr__(self, "_launching_s", launching)

    def seconds(self, work: Work) -> float:
        """Return the time of an iteration, s."""
        return self.parts(work).seconds

    def reading_seconds(self, tokens: float) -> float:
        """Return what the engine takes, outside operators, for an iteration that reads so many tokens of prompts, s."""
        return self._reading_s * min(tokens / _SHORT_PROMPT, 1.0)

    def parts(self, work: Work) -> PassParts:
        """Return where the time of an iteration goes; where the engine reads prompts apart, that of both passes."""
        if self.engine.apart and work.sequences > 0.0 and work.prefill_tokens > 0.0:
            reading, decoding = self.parts(replace(work, sequences=0.0)), self.parts(replace(work, prefill_tokens=0.0))
            return PassParts(
                **{one.name: getattr(reading, one.name) + getattr(decoding, one.name) for one in fields(PassParts)}
            )
        totals = {"products": 0.0, "experts": 0.0, "attention": 0.0, "sums": 0.0}
        batch = self._batch(work)
        shared = self._copy(batch)
        for group in self.shape.layers:
            for name, seconds in self._layer(group, shared, batch).items():
                totals[name] += group.count * seconds
        parallel = self.parallel
        if parallel.pp > 1:  # each GPU sends its part of the streams and of what the last layer adds to them, in bf16
            numbers = (1 + self.shape.streams) * self.shape.hidden * shared.rows
            size = numbers * _BF16.bytes_per_number / parallel.tp
            totals["sums"] += parallel.pp * self.gpu.network_s + (parallel.pp - 1) * size / self.gpu.network
        prompts = shared.prompts if shared.prefill_tokens else 0.0
        read, scored = shared.sequences + prompts, shared.sequences * shared.tokens + prompts
        head = self.operators.product(scored, self.shape.vocab / self.parallel.tp, self.shape.hidden, _BF16)
        streams, layers = self._streams(shared.rows), self._between_s
        return PassParts(
            **totals,
            head=head,
            streams=streams,
            layers=layers,
            sequences=self.engine.sequence_s * read + self.engine.verified_s * shared.sequences * (shared.tokens - 1.0),
            ungraphed=self._outside_graphs(shared, sum(totals.values()) + head + streams + layers),
        )

    def _streams(self, rows: float) -> float:
        """Seconds in which all layers mix their residual streams."""
        shape, rank = self.shape, self.shape.stream_rank
        seconds = self.operators.streams(shape.streams, hidden=shape.hidden, rows=rows)
        if rank:
            wide, product = shape.streams * shape.hidden, self.operators.product
            seconds += 2.0 * (product(rows, rank + shape.streams, wide, _BF16) + product(rows, wide, rank, _BF16))
        return shape.n_layers * seconds

    def _between(self) -> float:
        """What the engine takes between the operators of all layers, whatever mixes their tokens, s."""
        each = {True: self.engine.expert_norm_s, False: self.engine.norm_s}
        layers = sum(
            group.count * each[isinstance(group.feed_forward, Experts)] * (0.5 if group.feed_forward is None else 1.0)
            for group in self.shape.layers
        )
        share = self.engine.blackwell if self.gpu.name in BLACKWELL else 1.0
        return self.shape.norms * layers * share + self.engine.waiting(self.shape)

    def _outside_graphs(self, work: Work, computing: float) -> float:
        """What the engine takes for an iteration outside its graphs, which a GPU computes in so many seconds, s."""
        most, decoding = self.engine.graphed_rows, work.sequences * work.tokens
        if work.prefill_tokens:
            most = min(most, self.engine.prompt_rows)
        outside = self.reading_seconds(work.prefill_tokens)
        if (work.tokens > 1.0 and self._single_graphs) or decoding > self.engine.graphed_rows:
            outside = max(outside, self.engine.ungraphed_decoding_s or self.engine.ungraphed_s)
        return max(outside, self._launching_s - computing) if work.rows > most else outside

    @property
    def _single_graphs(self) -> bool:
        """Whether the kernel that reads the cache has graphs for single new tokens only.

        In vLLM it is FlashInfer's for a cache in fp8 on NVIDIA's GPUs but Hopper, where FlashAttention 3 reads it, and
        data-centre Blackwell, which has TensorRT-LLM's (vllm/v1/attention/backends/flashinfer.py).
        """
        if self.engine.name != "vllm" or self.precision.cache != "fp8":
            return self._widened
        other = self.gpu.name in BLACKWELL or self.gpu.name.startswith(("AMD", "NVIDIA H", "NVIDIA GH"))
        return self._widened or not other

    @property
    def _widened(self) -> bool:
        """Whether cached numbers are in a format that the GPU cannot multiply.

        Kernels widen them then, for several new tokens at once from a copy in bf16 and outside graphs.
        """
        return self.precision.cache == "fp8" and self.gpu.sheet.fp8 is None

    def _batch(self, work: Work) -> Work:
        """The work of one of the batches that the stages run side by side, on all copies of attention together.

        At least one sequence a copy where any decode, for sequences are whole; a prompt is read in one batch. All
        stages after each other take as long as the whole model: of a batch for each stage every sequence gets a token
        in that time.
        """
        dp, prompts = self.parallel.dp, work.prompts if work.prefill_tokens else 0.0
        batches = self.parallel.batches(work.sequences + prompts)
        if dp == 1 and batches == 1.0:
            return work
        return replace(
            work,
            sequences=max(work.sequences / batches, dp * min(work.sequences, 1.0)),
            prefill_tokens=work.prefill_tokens / min(batches, work.prompts),
            prompts=max(1.0, work.prompts / batches),
        )

    def _copy(self, batch: Work) -> Work:
        """The work of a batch on the copy of attention that reads most of its prompts."""
        dp = self.parallel.dp
        if dp == 1:
            return batch
        return replace(
            batch,
            sequences=batch.sequences / dp,
            prefill_tokens=batch.prefill_tokens / (dp if self.engine.balanced else min(dp, batch.prompts)),
            prompts=max(1.0, batch.prompts / dp),
        )

    def _layer(self, group: Layers, work: Work, batch: Work) -> dict[str, float]:
        """Seconds of a layer by operator: of a copy of attention, and of the experts that all copies share."""
        mixer, forward = group.attention, group.feed_forward
        attending = sum(self._attention(mixer, *part) for part in _attending(work))
        spent = {
            "products": self._mixing_products(mixer, work.rows),
            "attention": attending * (_WIDENING if self._widened and not isinstance(mixer, Recurrent) else 1.0),
            "experts": 0.0,
            "sums": self._sums(work.rows, batch.rows, forward),
        }
        if isinstance(forward, Experts):
            spent["experts"] = self._routed(forward, batch)
            hidden = self.shape.hidden  # the router, shared experts, what reduces and widens: products of all tokens
            beside = self.operators.product(work.rows, forward.count, hidden, _BF16)
            if forward.shared:
                beside += self._dense(work.rows, forward.shared / self.parallel.tp, forward.gated)
            if forward.latent is not None:
                beside += self._dense(work.rows, forward.latent, gated=False)
            spent["products"] += beside
        elif forward is not None:
            spent["products"] += self._dense(work.rows, forward.intermediate / self.parallel.tp, forward.gated)
        return spent

    def _mixing_products(self, mixer: Mixer, rows: float) -> float:
        """Products before and after attention or a recurrence; those of latent attention are measured with it."""
        if not isinstance(mixer, Attention | Recurrent):
            return 0.0
        tp, hidden, weights = self.parallel.tp, self.shape.hidden, self.precision.attention_format
        inputs, outputs = mixer.columns(tp)
        product = self.operators.product
        seconds = product(rows, inputs, hidden, weights) + product(rows, hidden, outputs, weights)
        if isinstance(mixer, Recurrent):
            inner = mixer.inner(tp)
            return seconds + (product(rows, inner / mixer.key_dim, mixer.key_dim, weights) if inner else 0.0)
        index = 0 if mixer.selection is None else mixer.selection.parameters(hidden)
        return seconds + (product(rows, index / hidden, hidden, weights) if index else 0.0)

    def _routed(self, experts: Experts, batch: Work) -> float:
        """Seconds of routed experts."""
        rows = batch.rows
        weights = self.precision.expert_format
        in_blocks = weights.name == "fp8-block"
        laid_out = in_blocks and experts.intermediate / self.parallel.expert_tp > _NARROW
        seconds = self.operators.experts(
            experts,
            hidden=experts.latent or self.shape.hidden,
            tokens=rows,
            asking=batch.asking_rows,
            ep=self.parallel.ep,
            expert_tp=self.parallel.expert_tp,
            weights=weights,
            padding=self.engine.padding if laid_out else 0.0,
        )
        # TensorRT-LLM's kernels for experts in fp8 are by default those of named architectures too
        ep, own_kernels = self.parallel.ep, weights.arithmetic == "fp4" or (in_blocks and not self.is_new)
        if own_kernels or self.gpu.name not in BLACKWELL:
            return seconds
        engine = self.engine  # its general kernel takes more than a tuned one
        untuned = engine.untuned if rows > experts.count / ep else engine.untuned_small
        return seconds * (1.0 + (untuned if ep > 1 else 0.0)) + engine.general_s

    def _sums(self, rows: float, all_rows: float, forward: FeedForward | None) -> float:
        """Seconds of a layer's sums, after the attention and after the feed-forward part.

        Copies of the attention share the second one only, in which they gather and scatter the rows of all.
        """
        tp, dp, gpus = self.parallel.tp, self.parallel.dp, min(self.parallel.stage, 8)
        row_bytes = _BF16.bytes_per_number * self.shape.hidden
        one = self.operators.sums(tp, row_bytes * rows)
        if forward is None:
            return one
        return 2.0 * one if dp == 1 else one + self.operators.sums(gpus, row_bytes * all_rows)

    def _dense(self, rows: float, intermediate: float, gated: bool) -> float:
        hidden, weights = self.shape.hidden, self.precision.weight_format
        up = self.operators.product(rows, (2.0 if gated else 1.0) * intermediate, hidden, weights)
        return up + self.operators.product(rows, hidden, intermediate, weights)

    def _attention(self, mixer: Mixer, sequences: float, tokens: float, context: float, prompts: bool) -> float:
        """Seconds in which sequences attend to what is cached, or move on their states; products of both apart."""
        tp = self.parallel.tp
        if isinstance(mixer, Recurrent):
            return self.operators.recurrent(mixer, tp=tp, sequences=sequences, tokens=tokens, prompts=prompts)
        cache_bytes = FORMATS["bf16"].bytes_per_number if tokens > 1.0 and self._widened else self.precision.cache_bytes
        given = {"sequences": sequences, "tokens": tokens}
        choosing = 0.0
        if mixer.selection is not None:
            entries = (context + (tokens + 1.0) / 2.0) / max(getattr(mixer, "ratio", 1), 1)
            choosing = self.operators.index(mixer.selection, entries=entries, **given)
        if not isinstance(mixer, Attention):
            weights = self.precision.attention_format
            return choosing + self.operators.latent(
                mixer,
                hidden=self.shape.hidden,
                tp=tp,
                context=context,
                weights=weights,
                cache_bytes=cache_bytes,
                **given,
            )
        window = math.inf if mixer.window is None else float(mixer.window)
        if mixer.selection is not None:
            window = min(window, float(mixer.selection.entries))
        return choosing + self.operators.attention(
            **given,
            context=context,
            heads=mixer.heads / tp,
            kv_heads=max(mixer.kv_heads / tp, 1.0),
            head_dim=round(mixer.mean_dim),
            cache_bytes=cache_bytes,
            window=window,
        )


def attends_generally(engine: str, gpu: str, shape: Shape) -> bool:
    """Return whether an engine's layers all attend by kernels in Triton, for some have heads too wide for others.

    In SGLang; vLLM has kernels of its own in Triton, and FlashAttention 4 on Hopper, which are not modelled.
    """
    mixers = [group.attention for group in shape.layers] if engine == "sglang" and gpu not in _WITH_WIDE else []
    return any(isinstance(one, Attention) and one.head_dim > _WIDE for one in mixers)


def _launch(launches: Launches, layer: Layers) -> float:
    """What the host takes to start the kernels of a layer, s."""
    mixer, experts = layer.attention, launches.experts if isinstance(layer.feed_forward, Experts) else 0.0
    if isinstance(mixer, Recurrent):
        return launches.states + experts
    if isinstance(mixer, CompressedAttention) or (isinstance(mixer, LatentAttention) and mixer.selection is not None):
        return launches.sparse + experts
    return (launches.latent if isinstance(mixer, LatentAttention) else launches.attention) + experts


def _attending(work: Work) -> list[tuple[float, float, float, bool]]:
    """Sequences, new tokens of each, cached tokens of each, and whether they are prompts that are read."""
    attending = []
    if work.sequences > 0.0:
        attending.append((work.sequences, work.tokens, work.context, False))
    if work.prefill_tokens > 0.0:
        attending.append((work.prompts, work.prefill_tokens / work.prompts, work.prefill_context, True))
    return attending
