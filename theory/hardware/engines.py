"""What a serving engine spends beyond the operators of a pass, by engine and version.

Two engines differ in these constants and in nothing else. ``python -m benchmarks.fit_serving FOLDER`` fits vLLM 0.11.1
to the ML.ENERGY Benchmark v3 and the others to NVIDIA aiconfigurator's table of aggregated serving (both Apache-2.0),
the dense layers of vLLM 0.18.0 to single iterations too, and rounds to SpecBundle (MIT) and to servers by concurrency.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal

from theory.errors import ParameterError
from theory.hardware.mixers.states import Recurrent
from theory.hardware.shapes import Shape

__all__ = [
    "BLACKWELL",
    "ENGINES",
    "EngineConstants",
    "Launches",
    "engine_named",
    "is_priced",
    "nearest_engine",
]

BLACKWELL: Final = frozenset({"NVIDIA B200 SXM", "NVIDIA B300 SXM", "NVIDIA GB200", "NVIDIA GB300"})
"""Data-centre GPUs of the Blackwell generation: newer than the engines' tables of tuned kernels for experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """What the host takes to start the kernels of a layer one by one, s, by what mixes its tokens; 0: not known.

    The GPU waits for it in passes outside graphs, which take no less than all their layers' launches.
    """

    attention: float = 0.0
    latent: float = 0.0
    sparse: float = 0.0
    """Of sparse latent attention, and of DeepSeek-V4's."""
    states: float = 0.0
    experts: float = 0.0
    """Those of experts, besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConstants:
    """Constants of an engine."""

    name: str
    version: str
    """The first that they hold for."""
    mixtures: frozenset[str] = frozenset()
    """Architectures of mixtures that tell them; empty: others are not slower."""
    until: str = ""
    """Latest release series that was measured; empty for all but an engine's last entry with rows."""
    norm_s: float
    """Per normalisation of a dense layer, with what else stands between operators (activations, gaps between kernels),
    s; 0 where compiled graphs hide it."""
    expert_norm_s: float
    """The same in a layer with experts, where routing stands between operators too, s."""
    blackwell: float = 1.0
    """Share of both that is left on Blackwell, [-]: kernels of TensorRT-LLM start there before the last one ends."""
    recurrent_s: float = 0.0
    """Per layer with a state and iteration, beyond its operators, s: such layers stood outside graphs at first."""
    waiting_s: float = 0.0
    """Per iteration of a model whose states keep the engine from scheduling ahead (`waiting`), s: the host's time then
    adds to the GPU's."""
    recurrent_prompt_s: float = 0.0
    """The same in an iteration that reads a prompt, besides, s."""
    states: float = 0.0
    """Copies of its layers' states that a sequence keeps besides those after the tokens of a round, [-]: of SGLang 3
    for a running request and 2 that follow it for the cache of prefixes."""
    moved_states: float = 0.0
    """Times that the state after a round's last accepted token is read or written to be where the next round begins,
    [-]: SGLang's kernel copies it from the states after all drafted tokens (2), TensorRT-LLM gathers these and scatters
    them (4); vLLM's next round reads it where it is."""
    sequence_s: float
    """Per sequence and iteration (sampling, scheduling, transport), s."""
    verified_s: float = 0.0
    """Per drafted token that a sequence has in an iteration (its place in the batch, its scores, its acceptance), s."""
    of_block_s: float | None = None
    """The same of a drafter of blocks, s: vLLM's Model Runner V2, the only one for DSpark, prepares and samples on the
    GPU. None: the same."""
    ungraphed_s: float = 0.0
    """Per iteration that the graphs of whole passes do not cover, s: one that reads a prompt, and those below."""
    ungraphed_decoding_s: float = 0.0
    """The same of one that reads none but has more than `graphed_rows`, or verifies with an attention kernel that has
    graphs for single tokens only, s; 0: no server told, and it is `ungraphed_s`."""
    graphed_rows: float = math.inf
    """Tokens of a pass up to which graphs were captured; infinite: all. Commands of plans have 2,048 captured."""
    prompt_rows: float = math.inf
    """The same of a pass that reads a prompt; 0: SGLang reads every prompt outside graphs."""
    launches: Launches = Launches()
    of_free: bool = False
    """Whether the cache takes the engine's share of what weights and work leave of a GPU's memory, not of all of it."""
    reserving: bool = False
    """Whether an answer starts only where the cache holds it to its end, so that none is sent away."""
    windowed: frozenset[str] | None = None
    """Architectures whose layers with a window keep no more tokens than it in the cache; None: all. In TensorRT-LLM
    those that come with their ``max_attention_window``, which plans do not set (features/kvcache.md)."""
    apart: bool = False
    """Whether prompts are read in passes of their own, while nothing decodes."""
    chunks: tuple[tuple[float, int], ...] = ((math.inf, 8192),)
    """Rows of a pass at most, by the GPU memory up to which they hold, MiB."""
    balanced: bool = False
    """Whether copies of attention wait for each other's prompts, so that all read alike; else one reads a prompt, and
    the others' tokens wait for it."""
    fused_sums: Literal["none", "Blackwell", "all"] = "none"
    """GPUs on which sums are taken by kernels of TensorRT-LLM."""
    untuned: float = 0.0
    """What routed experts take more on a GPU for which the engine has no tuned kernels, as a share of their time, [-]:
    where whole experts are dealt out and an iteration has more tokens than a GPU has experts, so that the general
    kernel goes on in larger tiles."""
    untuned_small: float = 0.0
    """The same with no more tokens than a GPU has experts, in smaller tiles, [-]."""
    general_s: float = 0.0
    """What general kernels for routed experts in bf16 take more per layer on data-centre Blackwell, s, with those that
    route, sort and sum around them."""
    narrow_cache: float = 1.0
    """Time of attention over a cache in fp8 on Hopper, over that of the form, [-], which is fitted to caches in bf16:
    FlashAttention 3 and SGLang's kernels read fp8 at 0.6 to 0.8 of that bandwidth. From each engine's table of
    aiconfigurator-core, H100 and H200, 4 to 16 heads to a key, batches of 1 to 1,024."""
    products: float = 1.0
    """Rate of products in bf16 over the form's, which is vLLM's, [-]: the same in each table of H100, H200 and B200."""
    sparse: float = 1.0
    """Share of the fixed times of compressed attention on data-centre Blackwell, [-]: vLLM starts fewer kernels."""
    padding: float = 0.0
    """Rows that are moved with block-wise fp8 experts besides those of tokens, for each expert that a GPU holds: a
    kernel that lays each expert's rows out in blocks of 128 leaves room for 127 more, and passes over all of it."""
    round_s: float = 0.0
    """Per round of speculation beyond its passes (rejection, bookkeeping, starting the drafter), s."""
    unhidden_s: float = 0.0
    """Per sequence and round where the engine does not schedule ahead of the GPU while it speculates, s."""
    draft_pass_s: float = 0.0
    """Between two passes of a draft, s; 0 where they are in graphs."""
    drafts_found: bool = False
    """Whether a sequence goes on without drafts where a lookup found none, as in vLLM (v1/spec_decode): SGLang, and
    TensorRT-LLM (_torch/speculative/ngram.py), fill them up to the usual number, and verify them."""
    tree_s: float = 1.0e-3
    """Per round whose drafts form a tree (building it, choosing among its branches), s."""

    def verifying(self, method: str) -> EngineConstants:
        """Return the same for passes that verify what a method of `theory.hardware.rounds` drafts."""
        if method != "block-drafter" or self.of_block_s is None:
            return self
        return replace(self, verified_s=self.of_block_s)

    def is_new_to(self, architecture: str) -> bool:
        """Return whether a mixture of an architecture may be slower than those that tell the constants."""
        return bool(self.mixtures) and architecture not in self.mixtures

    def keeps_windows_whole(self, architecture: str) -> bool:
        """Return whether an architecture's layers with a window keep all tokens in the cache."""
        return self.windowed is not None and architecture not in self.windowed

    def kept_states(self, round_tokens: int) -> float:
        """Return the copies of its layers' states that a sequence keeps, [-], with so many tokens a round, 0: plain."""
        return max(1.0, self.states + round_tokens)

    def kernels(self, gpu: str) -> dict[str, Any]:
        """Return how the engine's kernels on a GPU differ, as `theory.hardware.sources.FittedOperators` takes it."""
        fused = self.fused_sums == "all" or (self.fused_sums == "Blackwell" and gpu in BLACKWELL)
        narrow = self.narrow_cache if gpu.startswith(("NVIDIA H", "NVIDIA GH")) else 1.0
        sparse = self.sparse if gpu in BLACKWELL else 1.0
        return {"fused": fused, "narrow": narrow, "sparse": sparse, "products": self.products}

    def chunk(self, memory: float) -> int:
        """Return the rows of a pass at most on a GPU with so many bytes of memory."""
        return next(rows for most, rows in self.chunks if memory < most * 2.0**20)

    def waiting(self, shape: Shape) -> float:
        """Return what an iteration takes more where a model's states keep the engine from scheduling ahead, s.

        SGLang's cache of prefixes does with gated delta nets, Mamba, and short convolutions without experts
        (``_handle_mamba_radix_cache`` of its server_args.py).
        """
        kinds = {group.attention.kind for group in shape.layers if isinstance(group.attention, Recurrent)}
        waits = kinds - {"kda", "lightning"} and not (shape.has_experts and kinds == {"convolution"})
        return self.waiting_s if waits else 0.0

    @property
    def drafting(self) -> EngineConstants:
        """The same for passes of a draft: what sequences and drafted tokens take is the target's."""
        return replace(self, sequence_s=0.0, verified_s=0.0, ungraphed_s=0.0, ungraphed_decoding_s=0.0)


_VERIFIED_S: Final = 2.2e-5
"""Fitted to vLLM 0.24.0 on A100, and taken for its other versions and TensorRT-LLM; so are, but for 0.11.1, rounds and
passes of drafts without time of their own."""
_UNHIDDEN_S: Final = 1.1e-4
"""Rounds of Qwen3-8B with DFlash on one B200 with and without "Spec V2", 1 and 32 answers at once: 7.1 and 7.5, 16.8
and 21.4 ms (sgl-project/sglang#20547); 5.5 and 7.5, 13.5 and 18.2 (#23000)."""

_vllm = partial(EngineConstants, name="vllm", narrow_cache=1.23, sparse=0.65, verified_s=_VERIFIED_S, drafts_found=True)
# The cache by its documentation: ``free_gpu_memory_fraction`` (0.9) and ``GUARANTEED_NO_EVICT``, the defaults.
_trtllm = partial(
    EngineConstants,
    name="trtllm",
    balanced=True,
    of_free=True,
    reserving=True,
    windowed=frozenset(),
    fused_sums="all",
    narrow_cache=0.87,
    products=0.94,
    moved_states=4.0,
    verified_s=_VERIFIED_S,
)
_sglang = partial(
    EngineConstants,
    name="sglang",
    narrow_cache=1.33,
    products=0.9,
    # Two families tell these two to 6e-6; before experts had tiles they asked for 5.2e-6 and 2.2e-6, 6.5 % off so and
    # so, with which gains of the heads of six models, left out, were 5.5 % off, and 5.1 with these.
    norm_s=2.4e-6,
    expert_norm_s=3.2e-6,
    # from the cookbook's Qwen3.8-27B on GB300, one answer at a time, and prompts of its pplx-decider-27B; dense
    # LFM2.5 of 350M and 1.2B, not fitted, ask for 0.83 to 1.14 ms on Hopper; 8B-A1B, with experts, for none
    waiting_s=9.6e-4,
    recurrent_prompt_s=3.3e-4,
    states=5.0,
    moved_states=2.0,
    sequence_s=1.59e-5,
    # not told apart by batches of up to 8, and more than nothing: else speculation would gain at any batch
    verified_s=1e-5,
    apart=True,
    # ``_handle_gpu_memory_settings`` of its server_args.py
    chunks=((35 * 1024, 2048), (60 * 1024, 4096), (160 * 1024, 8192), (math.inf, 16384)),
    round_s=9.15e-4,
    draft_pass_s=4.8e-5,
    ungraphed_s=4.0e-4,
    prompt_rows=0.0,
    # Medians of nine, four and four mixtures: how much longer than others the iterations take that read a prompt of
    # some hundred tokens, per layer (the cookbook; sgl-project/sglang#12160 times one of a single token, #34299 prompts
    # of 129 to 2,049 that take the same). More than 0.5 ms in dense layers would slow Llama-3.1-8B in aiconfigurator's
    # table; Qwen3-4B with SGLang's kernels takes 0.46 (wejoncy/sfllm#46). Builds since 0.5.10 have graphs for some.
    launches=Launches(attention=5.0e-4, latent=1.0e-3, sparse=1.0e-3, states=1.4e-3, experts=5.0e-4),
)
_TRTLLM_12: Final = _trtllm(
    version="1.2.0",
    until="1.3",
    norm_s=1.04e-5,
    expert_norm_s=2.72e-5,
    blackwell=0.216,
    sequence_s=5.2e-6,
    ungraphed_s=9.95e-3,
)
_MIXTURES: Final = frozenset({"bailing_moe_v2", "deepseek_v3", "kimi_k2", "llama4_text", "qwen3_moe"})
"""Of SpecBundle and aiconfigurator's table."""
_PRICED: Final = (
    _vllm(
        version="0.11.1",
        norm_s=1.22e-5,
        expert_norm_s=1.92e-5,
        recurrent_s=4.4e-5,
        sequence_s=5.52e-5,
        ungraphed_s=5e-3,
        untuned=0.73,
        untuned_small=0.372,
        padding=127.0,
        verified_s=5.7e-5,  # no less than a sequence: else speculation would gain at any batch
        # AngelSlim's EAGLE-3 heads of six Qwen3 targets on one H20, vLLM 0.11.2 (benchmarks.gains); 0.8 took 2 ms
        # with one model on H100 (vllm-project/vllm#16035): it does not schedule ahead while drafts are out
        round_s=4.5e-4,
    ),
    # Fitted to 0.15.1 (as 0.12.0), and to 0.18.0, 0.19.0, 0.24.0 and a nightly together. 0.16.0 and 0.17.0 were
    # measured with MiniMax-M2.5 only, which 0.18.0 made faster. Dense layers are those of 0.18.0.
    _vllm(version="0.12.0", norm_s=0.0, expert_norm_s=1.22e-5, sequence_s=5.65e-6, ungraphed_s=5.04e-3),
    _vllm(version="0.16.0", norm_s=0.0, expert_norm_s=1.98e-5, sequence_s=1.27e-5, ungraphed_s=5.45e-3),
    _vllm(version="0.17.0", norm_s=0.0, expert_norm_s=1.39e-5, sequence_s=2.46e-5, ungraphed_s=5.84e-3),
    _vllm(
        version="0.18.0",
        until="0.24",
        norm_s=0.0,
        expert_norm_s=8.8e-6,
        sequence_s=4.85e-6,
        ungraphed_s=7.75e-3,
        ungraphed_decoding_s=7.2e-3,  # with what a drafted token takes
        # The vLLM blog of 14 August 2026: rounds of DeepSeek-V4-Pro on B300, k = 5 to 7, 16 to 64 answers, leave no
        # room for more; 43 layers of DeepSeek-V4-Flash take 104 ms from the first size without a graph on.
        of_block_s=1e-6,
        launches=Launches(sparse=2.42e-3),
        graphed_rows=2048.0,
    ),
    # development versions of 2025, measured with gpt-oss; dense layers are those of 1.0.0
    _trtllm(version="0.21.0", norm_s=1.04e-5, expert_norm_s=1.96e-5, sequence_s=0.0, ungraphed_s=4.86e-3),
    # measured with a dense model; layers with experts by the usual ratio of the two
    _trtllm(version="1.0.0", norm_s=1.04e-5, expert_norm_s=1.03e-5, sequence_s=4.1e-6, ungraphed_s=8.1e-3),
    # Dense layers are those of 1.0.0. On Hopper fitted to rows that do not say their version; what a sequence
    # and a pass outside graphs take there is Blackwell's.
    _TRTLLM_12,
    # not measured: its models come with their windows, Llama 4 does not
    replace(
        _TRTLLM_12,
        version="1.4.0",
        until="",
        windowed=frozenset({"gpt_oss", "gemma2", "gemma3_text", "gemma4", "gemma4_text", "gemma4_unified"}),
    ),
    # Fitted to tokens per second of four mixtures in bf16 on B200 in versions 0.5.6 and 0.5.8 (SGLang's cookbook); what
    # Llama-3.1-8B (0.5.6) and DeepSeek-R1 tell is below. Their sums were not fused yet but DeepSeek's and gpt-oss's.
    _sglang(
        version="0.5.6",
        general_s=6.0e-5,
        unhidden_s=_UNHIDDEN_S,
        mixtures=_MIXTURES | {"glm4_moe", "gpt_oss", "qwen3_next"},
    ),
    # experts in bf16 have TensorRT-LLM's kernels there
    _sglang(version="0.5.9", until="0.5", fused_sums="Blackwell", mixtures=_MIXTURES, unhidden_s=_UNHIDDEN_S),
    # "Spec V2" by default (sgl-project/sglang#21062)
    _sglang(version="0.5.11", fused_sums="Blackwell", mixtures=_MIXTURES),
)
ENGINES: Final[Mapping[tuple[str, str], EngineConstants]] = MappingProxyType(
    {(one.name, one.version): one for one in _PRICED}
)


def engine_named(name: str, version: str | None = None) -> EngineConstants:
    """Return the constants of an engine: of the latest priced version up to the one said; of the latest if unsaid.

    Parameters
    ----------
    version : a number such as ``0.15.1``; a nightly build counts as the latest. Later ones than were measured are not
        priced (`is_priced`), and have the constants of the latest.

    Raises
    ------
    ParameterError : an unknown engine, a version that is no number, or one before those that are priced.

    >>> engine_named("vLLM", "0.11.2").version, engine_named("vllm", "0.32").version
    ('0.11.1', '0.18.0')
    """
    known = _versions(name)
    if version and not version.startswith("nightly") and (_numbers(version) or ()) < min(known):
        priced, newest = ", ".join(one.version for _, one in sorted(known.items())), known[max(known)]
        rule = f"has no known times: known are {priced} and later; without a version, {newest.version}"
        raise ParameterError(f"{newest.name} version", version, rule)
    later = not version or version.startswith("nightly")
    return known[max(known)] if later else nearest_engine(name, str(version))


def is_priced(name: str, version: str) -> bool:
    """Return whether an engine's version is among those that constants are known for; nightly builds are.

    Raises
    ------
    ParameterError : an unknown engine.
    """
    known = _versions(name)
    if version.startswith("nightly"):
        return True
    requested, until = _numbers(version), next(one.until for one in known.values() if one.until)
    *first, last = (_numbers(until) or ())[: until.count(".") + 1]  # 0.24 ends before 0.25
    return requested is not None and min(known) <= requested < (*first, last + 1)


def nearest_engine(name: str, version: str) -> EngineConstants:
    """Return the same for rows that were measured: of the nearest priced version where the said one is not priced.

    Named builds of development branches without a number count as the earliest.

    Raises
    ------
    ParameterError : an unknown engine.

    >>> nearest_engine("trtllm", "gpt-oss-dev").version, nearest_engine("vllm", "0.31").version
    ('0.21.0', '0.18.0')
    """
    known = _versions(name)
    if not version or version.startswith("nightly"):
        return next(one for one in known.values() if one.until)
    requested = _numbers(version) or min(known)
    return known[max((one for one in known if one <= requested), default=min(known))]


def _versions(name: str) -> dict[tuple[int, ...], EngineConstants]:
    """An engine's constants by the numbers of their versions."""
    plain = "".join(c for c in name.lower() if c.isalnum()).replace("tensorrtllm", "trtllm")
    known = {_numbers(one.version) or (): one for key, one in ENGINES.items() if key[0] == plain}
    if not known:
        names = ", ".join(dict.fromkeys(key[0] for key in ENGINES))
        raise ParameterError("engine", name, f"is not known: known are {names}")
    return known


def _numbers(version: str) -> tuple[int, ...] | None:
    """The first three numbers of a version; None where it does not begin with a number."""
    match = re.match(r"v?(\d+(?:\.\d+){0,2})", version)
    if match is None:
        return None
    numbers = [int(part) for part in match.group(1).split(".")]
    return (*numbers, 0, 0)[:3]
