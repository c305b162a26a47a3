"""Speedup of speculative serving, predicted from the acceptance length and what was deployed.

Acceptance lengths are predicted apart, as they are expected before anything is measured.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import Final

from specplan.check.scoreboard.deployments import facts_of
from specplan.check.scoreboard.rows import Acceptance, Speculated
from specplan.check.scoreboard.score import Choice, Outcome
from specplan.worlds.model_files import ModelFacts, draft_head
from specplan.worlds.priors import Prior, token_curves
from theory.errors import ParameterError, SpecplanError
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named
from theory.hardware.half_widths import GAIN, around, half_width
from theory.hardware.passes import PassModel
from theory.hardware.rounds import Round, head_round
from theory.hardware.work import Parallel, Work

__all__ = ["CONTEXT", "GPUS_TAKEN", "accepted_outcome", "besides", "deployed", "speculated_outcome", "speedup"]

_ANSWER_TOKENS: Final = MappingProxyType(
    {"gsm8k": 150.0, "humaneval": 300.0, "mtbench": 350.0, "financeqa": 350.0, "math500": 700.0, "gpqa": 1000.0,
     "livecodebench": 1000.0}
)  # fmt: skip
"""Tokens of an answer by data set, roughly: the table does not say them. They weigh what a request costs besides its
rounds (`_REQUEST`)."""
_OTHER_ANSWER: Final = 500.0
CONTEXT: Final = 600.0
"""Cached tokens of a running sequence, roughly."""
_REQUEST: Final = 0.027
"""Seconds that each new request holds up its batch: its prompt, and the turn of the client. Fitted."""
_KNOBS: Final = "steps, topk and k of the draft, acceptance lengths known,"
_KNOBS_BEFORE: Final = "steps and k of a chain, acceptance lengths not known,"
_METHODS: Final = ("dspark", "mtp", "eagle3", "eagle")
"""Words for methods in the tables, the more specific ones first."""

_SMALL: Final = 0.5  # of a GPU's memory: weights up to this are served by one
_FULL: Final = 0.75  # of it: weights up to this are served by four
_KINDS: Final = ("H100", "H200")


GPUS_TAKEN: Final = (
    "GPUs are not stated for speculative serving: weights that fill less than half of an H100 are taken to be served "
    "by one, others by four or eight (H200 where they do not fit)"
)


def speculated_outcome(row: Speculated, doubt: str | None) -> list[Outcome]:
    """Predict a row.

    Raises
    ------
    SpecplanError : a target that is not known, or that eight GPUs do not hold.
    """
    target, round_ = deployed(row.target, row.draft)
    predicted = speedup(round_, row)
    shape = "tree" if row.topk > 1 else "chain"
    outcome = Outcome(
        where=row.where,
        quantity="speedup",
        unit="",
        model=row.target,
        labels={
            "layers": "experts" if target.shape.has_experts else "dense",
            "k": f"{row.num_draft_tokens} ({shape}, {row.steps} steps, topk {row.topk})",
            "concurrency": str(row.batch),
            "dataset": row.dataset,
        },
        measured=row.speedup,
        predicted=predicted,
        interval=around(predicted, half_width(GAIN, round_.target, Work(sequences=row.batch))),
        doubt=doubt,
        choices=_choices(row, round_, predicted),
    )
    return [outcome]


def _choices(row: Speculated, round_: Round, predicted: float) -> tuple[Choice, ...]:
    """The draft's knobs as a choice: knowing the acceptance lengths, and, of chains, expecting those of the prior."""
    alike = (row.target, row.dataset, row.draft)
    option = f"steps={row.steps} topk={row.topk} k={row.num_draft_tokens}"
    known = Choice(goal=_KNOBS, alike=alike, option=option, measured=row.speedup, predicted=predicted)
    if row.topk > 1:
        return (known,)
    expected = speedup(round_, row, _length_prior("eagle3", row.steps + 1, row.dataset).value)
    return known, Choice(goal=_KNOBS_BEFORE, alike=alike, option=option, measured=row.speedup, predicted=expected)


def speedup(round_: Round, row: Speculated, accept_length: float | None = None) -> float:
    """Return plain time per token over that of rounds, both with what requests cost besides.

    Rounds commit ``accept_length`` tokens; None: those that the row gives.
    """
    plain = round_.seconds(row.batch, 1.0, CONTEXT)
    speculating = round_.seconds(row.batch, row.num_draft_tokens, CONTEXT, steps=row.steps, topk=row.topk)
    requests = _REQUEST * besides(row)
    return (plain + requests) / (speculating / (accept_length or row.accept_length) + requests)


def besides(row: Speculated) -> float:
    """Return how many requests hold up the batch per token of one of its answers."""
    return row.batch / _ANSWER_TOKENS.get(row.dataset, _OTHER_ANSWER)


def _target_of(facts: ModelFacts) -> PassModel:
    """The target as SpecBundle is taken to have served it."""
    weights = facts.shape.weight_bytes(facts.precision)
    first = gpu_named(_KINDS[0]).sheet.memory
    gpus = 1 if weights <= _SMALL * first else 4 if weights <= _FULL * 4 * first else 8
    for kind in _KINDS:
        gpu = gpu_named(kind)
        if weights <= 0.9 * gpus * gpu.sheet.memory:
            return PassModel(
                gpu=gpu, shape=facts.shape, precision=facts.precision, parallel=Parallel(tp=gpus),
                engine=engine_named("sglang"),
            )  # fmt: skip
    raise ParameterError("target", facts.name, f"has weights of {weights / 1e9:.0f} GB, more than eight H200 hold")


@cache
def deployed(target: str, draft: str) -> tuple[ModelFacts, Round]:
    """A target and its rounds with a named draft, or with a head of the usual size where the draft is not known."""
    facts = facts_of(target)
    try:
        head = facts_of(draft)
    except SpecplanError:
        head = draft_head(facts, "eagle3")
    return facts, head_round(_target_of(facts), head.shape)


def accepted_outcome(row: Acceptance | Speculated) -> list[Outcome]:
    """Predict the acceptance length of a chain; nothing of a tree, for which there is no prior.

    Raises
    ------
    SpecplanError : a method without a prior.
    """
    if isinstance(row, Speculated):
        if row.topk > 1:
            return []
        model, drafted, measured, said = row.target, row.steps, row.accept_length, "eagle3"
    else:
        model, drafted, measured = row.model, row.num_speculative_tokens, row.acceptance_length
        said = f"{row.method} {row.measured_on} {row.file}".lower().replace("eagle-3", "eagle3")
    method = next((one for one in _METHODS if one in said), said)
    prior = _length_prior(method, drafted + 1, row.dataset)
    outcome = Outcome(
        where=row.where,
        quantity="tokens per round",
        unit="tokens",
        model=model,
        labels={"method": method, "drafted": str(drafted), "dataset": row.dataset},
        measured=measured,
        predicted=prior.value,
        interval=(prior.low, prior.high),
    )
    return [outcome]


def _length_prior(method: str, k2: int, dataset: str) -> Prior:
    """The prior of tokens per round of a data set, or of any where the data set is not known."""
    try:
        return token_curves(method, dataset).tokens(k2)
    except ParameterError:
        return token_curves(method).tokens(k2)
