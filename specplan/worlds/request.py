"""What a user wants to serve: models, GPUs, sizes of prompts and answers, and under which load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Self

from calibrate.token_acceptance.schedule import Schedule
from specplan.worlds.memory import ENGINE_SHARE
from theory.checks import positive, scalar_count
from theory.errors import ParameterError
from theory.hardware.formats import Precision

if TYPE_CHECKING:
    from sim.serving.arrivals import Arrivals
    from specplan.worlds.drafters.known_acceptance import KnownAcceptance
    from specplan.worlds.measured_operators import Operators
    from specplan.worlds.model_files import ModelFacts
    from theory.hardware.engines import EngineConstants
    from theory.hardware.gpu_records import Gpu

__all__ = ["Deployment", "Limits", "Load", "Placement", "ServedModel"]

Placement = Literal["any", "shared", "own"]
"""Where draft and judge run: on the target's GPUs, on their own, or whatever is faster."""
_MOST_K: Final = 32
_ANSWER_SPREAD: Final = 0.8
"""Standard deviation / mean of answers' tokens, unless a plan says another. Over all clients of a cloud the lengths are
about exponential (1; ServeGen, arXiv:2505.09999), in Azure's conversations of 2023 it is 0.86 (60 requests in a row),
and answers to questions of one kind differ less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model and the formats that it is served in."""

    facts: ModelFacts
    precision: Precision

    @classmethod
    def published(cls, facts: ModelFacts, cache: str | None = None) -> Self:
        """Return a model in the formats that it is published in; ``cache``: of keys and values, where it is another."""
        precision = facts.precision if cache is None else replace(facts.precision, cache=cache)
        return cls(facts=facts, precision=precision)

    @property
    def name(self) -> str:
        """Name of the model, as the user gave it."""
        return self.facts.name

    @property
    def quantised_on_loading(self) -> bool:
        """Whether vLLM and SGLang make the wanted format when they load the published weights: fp8 of bf16."""
        published, wanted = self.facts.precision, self.precision
        plain = published.weights == published.expert_format.name == "bf16"
        return plain and wanted.weights == wanted.expert_format.name == "fp8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many answers are wanted, and when."""

    concurrency: int | None = None
    """Answers in flight at any time (closed loop), >= 1."""
    rate: float | None = None
    """Answers that arrive per second (Poisson), > 0."""
    burstiness: float = 1.0
    """Standard deviation / mean of the gaps between arrivals at a rate, [-], > 0: 1 is at random (Poisson)."""
    trace: Arrivals | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.concurrency, self.rate, self.trace)) != 1:
            raise ParameterError("load", self.text, "must be a concurrency, a rate or a trace: one of them")
        if self.concurrency is not None:
            scalar_count("concurrency", self.concurrency, maximum=4096)
        if self.rate is not None:
            positive("rate", self.rate)
        positive("burstiness", self.burstiness)

    @property
    def per_second(self) -> float | None:
        """Answers that arrive per second; None in a closed loop."""
        return self.rate if self.trace is None else self.trace.rate

    def part(self, copies: int, n: int) -> Arrivals | None:
        """Return what one of some copies of a deployment meets of a trace, ``n`` arrivals at most; None without one."""
        if self.trace is None:
            return None
        every = slice(None, n * copies, copies)
        trace = self.trace
        return type(trace).of(trace.times_s[every], trace.prompt_tokens[every], trace.answer_tokens[every])

    @property
    def text(self) -> str:
        """The load in a word or two."""
        if self.concurrency is not None:
            return str(self.concurrency)
        return "trace" if self.rate is None else f"{self.rate:g}/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an answer may cost and take; None: no bound."""

    ttft_s: float | None = None
    """Time to first token that 90 % of the answers must meet, s."""
    tpot_s: float | None = None
    """Time per output token that 90 % of the answers must meet, s."""

    @property
    def binding(self) -> bool:
        """Whether a time is bounded."""
        return self.ttft_s is not None or self.tpot_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Models, GPUs and sizes; the ranges of numbers are checked where they are given (`specplan.ranges`)."""

    target: ServedModel
    draft: ServedModel | None = None
    judge: ServedModel | None = None
    """Compares steps; None: the target does."""
    head: ServedModel | None = None
    """A head of the target that drafts token by token."""
    block: ServedModel | None = None
    """A drafter of blocks for the target (DFlash, DSpark)."""
    gpu: Gpu
    gpus: int
    tp: int | None = None
    """GPUs that share the target in speculative arrangements; None: whatever is best."""
    placement: Placement = "any"
    engine: EngineConstants
    operators: Operators = "auto"
    """Whose operators passes are made of, see `specplan.worlds.measured_operators`."""
    engine_version: str = ""
    """As the user said it; that of ``engine`` where nothing was said."""
    engine_said: bool | None = None
    """Whether the user said it: what later versions have is planned where nothing was said. None: if it is given."""
    passed_over: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    """What exists to draft tokens and is not considered, by the engines' name of the method, and why."""
    context: int
    answer_tokens: int
    answer_spread: float = _ANSWER_SPREAD
    """Standard deviation / mean of the tokens of answers, [-], in [0, 4]; 0: all are as long."""
    task: str | None = None
    """What is answered, for priors of acceptance; None: anything."""
    alpha1: float | None = None
    """Step acceptance, if it is known, in [0, 1]."""
    acceptance: Mapping[str, KnownAcceptance] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    """Token acceptance where it is known, by method as engines call it; it holds for that method alone."""
    gpu_price: float | None = None
    k: int | Schedule | None = None
    """Tokens drafted per round at every load, in [1, 32], or by batch size; None: the schedule's."""
    max_num_seqs: int | None = None
    """Sequences in flight of one engine at most, in [1, 4096]; None: as many as a load needs, up to vLLM's default."""
    memory_share: float = ENGINE_SHARE
    """Of a GPU's memory that the engines on it take, in (0, 1]: vLLM's ``gpu_memory_utilization``."""

    def __post_init__(self) -> None:
        if self.engine_said is None:
            object.__setattr__(self, "engine_said", bool(self.engine_version))
        if not self.engine_version:
            object.__setattr__(self, "engine_version", self.engine.version)
        if self.most_k is not None:
            scalar_count("k", self.most_k, maximum=_MOST_K)
        if self.context <= self.answer_tokens:
            rule = f"must be greater than the answer's {self.answer_tokens} tokens: it holds prompt and answer"
            raise ParameterError("context", self.context, rule)
        for role, model in (("target", self.target), ("draft", self.draft)):
            if model is not None and self.context > (reads := model.facts.max_context or self.context):
                rule = f"must be at most {reads} tokens, which is what the {role} {model.name} reads"
                raise ParameterError("context", self.context, rule)
        self._check_formats()
        self._check_blocks()

    def _check_formats(self) -> None:
        """On Volta vLLM has no kernels for weights in fp8 or fp4, and of those in 4 bits for GPTQ's only."""
        served = self.target.precision
        formats = (served.attention_format, served.weight_format, served.expert_format)
        other = next((one.name for one in formats if one.arithmetic != "bf16"), None)
        if other is not None and self.gpu.name.startswith("NVIDIA V100"):
            rule = f"is not served on {self.gpu.name}: take bf16 (float16 there) or a GPTQ copy in int4 or int8"
            raise ParameterError("precision", other, rule)

    def _check_blocks(self) -> None:
        """Tokens per round of blocks are those of blocks which the drafter drafts, if positions were not measured."""
        if self.block is None or (sizes := self.block.facts.block) is None:
            return
        known = self.acceptance.get(method := self.block.facts.architecture)
        if known is not None and (known.drafted or 0) > max(sizes.most, len(known.per_position)):
            rule = f"must be measured at a k of {sizes.text} (@K): that is what blocks of {self.block.name} draft"
            raise ParameterError("acceptance", f"{method} at k = {known.drafted}", rule)

    @property
    def most_k(self) -> int | None:
        """The given k, of a table the largest; None: none is given."""
        return self.k.most if isinstance(self.k, Schedule) else self.k

    @property
    def prompt_tokens(self) -> int:
        """Tokens of a prompt."""
        return self.context - self.answer_tokens
