"""Seconds of a round of token-level speculation: drafting, the target's verification, and the engine between them.

A round drafts ``k - 1`` tokens for each sequence and verifies them with the target in one pass of ``k`` tokens per
sequence. Drafts come from a head on the target's states (EAGLE, arXiv 2503.01840; multi-token prediction,
arXiv 2412.19437), from a drafter of blocks (DFlash, arXiv 2602.06036), which reads and drafts in one pass, from a model
of its own, or from the prompt (prompt lookup), which costs no pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final

from theory.errors import ParameterError
from theory.hardware.formats import FORMATS, Precision
from theory.hardware.mixers.states import Recurrent
from theory.hardware.passes import PassModel
from theory.hardware.shapes import Shape
from theory.hardware.work import Parallel, Work

__all__ = ["METHODS", "Round", "RoundParts", "head_round", "model_round"]

METHODS: Final = ("eagle", "mtp", "draft-model", "prompt-lookup", "block-drafter")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundParts:
    """Seconds of a round."""

    verification: float
    drafting: float
    engine: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.verification + self.drafting + self.engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Rounds of a target with a draft; the engine's time is that of the target's engine.

    Raises
    ------
    ParameterError : an unknown method, prompt lookup with a draft, or another method without one.
    """

    target: PassModel
    method: str
    draft: PassModel | None = None
    """The head or the model that drafts, on the target's GPUs or its own; None for prompt lookup."""
    chained_rank: int = 0
    """Rank of the matrices that move the scores of a block's tokens one after the other (DSpark); 0: none do."""

    _known: dict[tuple[float, float, int], float] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ParameterError("method", self.method, f"must be one of {', '.join(METHODS)}")
        if self.method == "prompt-lookup" and self.draft is not None:
            raise ParameterError("draft", "a model", "must not be given for prompt-lookup, which drafts from the text")
        if self.method != "prompt-lookup" and self.draft is None:
            raise ParameterError("draft", None, f"must be given for {self.method}")

    def seconds(self, batch: float, k: float, context: float, *, steps: int | None = None, topk: int = 1) -> float:
        """Return the seconds of a round; see `parts`."""
        return self.parts(batch, k, context, steps=steps, topk=topk).seconds

    def parts(self, batch: float, k: float, context: float, *, steps: int | None = None, topk: int = 1) -> RoundParts:
        """Return the seconds of a round by what takes them.

        Parameters
        ----------
        batch : sequences, > 0.
        k : tokens that the target verifies per sequence, >= 1; 1 is a plain step, without draft or round.
        context : cached tokens of each sequence, mean, >= 0.
        steps : passes of the draft, >= 1; None: ``k - 1``, a chain, or one for a block.
        topk : branches with which a pass of the draft goes on, >= 1; 1: a chain.
        """
        if not (math.isfinite(k) and k >= 1.0):
            raise ParameterError("k", k, "must be finite and >= 1")
        verification = self.target.seconds(Work(sequences=batch, tokens=k, context=context))
        drafting, engine = self.besides(batch, k, context, steps=steps, topk=topk)
        return RoundParts(verification=verification, drafting=drafting, engine=engine)

    def besides(
        self, batch: float, k: float, context: float, *, steps: int | None = None, topk: int = 1
    ) -> tuple[float, float]:
        """Return the seconds of drafting, and those of the engine between passes; see `parts`.

        Of a target on several stages the last one drafts, for each of the batches in turn.
        """
        for name, value in (("steps", 1 if steps is None else steps), ("topk", topk)):
            if value < 1:
                raise ParameterError(name, value, "must be >= 1")
        if k == 1.0:
            return 0.0, 0.0
        chain = 1 if self.method == "block-drafter" else math.ceil(k) - 1
        passes = chain if steps is None else steps
        constants, batches = self.target.engine, self.target.parallel.batches(batch)
        engine = constants.round_s + constants.unhidden_s * batch / batches
        engine += constants.moved_states * self._state_s(batch / batches)
        if self.draft is None:
            return 0.0, batches * engine
        engine += passes * constants.draft_pass_s + (constants.tree_s if topk > 1 else 0.0)
        return batches * self._drafting(self.draft, batch / batches, k, context, passes, topk), batches * engine

    def _drafting(self, draft: PassModel, batch: float, k: float, context: float, passes: int, topk: int) -> float:
        """Seconds of the draft's passes: the first reads what the last round committed, the others ``topk`` branches.

        A block is drafted in the pass that reads what was committed: its positions stand behind those tokens.
        """
        committed = (k + 1.0) / 2.0
        block = k - 1.0 if self.method == "block-drafter" else 0.0
        first = draft.seconds(Work(sequences=batch, tokens=committed + block, context=context))
        if self.chained_rank:
            outputs = draft.shape.vocab / draft.parallel.tp
            first += block * draft.operators.product(batch, outputs, self.chained_rank, FORMATS["bf16"])
        return first + ((passes - 1) * self._further(draft, batch, context, topk) if passes > 1 else 0.0)

    def _state_s(self, batch: float) -> float:
        """Seconds in which the states of so many sequences are read once."""
        target = self.target
        held = sum(
            group.count * group.attention.state_bytes * group.attention.state
            for group in target.shape.layers
            if isinstance(group.attention, Recurrent)
        )
        return batch * held / (target.parallel.tp * target.parallel.dp * target.gpu.states.bandwidth)

    def _further(self, draft: PassModel, batch: float, context: float, topk: int) -> float:
        """Seconds of a pass of the draft after its first, which do not depend on k."""
        key = batch, context, topk
        if key not in self._known:
            self._known[key] = draft.seconds(Work(sequences=batch, tokens=float(topk), context=context))
        return self._known[key]


def head_round(target: PassModel, head: Shape, method: str = "eagle", chained_rank: int = 0) -> Round:
    """Return the rounds of a target with a head in bf16 on its GPUs, of its last stage, split as that is."""
    draft = replace(
        target,
        shape=head,
        precision=Precision(cache=target.precision.cache),
        engine=target.engine.drafting,
        parallel=replace(target.parallel, pp=1),
    )
    return Round(target=target, method=method, draft=draft, chained_rank=chained_rank)


def model_round(target: PassModel, shape: Shape, precision: Precision) -> Round:
    """Return the rounds of a target with a draft model, split as the target is if its heads can be, else whole."""
    tp = target.parallel.tp
    parallel = Parallel(tp=tp if shape.layers[0].attention.heads % tp == 0 else 1)
    draft = replace(target, shape=shape, precision=precision, parallel=parallel, engine=target.engine.drafting)
    return Round(target=target, method="draft-model", draft=draft)
