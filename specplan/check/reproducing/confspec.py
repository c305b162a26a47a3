"""Predict ConfSpec's Tables 2 and 3 from other published values.

Speedups are never inputs. Inputs are the acceptance rates of Lookahead Reasoning (LR), Tables 1 and 2, on the same
models and data sets; ConfSpec's latencies (Table 6); and how often its draft is sure, and right, as a verifier (Figure
1, on MATH500, taken for all data sets). Where draft and target disagree, the draft is assumed to accept what the target
rejects: such a lenient verifier explains why the accuracy falls to that of the draft without a target (Table 3, "Draft
Verification").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

from calibrate.record.library import bundled
from calibrate.record.profile import Profile
from calibrate.replay.system import system_of
from sim.algorithms.rules import PRESETS, RELEASED_CODE
from sim.answers.acceptance import Acceptance
from sim.answers.drawn import SyntheticBehaviour
from sim.answers.facts import Quality
from sim.configuration import PLAIN, Configuration
from sim.roles import EMBEDDING, GATE, JUDGE
from sim.trial import trial_seconds
from specplan.check.reproducing.cells import Compared, mean_error
from specplan.output import percent, table
from theory.published.confspec import BENCHMARKS, CONFIDENT, LATENCY_MS, speedups

__all__ = ["DATASETS", "REASONS", "Case", "Cell", "cells", "speedup"]

DATASETS: Final = {"AIME24": "aime24", "AMC23": "amc23", "GPQA": "gpqa", "HumanEval": "humaneval"}
"""Benchmarks of ConfSpec whose acceptance is in Table 1 of LR."""

N_STEPS: Final = 2 * len(DATASETS)

_IMPLIED_PAIR: Final = "qwen3"
"""Pair without published latencies: its c1 comes from ConfSpec's own speedups (see the notes of its profiles)."""

_DRAFT_S, _TARGET_S = (float(LATENCY_MS[f"{who} verification"]) / 1e3 for who in ("draft", "target"))

_EMBEDDED: Final = {"0.8": 0.485, "0.9": 0.415}
"""Acceptance by embeddings on AIME24, interpolated in Table 2 of LR: .45 at a threshold of .85, .38 at .95."""

REASONS: Final = (
    "MATH500: LR does not publish its acceptance",
    "ConfSpec at gamma 0.8 and 0.95: the share of drafts with that confidence (Figure 1 has 0.9 only)",
    "Embedding on benchmarks other than AIME24: acceptance (LR, Table 2, has AIME24 and GSM8K)",
    "ConfSpec does not state a limit of step lengths; that of LR's code, 100 tokens, is taken. Without a limit the "
    "error of Table 3 is 7.1 %",
    "Qwen3's LookaheadReasoning: c1 was derived from this row; its verifications by draft and target: latencies (Table "
    "6 has DeepSeek's, taken for both)",
    "Table 4, widths 2 and 4: the time of up to 31 and 341 concurrent target steps on their GPUs; with an assumed "
    "time, width 2 is simulated 15 to 22 % too fast",
    "SpecReason: acceptance with ConfSpec's scoring prompt; RSD and SpecCoT: acceptance, and times of their verdicts",
)
"""Rows that are not predicted, or use a borrowed input, and the missing values."""

TITLE: Final = "ConfSpec, Tables 2 and 3"
HEADING: Final = "Not predicted, or with a borrowed input; missing values:"
BELOW: Final = "Predicted / published speedups; off: mean error of the row. Largest errors: -v."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(Compared):
    """A speedup of the paper."""

    pair: str
    """``deepseek`` or ``qwen3``."""
    table: str
    """Table as in `theory.published.confspec.TABLES`."""
    row: str
    """Method, as in that table."""
    benchmark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A row of the paper's tables on a benchmark, and what is simulated for it."""

    table: str
    row: str
    configuration: str
    acceptance: float
    """Share of drafts that the row's verifier accepts, in [0, 1]."""
    judge_s: float = _TARGET_S
    """Time of the judge's verdict, s; ConfSpec's judge is the target."""
    escalated: float = 0.0
    """Share of drafts on which the gate is not sure, in [0, 1]."""


def cells(n_answers: int = 40, step_done: Callable[[], None] = lambda: None) -> list[Cell]:
    """Predict every cell whose inputs are published; ``step_done`` is called after each of `N_STEPS` parts."""
    results = []
    for pair in ("deepseek", "qwen3"):
        for benchmark in DATASETS:
            profile = bundled(f"lr-{pair}-{DATASETS[benchmark]}")
            results += [
                Cell(
                    pair=pair,
                    table=case.table,
                    row=case.row,
                    benchmark=benchmark,
                    predicted=speedup(profile, case, n_answers),
                    published=float(speedups(case.table, case.row)[BENCHMARKS.index(benchmark)]),
                )
                for case in _cases(profile, pair, benchmark)
            ]
            step_done()
    return results


def _cases(profile: Profile, pair: str, benchmark: str) -> Iterator[Case]:
    figures = profile.published
    assert figures is not None
    assert figures.verify_s is not None
    printed = figures.alpha1.value
    behaviour = system_of(profile).behaviour
    assert isinstance(behaviour, SyntheticBehaviour)
    counted = replace(behaviour, acceptance=Acceptance(alpha=printed))  # LR counts drafts after a cut step as rejected
    alpha = counted.judged_under(RELEASED_CODE).acceptance.alpha
    gate = CONFIDENT["DeepSeek-1.5B" if pair == "deepseek" else "Qwen3-1.7B"]
    agreement, sure_agreement, sure = (float(share) for share in gate)
    cascade = _accepted(alpha, sure * (1.0 - sure_agreement))
    if pair == "qwen3":
        yield Case(table="2 Qwen3", row="ConfSpec", configuration="confspec", acceptance=cascade, escalated=1.0 - sure)
        return
    yield Case(table="3", row="Target Verification", configuration="confspec verifier=judge", acceptance=alpha)
    draft_only = _accepted(alpha, 1.0 - agreement)
    yield Case(table="3", row="Draft Verification", configuration="confspec verifier=gate", acceptance=draft_only)
    yield Case(table="3", row="ConfSpec gamma=0.9", configuration="confspec", acceptance=cascade, escalated=1.0 - sure)
    lookahead = "lr-async k1=6 rules=released-code"
    judge_s = figures.verify_s.value
    yield Case(
        table="2 DeepSeek", row="LookaheadReasoning", configuration=lookahead, acceptance=printed, judge_s=judge_s
    )
    for at, share in _EMBEDDED.items() if benchmark == "AIME24" else ():
        by = f"{lookahead} verifier=embedding"
        yield Case(table="2 DeepSeek", row=f"Embedding alpha={at}", configuration=by, acceptance=share)


def _accepted(alpha: float, wrong: float) -> float:
    """Share of drafts that a lenient verifier accepts.

    Parameters
    ----------
    alpha : share that the target accepts, in [0, 1].
    wrong : share on which the verifier disagrees with the target, in [0, 1]: it accepts what the target rejects; if
        there is less of that, it rejects some of what the target accepts.
    """
    too_many = min(wrong, 1.0 - alpha)
    return alpha + too_many - (wrong - too_many)


def speedup(profile: Profile, case: Case, n_answers: int) -> float:
    """Return the simulated speedup of a row; an embedding takes as long as the gate, a model of at least its size."""
    system = system_of(profile)
    assert isinstance(system.behaviour, SyntheticBehaviour)
    acceptance = Acceptance(alpha=case.acceptance, siblings=system.behaviour.acceptance.siblings)
    behaviour = replace(system.behaviour, acceptance=acceptance, quality=Quality(escalation=case.escalated))
    configuration = Configuration.parse(case.configuration)
    behaviour = behaviour.judged_under(PRESETS[configuration.rules])
    seconds = {JUDGE: case.judge_s, GATE: _DRAFT_S, EMBEDDING: _DRAFT_S}
    system = replace(system, behaviour=behaviour, seconds=seconds)
    plain, method = (
        trial_seconds(system.trial(one.algorithm(), one.spec.meets), range(n_answers)).sum()
        for one in (PLAIN, configuration)
    )
    return float(plain / method)


def summary(cells: Sequence[Cell]) -> str:
    """State the errors pair by pair: a speedup of the same table enters the pair whose latencies are not published."""
    given, implied = ([c for c in cells if (c.pair == _IMPLIED_PAIR) is enters] for enters in (False, True))
    return (
        f"The {len(given)} speedups of DeepSeek's pair in Tables 2 and 3 are predicted with a mean absolute error of "
        f"{_errors(given)}, from acceptances, latencies and confidences published elsewhere; "
        f"no speedup is an input. The {len(implied)} of Qwen3's pair: {_errors(implied)}, "
        "with a c1 = 0.57 that is implied by LookaheadReasoning's speedups in the same Table 2."
    )


def _errors(cells: Sequence[Cell]) -> str:
    errors = [cell.error for cell in cells]
    return f"{mean_error(errors)} ({percent(max(map(abs, errors)))} at most)"


def short_table(results: Sequence[Cell]) -> str:
    """Predicted / published, a row of the paper's tables in each line."""
    lines = []
    for pair, row in dict.fromkeys((cell.pair, cell.row) for cell in results):
        own = {cell.benchmark: cell for cell in results if (cell.pair, cell.row) == (pair, row)}
        shown = [f"{own[b].predicted:.2f}/{own[b].published:.2f}" if b in own else "–" for b in DATASETS]
        lines.append([pair, row, *shown, percent(fmean(abs(cell.error) for cell in own.values()), 0)])
    return table(["pair", "row", *DATASETS, "off"], lines)
