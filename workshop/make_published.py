"""Write the published profiles: the figures of the Lookahead Reasoning paper (LR), Table 1, as profile files.

Run ``python -m workshop.make_published`` after a change here; a test compares the files with this script.
Every value carries the half-width that its rounding or its assumption allows, and its source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from calibrate.record.profile import ModelRecord, Profile, Provenance, Published, PublishedValue
from theory.published.confspec import LATENCY_MS
from theory.published.lookahead_reasoning import DATASETS as PRINTED
from theory.published.lookahead_reasoning import TABLE_1

__all__ = ["DATASETS", "PAIRS", "published_profiles"]

DATASETS: Final = tuple(name.lower().replace("-", "") for name in PRINTED)
"""The columns of LR Table 1, in the paper's order."""

_LR: Final = "Lookahead Reasoning, Table 1"
_CONFSPEC: Final = "ConfSpec, Table 6 (DeepSeek-R1-Distill 1.5B / 32B, H200)"
_STEPS: Final = "Qwen3-32B on reasoning problems, split at blank lines (assumption)"
_DRAFT_MS, _TARGET_MS = (float(LATENCY_MS[f"{model} step"]) for model in ("draft", "target"))
_VERIFY_SMALL_MS, _VERIFY_LARGE_MS = (float(LATENCY_MS[f"{model} verification"]) for model in ("draft", "target"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """One half of LR Table 1, and what is known of its latencies."""

    draft: str
    target: str
    n_draft: int
    n_target: int
    c1: float
    """Time of a draft step against a target step, [-]."""
    c1_half_width: float
    c1_source: str
    table: Mapping[str, tuple[str, ...]]
    """The pair's rows of LR Table 1."""
    notes: tuple[str, ...] = ()


PAIRS: Final = {
    "deepseek": _Pair(
        table=TABLE_1["DeepSeek-R1-Distill"],
        draft="DeepSeek-R1-Distill-Qwen-1.5B",
        target="DeepSeek-R1-Distill-Qwen-32B",
        n_draft=1_777_088_000,
        n_target=32_763_876_352,
        c1=round(_DRAFT_MS / _TARGET_MS, 4),
        c1_half_width=0.03,
        c1_source=f"112.9 ms / 409.8 ms, {_CONFSPEC}; +/-0.03 for LR's H100s and for other datasets (assumption)",
    ),
    "qwen3": _Pair(
        table=TABLE_1["Qwen3"],
        draft="Qwen3-1.7B",
        target="Qwen3-32B",
        n_draft=1_720_574_976,
        n_target=32_762_123_264,
        c1=0.57,
        c1_half_width=0.07,
        c1_source="implied by ConfSpec, Table 2, row LookaheadReasoning, at the acceptances of LR, Table 1 (see notes)",
        notes=(
            "No latency is published for this pair. ConfSpec, Table 2, reports speedups of Lookahead Reasoning on both "
            "pairs (AIME24, AMC23, GPQA, HumanEval). At LR's acceptances the simulator meets them, on average, at c1 = "
            "0.52 (schedule released-code), 0.67 (eager) and 0.49 (paper) for this pair, at 0.10, 0.32 and 0.32 for "
            "DeepSeek's, of which Table 6 gives 0.2755. Between the first and the mean of the others, where 0.2755 is "
            "met there, it is 0.57 here; +/-0.07 for the schedule (0.06) and the spread of the data sets (0.04). No "
            "speedup of LR, Table 1, enters. "
            "`python -m workshop.confspec_table --c1` prints the figures.",
        ),
    ),
}
"""The two halves of LR Table 1. The paper prints "Qwen3 1.5B"; its text, and Qwen's list of models, say 1.7B."""


def published_profiles() -> list[Profile]:
    """The 14 profiles, by pair and dataset."""
    return [_profile(name, pair, column) for name, pair in PAIRS.items() for column in range(len(DATASETS))]


def _profile(pair_name: str, pair: _Pair, column: int) -> Profile:
    return Profile(
        name=f"lr-{pair_name}-{DATASETS[column]}",
        source="published",
        provenance=Provenance(
            created="2026-11-21",
            command="python -m workshop.make_published",
            engine="vLLM",
            engine_version="0.8.3",
            device="8 x H100: target on 2, draft on 1, judge on 1",
            citation="Fu et al. 2025, Scaling Speculative Decoding with Lookahead Reasoning, Table 1 and section 4",
            notes=[*_notes(DATASETS[column]), *pair.notes],
        ),
        models={
            "target": ModelRecord(name=pair.target, n_parameters=pair.n_target, dtype="bfloat16"),
            "draft": ModelRecord(name=pair.draft, n_parameters=pair.n_draft, dtype="bfloat16"),
            "judge": ModelRecord(name="Qwen2.5-7B-Instruct", n_parameters=7_615_616_512, dtype="bfloat16"),
        },
        published=_published(pair, column),
        settings={
            "dataset": DATASETS[column],
            "max_ngram": 1 if DATASETS[column] == "gsm8k" else 2,
            "n_speculative_tokens": 8,
            "step_token_limit": 100,
            "temperature": 0.6,
            "top_p": 0.95,
        },
    )


def _notes(dataset: str) -> list[str]:
    notes = [
        "Speedups are relative to autoregressive decoding of the target, one request at a time.",
        "Verdicts overlap: each takes verify_s, however many are asked for at once, as LR's released code does not "
        "wait for one to ask for the next. A judge that serves them one at a time costs .1 to .2 % of the speedup.",
    ]
    if dataset == "mtbench":
        notes.append("accuracy_target and accuracy_method are MT-Bench scores (points of 10), not shares.")
    return notes


def _published(pair: _Pair, column: int) -> Published:
    target_s = PublishedValue(value=_TARGET_MS / 1e3, half_width=0.04, source=f"{_CONFSPEC}; +/-10 % (assumption)")
    return Published(
        alpha1=_rounded(pair.table["LR acceptance"][column], f"{_LR}, row LR, Apt."),
        c1=PublishedValue(
            value=pair.c1,
            half_width=pair.c1_half_width,
            source=pair.c1_source,
        ),
        target_step_s=target_s,
        verify_s=_verify(),
        mean_step_tokens=PublishedValue(value=40.0, half_width=8.0, source=_STEPS),
        step_length_cv=PublishedValue(value=1.2, half_width=0.2, source=_STEPS),
        token_speedup=_rounded(pair.table["SD speedup"][column], f"{_LR}, row SD (n-gram)"),
        token_k2=9,  # 8 speculative tokens and the target's own
        step_speedup=_rounded(pair.table["LR speedup"][column], f"{_LR}, row LR, Speedup"),
        combined_speedup=_rounded(pair.table["SD+LR speedup"][column], f"{_LR}, row SD+LR"),
        k1=6,
        accuracy_target=_accuracy(pair, column, "target", "Target Model"),
        accuracy_method=_accuracy(pair, column, "LR", "LR"),
    )


def _verify() -> PublishedValue:
    """LR judges with a 7B model, ConfSpec with 1.5B and 32B: read between these two, linear in the logarithms."""
    share = math.log(7.6 / 1.54) / math.log(32.5 / 1.54)
    milliseconds = _VERIFY_SMALL_MS * (_VERIFY_LARGE_MS / _VERIFY_SMALL_MS) ** share
    return PublishedValue(
        value=round(milliseconds / 1e3, 4),
        half_width=0.012,
        source="7B judge, interpolated on log size between 8.7 ms (1.5B) and 45.9 ms (32B) of ConfSpec, Table 6",
    )


def _rounded(cell: str, source: str) -> PublishedValue:
    """A value printed with two decimals."""
    return PublishedValue(value=float(cell), half_width=0.005, source=source)


def _accuracy(pair: _Pair, column: int, who: str, row: str) -> PublishedValue:
    value = (float(pair.table[f"{who} {what}"][column]) for what in ("accuracy", "spread"))
    scale = 1.0 if DATASETS[column] == "mtbench" else 100.0
    mean, spread = (round(number / scale, 6) for number in value)
    return PublishedValue(value=mean, half_width=spread, source=f"{_LR}, row {row}, Acc. (half-width as printed)")


def main() -> None:
    """Write the files."""
    folder = Path(__file__).resolve().parent.parent / "calibrate" / "profiles"
    for profile in published_profiles():
        profile.write(folder / f"{profile.name}.json")


if __name__ == "__main__":
    main()
