"""Fit the priors of acceptance: ``python -m workshop.fit_priors FOLDER [--write]``.

FOLDER holds ``specbundle.csv`` and ``acceptance_lengths.csv`` (columns as in their README). Prints how families of
models that were left out are covered by the intervals; ``--write`` renews ``specplan/worlds/priors.json``.

Every measured curve (a draft on a target and a data set) gets a level and a slope. A method's mean and the effects of
domains are linear in them, each target weighing the same, as it does in what is left, the spread between models. A
method with few targets borrows it: its covariance is that of its own targets and of all methods together, the latter as
heavy as `BORROWED` targets. The t distribution has as many degrees of freedom.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, variance
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrate.record.files import write_atomically
from calibrate.record.library import bundled
from specplan.worlds.prior_constants import (
    DOMAIN_OF,
    BlockConstants,
    LookupConstants,
    PriorConstants,
    StepConstants,
    TokenConstants,
    domain_shares,
)
from specplan.worlds.priors import curves_from, step_prior_from
from workshop.acceptance_curves import BLOCKS, LAWS, Curve, curves_in
from workshop.long_prompts import fit_long_prompts
from workshop.make_published import DATASETS, PAIRS

__all__ = ["Held", "Modes", "fit", "held_out", "thinking_modes"]

FILE: Final = Path(__file__).resolve().parent.parent / "specplan" / "worlds" / "priors.json"

BORROWED: Final = 4
"""Targets that the pooled spread counts for; coverage of left-out models is 0.96 to 0.98 at 2 to 8."""

RIDGE: Final = 0.1
"""Penalty on the effects of domains: the inverse of their variance over that between models, 0.3 / 3."""

LOOKUP_ROUND: Final = 1.05
"""A prompt-lookup round of 9 tokens over a plain pass, one answer at a time: 1.00 to 1.10 for dense targets of 32B."""

GOING_ON: Final = (1.4, 0.5)
"""Logit of the acceptance after a first hit, mean and spread: 0.60 to 0.92, assumed; measured n-grams are far from
geometric."""

_EDITED: Final = (1.86, 1.70, 1.40, 1.96, 1.83, 1.70, 1.51, 1.56)
COUNTED: Final = {"chat": (0.12, 0.12), "code": (0.24, 0.30, 0.38, 0.31), "copying": _EDITED}
"""Tokens per round of n-grams beyond the first, k = 5: vLLM 0.12.0, four targets, MT-bench, HumanEval, CanItEdit and
Defects4J (counters of github.com/AltriaSetsuna/speculative-decoding-empirical)."""

LOOKUPS_APART: Final = 1.1
"""Standard deviation of ln(tokens per round - 1) between servers: gains of three that copy nothing (`benchmarks.gains`:
H100, A100, A40) are of -1.7, -0.65 and +0.66 from the means of Lookahead Reasoning's rows."""

EAGLE_BELOW: Final = (-0.4, 0.4)
"""Level of a first-generation EAGLE head over that of EAGLE-3, and how uncertain it is: assumed, no rows."""

COMMON_DRAFTS: Final = (0.52, 0.80)
"""Token acceptance of draft models that Lookahead Reasoning (section 3.3) calls common; taken as 80 % of them."""

_SOURCE: Final = (
    "SpecForge SpecBundle (MIT), InferenceX golden acceptance lengths (Apache-2.0), AngelSlim, chains: {} targets, "
    "{} curves"
)
_BLOCK_SOURCES: Final = {
    "dflash": "published block drafters (vLLM, SGLang, llama.cpp, Model-Optimizer): {} targets, {} curves",
    "dspark": "InferenceX golden acceptance lengths (Apache-2.0) and a published head: {} targets, {} curves",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A length of a target whose family was left out, and the prior fitted without it."""

    curve: Curve
    drafted: int
    low: float
    value: float
    high: float

    @property
    def measured(self) -> float:
        """The length."""
        return self.curve.lengths[self.drafted]

    @property
    def covered(self) -> bool:
        """Whether the interval holds it."""
        return self.low <= self.measured <= self.high


def fit(curves: Sequence[Curve]) -> PriorConstants:
    """Fit all constants; those of prompt lookup and of steps come from the bundled published profiles.

    Effects of domains and the spread of all methods together are those of the files' rows as chains.
    """
    every, curves = curves, [one for one in curves if one not in BLOCKS]
    methods, kinds = sorted({one.method for one in curves}), sorted(set(DOMAIN_OF.values()))
    found = np.array([one.level_slope for one in curves])
    design = np.zeros((len(curves), len(methods) + len(kinds)))
    for i, one in enumerate(curves):
        design[i, methods.index(one.method)] = design[i, len(methods) + kinds.index(one.domain)] = 1.0
    ridge = np.diag([0.0] * len(methods) + [RIDGE] * len(kinds))
    of_target = Counter((one.method, one.target) for one in curves)
    each = np.array([1.0 / of_target[one.method, one.target] for one in curves])[:, None]  # a target weighs one
    effects = np.linalg.solve(design.T @ (each * design) + ridge, design.T @ (each * found))
    own, n = _spreads(curves, found - design @ effects, methods)
    pooled = sum(own[m] * (n[m] - 1) for m in methods) / max(sum(n[m] - 1 for m in methods), 1)
    token = {}
    for at, method in enumerate(methods):
        degrees = BORROWED + n[method] - 1
        spread = (BORROWED * pooled + (n[method] - 1) * own[method]) / degrees * (1.0 + 1.0 / n[method])
        count = sum(one.method == method for one in curves)
        token[method] = _token(effects[at], spread, degrees, _SOURCE.format(n[method], count))
    domains = effects[len(methods) :]
    token |= _blocks_of(every, dict(zip(kinds, domains, strict=True)), np.asarray(pooled))
    weights = [share for _, share in sorted(domain_shares(kinds).items())]
    between = np.cov(domains.T, aweights=weights, ddof=0)
    return PriorConstants(
        schema_version=1,
        token={**token, **_assumed(token["eagle3"])},
        domain_level_slope={kind: _rounded(row) for kind, row in zip(kinds, domains, strict=True)},
        domain_covariance=_upper(between),
        long_prompts=fit_long_prompts(),
        lookup=_lookup(PAIRS),
        step=_step(PAIRS),
        step_tokens=(40.0, 20.0),
        step_source="Qwen3-32B on reasoning problems, split at blank lines; half-widths assumed",
    )


def _blocks_of(
    curves: Sequence[Curve], domains: dict[str, NDArray[np.float64]], pooled: NDArray[np.float64]
) -> dict[str, TokenConstants]:
    """Methods that draft blocks, each target weighing the same, effects of domains taken off."""
    found = {}
    for method, (of, law) in LAWS.items():
        by_target: dict[str, list[NDArray[np.float64]]] = {}
        for one in curves:
            if one.method == method:
                by_target.setdefault(one.target, []).append(np.array(one.level_slope_of(of, law)) - domains[one.domain])
        if not by_target:
            continue
        n, count = len(by_target), sum(map(len, by_target.values()))
        mean = np.mean([np.mean(rows, axis=0) for rows in by_target.values()], axis=0)
        own = sum(np.mean([np.outer(row - mean, row - mean) for row in rows], axis=0) for rows in by_target.values())
        degrees = BORROWED + n - 1
        spread = (BORROWED * pooled + own) / degrees * (1.0 + 1.0 / n)
        made = _token(mean, spread, degrees, _BLOCK_SOURCES[method].format(n, count))
        block = BlockConstants(drafted=of, slope=law.slope, error=law.error)
        found[method] = made.model_copy(update={"block": block})
    return found


def held_out(curves: Sequence[Curve], *, domain_known: bool = True) -> list[Held]:
    """Leave out family by family of targets, and compare its lengths with the prior of the others, where it has one."""
    found = []
    for family in sorted({one.family for one in curves}):
        rest = [one for one in curves if one.family != family]
        fitted = fit(rest)
        for one in curves:
            if one.family == family and one.method in {other.method for other in rest}:
                worlds = curves_from(fitted, one.method, one.domain if domain_known else None)
                for drafted in sorted(one.lengths):
                    prior = worlds.tokens(drafted + 1)
                    held = Held(curve=one, drafted=drafted, low=prior.low, value=prior.value, high=prior.high)
                    found.append(held)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """A target whose drafts were measured with thinking and without."""

    target: str
    apart: float
    """Level without thinking less the level with it, mean over drafts, in logits."""
    shifted: float
    """Mean error of lengths without thinking by those with it, the level moved as of the other targets, [-]."""
    unmoved: float
    """The same with the level left as it is."""


def thinking_modes(curves: Sequence[Curve]) -> list[Modes]:
    """Return what thinking does to each target that was measured in both modes, and whether the others tell it."""
    pairs: dict[str, list[tuple[Curve, Curve]]] = {}
    named = {(one.target, one.draft): one for one in curves}
    for (target, draft), one in named.items():
        other = named.get((target, draft.replace("thinking_on", "thinking_off")))
        if other is not None and other is not one:
            pairs.setdefault(target, []).append((one, other))
    apart = {
        target: fmean(off.level_slope[0] - on.level_slope[0] for on, off in both) for target, both in pairs.items()
    }
    found = []
    for target, both in pairs.items():
        others = fmean(gap for other, gap in apart.items() if other != target)
        shifted, unmoved = (
            fmean(abs(_tokens(on, k, shift) / off.lengths[k] - 1.0) for on, off in both for k in off.lengths)
            for shift in (others, 0.0)
        )
        found.append(Modes(target=target, apart=apart[target], shifted=shifted, unmoved=unmoved))
    return found


def _tokens(curve: Curve, k: int, shift: float) -> float:
    """Tokens of a round of k drafted ones, the level of a chain moved by so much."""
    level, slope = curve.level_slope
    rates = 1.0 / (1.0 + np.exp(-(level + shift + slope * np.log(np.arange(1, k + 1)))))
    return 1.0 + float(np.cumprod(rates).sum())


def _spreads(
    curves: Sequence[Curve], left: NDArray[np.float64], methods: Collection[str]
) -> tuple[dict[str, NDArray[np.float64]], dict[str, int]]:
    """Covariance of what is left by method, each target weighing the same, and targets by method."""
    of_target = Counter((one.method, one.target) for one in curves)
    n = Counter(method for method, _ in of_target)
    own = {method: np.zeros((2, 2)) for method in methods}
    for one, row in zip(curves, left, strict=True):
        own[one.method] += np.outer(row, row) / of_target[one.method, one.target]
    return {method: total / max(n[method] - 1, 1) for method, total in own.items()}, dict(n)


def _token(mean: Iterable[float], spread: NDArray[np.float64], degrees: float, source: str) -> TokenConstants:
    return TokenConstants(
        level_slope=_rounded(mean),
        covariance=_upper(spread),
        degrees=degrees,
        domains=True,
        source=source,
    )


def _assumed(eagle3: TokenConstants) -> dict[str, TokenConstants]:
    """Methods without rows."""
    level, slope = eagle3.level_slope
    below, unsure = EAGLE_BELOW
    low, high = (math.log(share / (1.0 - share)) for share in COMMON_DRAFTS)
    level_variance = ((high - low) / 2 / 1.2816) ** 2  # 80 % of a normal lie within 1.2816 standard deviations
    return {
        "eagle": eagle3.model_copy(
            update={
                "level_slope": _rounded((level + below, slope)),
                "covariance": (round(eagle3.covariance[0] + unsure**2, 4), *eagle3.covariance[1:]),
                "source": "assumed: EAGLE-3 rows, lowered by 0.4 +- 0.4 in logits; no rows of first-generation heads",
            }
        ),
        "draft-model": TokenConstants(
            level_slope=_rounded(((low + high) / 2, 0.0)),
            covariance=(round(level_variance, 4), 0.0, round((0.5 * math.sqrt(eagle3.covariance[2])) ** 2, 4)),
            degrees=float(BORROWED),
            domains=False,
            source="assumed: 0.52 to 0.80 per token are common (Lookahead Reasoning, section 3.3), at any position",
        ),
    }


def _lookup(pairs: Collection[str]) -> LookupConstants:
    """Tokens per round from the speedup of prompt lookup alone (Lookahead Reasoning, Table 1), and as counted."""
    logs: dict[str, list[float]] = {}
    k2s = set()
    for name in (f"lr-{pair}-{data}" for pair in pairs for data in DATASETS):
        figures = bundled(name).published
        assert figures is not None
        assert figures.token_speedup is not None
        assert figures.token_k2 is not None
        k2s.add(figures.token_k2)
        logs.setdefault(DOMAIN_OF[name.split("-")[-1]], []).append(
            math.log(figures.token_speedup.value * LOOKUP_ROUND - 1.0)
        )
    (k2,) = k2s
    means = {kind: fmean(values) for kind, values in sorted(logs.items())}
    rows = [v for values in logs.values() for v in values]
    squares = sum((v - fmean(values)) ** 2 for values in logs.values() for v in values)
    within = math.sqrt(squares / (len(rows) - len(logs)))
    new = math.sqrt(1.0 + 1.0 / len(pairs))  # the mean is that of few pairs
    on = 1.0 / (1.0 + math.exp(-GOING_ON[0]))
    longer = (1.0 - on ** (k2 - 1)) / (1.0 - on**5)
    counted = {kind: fmean(math.log(longer * extra) for extra in extras) for kind, extras in COUNTED.items()}
    both = {kind: fmean((mean, counted.get(kind, mean))) for kind, mean in means.items()}
    shown = {**both, "all": fmean(both.values()), "copying": counted["copying"]}
    return LookupConstants(
        k2=k2,
        log_extra={kind: round(mean, 4) for kind, mean in shown.items()},
        spread=round(math.hypot(within * new, LOOKUPS_APART), 4),
        spread_all=round(math.hypot(within * new, math.sqrt(variance(means.values())) * new, LOOKUPS_APART), 4),
        degrees=float(len(rows) - len(logs)),
        going_on=GOING_ON,
        source=f"Lookahead Reasoning, Table 1: n-grams at k2 = {k2}, {len(rows)} rows; counters of 14 servers",
    )


def _step(pairs: Collection[str]) -> StepConstants:
    """Acceptance of steps by a judge (Lookahead Reasoning, Table 1): data sets and pairs crossed.

    Two pairs tell little about how pairs differ; that they differ as much as data sets do counts for two more.
    """
    logit = {}
    for data in DATASETS:
        for pair in pairs:
            figures = bundled(f"lr-{pair}-{data}").published
            assert figures is not None
            logit[data, pair] = math.log(figures.alpha1.value / (1.0 - figures.alpha1.value))
    tasks = {data: fmean(logit[data, pair] for pair in pairs) for data in DATASETS}
    overall = fmean(tasks.values())
    of_pair = {pair: fmean(logit[data, pair] for data in DATASETS) - overall for pair in pairs}
    between_tasks = variance(tasks.values())
    n_pairs = len(of_pair)
    left = [logit[data, pair] - tasks[data] - of_pair[pair] for data, pair in logit]
    residual = sum(x * x for x in left) / max((len(tasks) - 1) * (n_pairs - 1), 1)
    measured = sum(x * x for x in of_pair.values())  # with n_pairs - 1 degrees of freedom
    between_pairs = (2.0 * between_tasks + measured) / (2.0 + n_pairs - 1)
    new = (between_pairs + residual) * (1.0 + 1.0 / n_pairs)
    kinds: dict[str, list[float]] = {}
    for data, mean in tasks.items():
        kinds.setdefault(DOMAIN_OF[data], []).append(mean)
    means = {**tasks, **{kind: fmean(values) for kind, values in kinds.items()}, "all": overall}
    return StepConstants(
        tasks={name: round(value, 4) for name, value in means.items()},
        spread_task=round(math.sqrt(new), 4),
        spread_domain=round(math.sqrt(new + between_tasks), 4),
        spread_all=round(math.sqrt(new + between_tasks * (1.0 + 1.0 / len(tasks))), 4),
        degrees=2.0 + n_pairs,
        source=f"Lookahead Reasoning, Table 1: {n_pairs} pairs on {len(tasks)} data sets, a judge of 7B",
    )


def _rounded(pair: Iterable[float]) -> tuple[float, float]:
    level, slope = pair
    return round(float(level), 4), round(float(slope), 4)


def _upper(matrix: NDArray[np.float64]) -> tuple[float, float, float]:
    return round(float(matrix[0, 0]), 4), round(float(matrix[0, 1]), 4), round(float(matrix[1, 1]), 4)


def _report(held: Sequence[Held], title: str) -> None:
    print(title)
    groups = {"all": held}
    for one in held:
        groups.setdefault(one.curve.method, [])
        groups.setdefault(f"{one.drafted} drafted", [])
    for name in groups:
        if name != "all":
            groups[name] = [one for one in held if name in (one.curve.method, f"{one.drafted} drafted")]
    for name, rows in sorted(groups.items()):
        covered = fmean(one.covered for one in rows)
        error = fmean(abs(one.value / one.measured - 1.0) for one in rows)
        width = fmean(one.high / one.low for one in rows)
        print(f"  {name:10s} n = {len(rows):3d}  covered {covered:6.1%}  error {error:5.1%}  high / low {width:.2f}")


def _report_steps() -> None:
    covered, misses = [], []
    for left_out in PAIRS:
        fitted = _step([pair for pair in PAIRS if pair != left_out])
        for data in DATASETS:
            figures = bundled(f"lr-{left_out}-{data}").published
            assert figures is not None
            prior = step_prior_from(fitted, data)
            covered.append(prior.low <= figures.alpha1.value <= prior.high)
            misses.append(abs(prior.value - figures.alpha1.value))
    print(f"steps, leaving out pairs: n = {len(covered)}  covered {fmean(covered):.1%}  error {fmean(misses):.3f}")


def _report_modes(modes: Sequence[Modes]) -> None:
    print("thinking: level without it less the level with it, logits; error by that of the others, and unmoved")
    for one in modes:
        print(f"  {one.target:24s} {one.apart:+.2f}  {one.shifted:5.1%}  {one.unmoved:5.1%}")
    print(f"  {'mean':24s} {fmean(one.apart for one in modes):+.2f}  ", end="")
    print(f"{fmean(one.shifted for one in modes):5.1%}  {fmean(one.unmoved for one in modes):5.1%}")


def main(arguments: Sequence[str]) -> None:
    """Fit, report, and write if asked."""
    curves = curves_in(Path(arguments[0]))
    _report(held_out(curves), "tokens per round, leaving out families of targets, domain known")
    _report(held_out(curves, domain_known=False), "tokens per round, leaving out families of targets, domain unknown")
    _report_steps()
    _report_modes(thinking_modes(curves))
    if "--write" in arguments:
        write_atomically(FILE, fit(curves).model_dump_json(indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
