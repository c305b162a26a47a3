"""Measured profiles with known answers, for tests: exact timings and hand-made verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from calibrate.profile import (
    AnswerRecord,
    DecodeSample,
    EngineRecord,
    Generated,
    ModelRecord,
    NGramRecord,
    PrefillSample,
    Profile,
    Provenance,
    StepRecord,
    VerdictRecord,
)

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


def _answer(accepted: Sequence[bool], number: int) -> AnswerRecord:
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
    return AnswerRecord(problem=str(number), prompt_tokens=8, steps=steps, baseline=baseline)


def _ngram() -> NGramRecord:
    return NGramRecord(
        max_ngram=2, n_speculative=3, passes=10, drafts=6, tokens=17, drafted_at=[6, 5, 4], accepted_at=[4, 2, 1]
    )
