"""Pass model of a round, made from the names of models and a GPU (`theory.hardware`)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from calibrate.engines.token_vocabulary import BLOCK_DRAFTERS
from specplan.live.explaining.costs import Named
from specplan.live.explaining.window import Window
from specplan.worlds.drafters.finding import find_block
from specplan.worlds.measured_operators import with_operators
from specplan.worlds.model_files import ModelFacts, block_drafter, draft_head, shape_of
from theory.errors import ParameterError
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named
from theory.hardware.half_widths import GAIN, half_width
from theory.hardware.passes import PassModel
from theory.hardware.rounds import Round, head_round
from theory.hardware.work import Parallel, Work

__all__ = ["named_round"]

_CONTEXT: Final = 2048.0
"""Cached tokens of a sequence where the window does not show them."""


def named_round(
    target: str,
    *,
    draft: str | None,
    eagle: str | None,
    gpu: str,
    tp: int,
    window: Window,
    engine: str,
    drafter: str = "chain",
) -> Named:
    """Return the pass model of a round at the window's batch and context.

    Parameters
    ----------
    target : name of the target model.
    draft : name of the model that drafts; None: a head, or the text (prompt lookup).
    eagle : name of an EAGLE head, or ``trained`` for one of the usual size; None without any.
    gpu, tp : name of the GPU, and tensor-parallel GPUs of the target, >= 1.
    window : the window that is explained.
    engine : ``vllm`` or ``sglang``, with a version after a colon if it matters.
    drafter : ``dflash`` or ``dspark`` where a block is drafted in one pass, by ``draft`` or by what is published.

    Raises
    ------
    ParameterError : an unknown name, a draft and a head at once, or a target that cannot be split so.
    """
    if draft is not None and eagle is not None:
        raise ParameterError("eagle", eagle, "must not be given with --draft: one of them drafts")
    facts = shape_of(target)
    if tp < 1 or any(layer.attention.heads % tp for layer in facts.shape.layers):
        raise ParameterError("tp", tp, f"must divide the attention heads of {target}")
    name, _, version = engine.partition(":")
    fitted = PassModel(
        gpu=gpu_named(gpu),
        shape=facts.shape,
        precision=facts.precision,
        parallel=Parallel(tp=tp),
        engine=engine_named(name, version or None),
    )
    passes, _ = with_operators(fitted)
    prompt, answer = window.prompt_tokens, window.answer_tokens
    context = prompt + answer / 2.0
    return Named(
        rounds=_round(passes, facts, draft, eagle) if drafter == "chain" else _blocks(passes, facts, draft, drafter),
        batch=window.batch,
        context=context if math.isfinite(context) else _CONTEXT,
        half_width=half_width(GAIN, passes, Work(sequences=window.batch)),
    )


def _blocks(target: PassModel, known: ModelFacts, draft: str | None, drafter: str) -> Round:
    """Rounds of a block drafter, of the usual size where none is published or named."""
    method = next(one for one in BLOCK_DRAFTERS if one == drafter)
    facts = find_block(known, (method,), draft or "").facts
    if facts is None:
        facts = block_drafter(known, method) if draft is None else shape_of(draft)
    return head_round(target, facts.shape, "block-drafter")


def _round(target: PassModel, known: ModelFacts, draft: str | None, eagle: str | None) -> Round:
    if eagle is not None:
        kinds = {"trained": "eagle3", "mtp": "mtp"}
        head = draft_head(known, kinds[eagle]) if eagle in kinds else shape_of(eagle)
        return head_round(target, head.shape)
    if draft is None:
        return Round(target=target, method="prompt-lookup")
    facts = shape_of(draft)
    tp = target.parallel.tp
    divides = facts.shape.layers[0].attention.heads % tp == 0
    model = replace(
        target,
        shape=facts.shape,
        precision=facts.precision,
        parallel=Parallel(tp=tp if divides else 1),
        engine=target.engine.drafting,
    )
    return Round(target=target, method="draft-model", draft=model)
