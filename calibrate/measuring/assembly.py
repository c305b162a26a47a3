"""Assembly of a profile from the journal of a calibration: finished pieces, warm-ups separately, and provenance."""

from __future__ import annotations

import datetime
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from calibrate.engines.local import version_of
from calibrate.engines.torch.cuda.telemetry import GpuState, gpu_notes
from calibrate.loads.levels import kept_clients, kept_loads, load_notes
from calibrate.measuring.answers import kept_texts
from calibrate.measuring.from_outside import left_out_notes
from calibrate.measuring.noise import leading_slow, steadiness
from calibrate.measuring.plan import CalibrationPlan
from calibrate.record.answer_records import RecordedAnswer
from calibrate.record.engine_records import FIELD_OF_USE, STEPWISE, DecodeSample, EngineRecord, InUse, Sentinel
from calibrate.record.journal import Journal
from calibrate.record.profile import Profile, Provenance
from calibrate.record.prompt_lookup import count_acceptance
from calibrate.record.token_records import TokenAnswer, TokenRecord
from sim.roles import EMBEDDING, TARGET

__all__ = ["assemble"]

_NGRAMS: Final = ((1, 8), (2, 8), (3, 8))
"""(longest n-gram, speculative tokens) whose acceptance is counted; LR uses n-grams of 1 and 2 with 8 tokens."""
_PACKAGES: Final = ("specplan", "numpy", "scipy", "torch", "transformers")


def assemble(
    plan: CalibrationPlan,
    journal: Journal,
    engines: Mapping[str, Any],
    placement: dict[str, str],
    stamp: dict[str, Any],
    *,
    n_answers: int,
    n_rounds: int,
) -> Profile:
    """Assemble a profile."""
    answers = [journal[f"answer:{problem.key}"] for problem in plan.problems[:n_answers]]
    texts = kept_texts(journal, plan.texts)
    rounds = {
        name: [EngineRecord.model_validate(journal[f"engine:{name}:{number}"]) for number in range(n_rounds)]
        for name in engines
    }
    records, notes = dict[str, EngineRecord](), list(stamp.get("notes", ()))
    for name in engines:
        records[name], n_slow = _engine_record(name, rounds[name], answers)
        records[name] = records[name].model_copy(update={"clients_in_use": kept_clients(journal, plan.clients, name)})
        left_out = left_out_notes(plan.engine.batches, [timed.decode for timed in rounds[name]])
        notes += [*_notes(name, records[name], n_slow), *(f"{name}: {note}" for note in left_out)]
    notes += gpu_notes([[GpuState(*state) for state in answer.get("gpus", ())] for answer in answers])
    by_load = {"by_load": kept_loads(journal, plan.decodings)}
    records[placement[TARGET]] = records[placement[TARGET]].model_copy(update=by_load)
    notes += load_notes(journal, plan.decodings)
    ids = [answer["ids"] for answer in (*answers, *texts) if answer["ids"] is not None]
    each = [answer["token"] for answer in answers]
    by_setting = ((s, [TokenAnswer.model_validate(one[s.key]) for one in each if s.key in one]) for s in plan.token)
    return Profile(
        name=plan.name,
        source="measured",
        provenance=Provenance(
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            command=plan.command,
            seed=plan.models.seed,
            **{"device": _cpu_name(), **stamp, "notes": notes},
            cpu=_cpu_name(),
            n_cores=len(os.sched_getaffinity(0)),
            os=platform.platform(terse=True),
            python=platform.python_version(),
            packages={name: version_of(name) or "absent" for name in _PACKAGES},
        ),
        models={
            role: plan.models.record(role, engines[name])
            for role, name in placement.items()
            if role == TARGET or plan.models.inspection().drafts
        },
        placement=placement,
        engines=records,
        answers=[RecordedAnswer.model_validate(answer["record"]) for answer in answers],
        texts=[RecordedAnswer.model_validate(text["record"]) for text in texts],
        ngram=[count_acceptance(ids, max_ngram=n, n_speculative=tokens) for n, tokens in _NGRAMS] if ids else [],
        token=[TokenRecord.counted(one.method, one.knobs, own) for one, own in by_setting if own],
        role_seconds=_role_seconds(answers),
        settings=plan.models.settings(),
    )


def _role_seconds(answers: Sequence[Any]) -> dict[str, list[float]]:
    """Times of verdicts by roles without an engine, s; of embeddings during target steps, if there are any."""
    concurrent = [seconds for answer in answers for seconds in answer.get("embedding_seconds", ())]
    parts = [answer["role_seconds"] for answer in answers]
    times = {role: [s for part in parts for s in part.get(role, [])] for role in sorted({r for p in parts for r in p})}
    return {**times, EMBEDDING: concurrent} if concurrent else times


def _engine_record(name: str, rounds: Sequence[EngineRecord], answers: Sequence[Any]) -> tuple[EngineRecord, int]:
    """All timing rounds of an engine, its work on the answers, and the number of samples in the warm-up."""
    decode = [sample for timed in rounds for sample in timed.decode]
    n_slow = _warm_up(decode, len(rounds[0].decode))
    work: dict[str, Any] = {
        field: [InUse.model_validate(answer[field][name]) for answer in answers if name in answer.get(field, ())]
        for field in (*FIELD_OF_USE.values(), STEPWISE)
    }
    record = EngineRecord(
        device=rounds[0].device,
        decode=decode[n_slow:],
        prefill=[sample for timed in rounds for sample in timed.prefill],
        request_s=[seconds for timed in rounds for seconds in timed.request_s],
        **work,
        warmup_decode=[*rounds[0].warmup_decode, *decode[:n_slow]],
        warmup_prefill=rounds[0].warmup_prefill,
        sentinels=[Sentinel(*answer["sentinels"][name]) for answer in answers],
    )
    return record, n_slow


def _warm_up(decode: Sequence[DecodeSample], n_first: int) -> int:
    """Number of leading samples of the first round that were still slow, relative to the median of their cells.

    The first sample of every cell is kept: a cost model needs it, even if it is slow.
    """
    cells: dict[tuple[int, int, int], list[float]] = defaultdict(list)
    keys = [(sample.tokens, sample.batch, sample.context // 64) for sample in decode]
    for key, sample in zip(keys, decode, strict=True):
        cells[key].append(sample.seconds)
    usual = {key: max(float(np.median(seconds)), 1e-12) for key, seconds in cells.items()}
    ratios = [sample.seconds / usual[key] for key, sample in zip(keys[:n_first], decode, strict=False)]
    n_slow = leading_slow(ratios)
    while n_slow and not set(keys) <= set(keys[n_slow:]):
        n_slow -= 1
    return n_slow


def _notes(name: str, record: EngineRecord, n_slow: int) -> list[str]:
    notes = [f"{name}: the first {n_slow} iterations were slow and count as warm-up"] if n_slow else []
    steady = steadiness(record.sentinels)
    if steady is None:
        return notes
    complaint = steady.complaint()
    return [*notes, f"{name}: {steady}", *([f"warning: {name} was not steady: {complaint}"] if complaint else [])]


def _cpu_name() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
