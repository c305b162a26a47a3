"""Measured profiles with known answers, for tests: exact timings and hand-made verdicts."""

from collections.abc import Callable, Sequence
from typing import Any

from calibrate.record.answer_records import Generated, RecordedAnswer, StepRecord, VerdictRecord
from calibrate.record.engine_records import DecodeSample, EngineRecord, PrefillSample
from calibrate.record.profile import ModelRecord, Profile, Provenance
from calibrate.record.token_records import NGramRecord, TokenAnswer, TokenRecord, TokenRequest
from sim.engines.costs import TableCost

STEP_TOKENS = 21
"""Tokens of every step: the first comes with the prefill, 20 with iterations."""


def measured(
    accepted: Sequence[bool], *, target_s: float = 0.010, draft_s: float = 0.001, ngram: bool = False
) -> Profile:
    """Three answers with these verdicts; iterations of exactly ``target_s`` and ``draft_s``, all else nearly free."""
    engines = {name: _engine(name, s) for name, s in (("big", target_s), ("small", draft_s), ("judge", 1e-6))}
    return Profile(
        name="measured-test",
        source="measured",
        provenance=Provenance(created="2026-01-01"),
        models={"target": ModelRecord(name="big"), "draft": ModelRecord(name="small")},
        placement={"target": "big", "draft": "small", "judge": "judge"},
        engines=engines,
        answers=[_answer(accepted, number) for number in range(3)],
        ngram=[_ngram()] if ngram else [],
    )


def _engine(device: str, seconds: float) -> EngineRecord:
    decode = [DecodeSample(batch=b, context=c, seconds=seconds) for b in (1, 2, 4, 8) for c in (64, 640)]
    prefill = [PrefillSample(tokens=n, seconds=1e-9) for n in (8, 64)]
    return EngineRecord(device=device, decode=[*decode, *decode], prefill=[*prefill, *prefill], request_s=[0.0])


def _answer(accepted: Sequence[bool], number: int) -> RecordedAnswer:
    last = len(accepted) - 1
    steps = [
        StepRecord(
            draft=Generated(tokens=STEP_TOKENS, seconds=0.02, final=i == last),
            target=Generated(tokens=STEP_TOKENS, seconds=0.2, final=i == last),
            verdict=VerdictRecord(accepted=yes, seconds=0.0, prompt_tokens=8),
        )
        for i, yes in enumerate(accepted)
    ]
    baseline = [Generated(tokens=STEP_TOKENS, seconds=0.2, final=i == last) for i in range(len(accepted))]
    return RecordedAnswer(problem=str(number), prompt_tokens=8, steps=steps, baseline=baseline)


def swept(cost: TableCost, n: int = 3, noisy: Callable[[float], float] = float) -> EngineRecord:
    """A sweep of an engine that costs so much over batches and contexts, each timed ``n`` times."""
    decode = [
        DecodeSample(batch=b, context=b * c, seconds=noisy(cost.iteration(b, b * c)))
        for b in cost.batches
        for c in (50, 400, 900)
        for _ in range(n)
    ]
    prefill = [PrefillSample(tokens=t, seconds=noisy(cost.prefill(t))) for t in (4, 32, 256) for _ in range(n)]
    return EngineRecord(device="cpu", decode=decode, prefill=prefill, request_s=[noisy(cost.request_s)] * n)


def speculated(
    profile: Profile, method: str = "draft-model", *, k2: int = 3, pass_s: float = 0.012, draft_s: float = 0.002
) -> Profile:
    """The profile with a token-level method recorded on its target: every pass of a step commits k2 tokens.

    A pass takes ``pass_s`` seconds, ``draft_s`` of them for drafting; the last pass of a step is cut where it must be.
    """
    n_passes = -(-(STEP_TOKENS - 1) // k2)
    n_steps = len(profile.answers[0].steps)
    request = TokenRequest(tokens=STEP_TOKENS, passes=[(k2 - 1, k2 - 1)] * n_passes)
    n = n_passes * n_steps
    sums = (1, k2, n, 64 * n, n * pass_s, n * draft_s)
    answers = [TokenAnswer(problem=one.problem, requests=[request] * n_steps, decode=[sums]) for one in profile.answers]
    record = TokenRecord.counted(method, {"k2": k2}, answers)
    return profile.model_copy(update={"token": [*profile.token, record]})


def _ngram() -> NGramRecord:
    return NGramRecord(
        max_ngram=2, n_speculative=3, passes=10, drafts=6, tokens=17, drafted_at=[6, 5, 4], accepted_at=[4, 2, 1]
    )


def position(
    accepted: bool, correct: bool | None = None, *, target_correct: bool | None = None, score: float | None = None
) -> StepRecord:
    """One step of draft and target with its verdict, and whether the two are right."""
    return StepRecord(
        draft=Generated(tokens=4, seconds=0.1, correct=correct),
        target=Generated(tokens=4, seconds=0.4, correct=target_correct),
        verdict=VerdictRecord(accepted=accepted, score=score, seconds=0.0, prompt_tokens=8),
    )


def answer_of(*steps: StepRecord, problem: str = "p", **more: Any) -> RecordedAnswer:
    """An answer of these steps, without a baseline unless one is given."""
    return RecordedAnswer(problem=problem, prompt_tokens=5, steps=list(steps), **{"baseline": [], **more})


def with_engine(profile: Profile, name: str, **changes: object) -> Profile:
    """The profile with another record of one engine."""
    record = profile.engines[name].model_copy(update=changes)
    return profile.model_copy(update={"engines": {**profile.engines, name: record}})


def said(profile: Profile) -> list[Any]:
    """Everything recorded of the answers that is no time, by problem."""
    return [
        (
            answer.problem,
            [(s.draft.tokens, s.target.tokens, s.verdict.accepted, s.verdict.prompt_tokens) for s in answer.steps],
            [step.tokens for step in answer.baseline],
        )
        for answer in profile.answers
    ]


def scores(profile: Profile) -> list[Any]:
    """Scores of the verdicts and drafts of the answers."""
    return [(s.verdict.score, s.draft.scores) for answer in profile.answers for s in answer.steps]
