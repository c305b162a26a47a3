"""Time of a round at each k, as random draws that cover its uncertainty.

Four sources, each narrower than the one before: (1) the window only: what a drafted token adds is as at public servers;
(2) baselines, i.e. servers without speculation or with another k at the same load: linear in k between the measured
points, with an unknown fixed part; (3) names of models and a GPU: the pass model's shape over k, scaled to the measured
round; (4) both: verification scaled to the baseline, drafting to the remaining time of the round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from calibrate.engines.prometheus import SpecDecode
from sim.estimate import Estimate
from theory.errors import ParameterError

if TYPE_CHECKING:
    from theory.hardware.rounds import Round

__all__ = ["DRAWS", "Costs", "Named", "Point", "costs"]

DRAWS: Final = 4000

_ADDED: Final = (0.3, -0.4, 1.2)
"""What a drafted token adds to a round, in plain passes: median at k = 1, the power of k by which it falls, and the
standard deviation of its logarithm: 95 % in [0.02, 2.0] at k = 3, [0.01, 1.4] at 7. Public servers: EAGLE-3 heads 0.03
to 0.54 (1 to 128 sequences), at 7 tokens 0.7 times as much as at 3; n-grams 0.1; draft models up to 2."""
_FIXED: Final = {False: 0.25, True: 1.0}
"""Largest share of the time added by speculation that does not grow with k, by whether a block is drafted, which takes
one pass: an assumption."""
_WIDE: Final = 128
"""Rows of a pass up to which a GPU is bound by memory, so that verifying them costs little more than one row. Used only
with a baseline and no names: an assumption that changes the split of a round, not its sum."""
_WIDENING: Final = {True: 0.2, False: 1.0}
"""Largest share of the added time that may be verification, by whether a pass has few rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measured round of a server at the same load."""

    k: int
    seconds: Estimate
    batch: float
    source: str
    spec: SpecDecode | None = None
    """Its counters of speculation; None if it has none."""
    answer_s: Estimate | None = None
    """Seconds of an answer for a token of it; None where they are not reported."""
    prompt: float = math.nan
    """Mean tokens of a prompt; NaN where it is not known."""
    models: frozenset[str] = frozenset()
    """Names of the models that it serves; empty where it does not report them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Pass model of the round, made from the names of the models and the GPU."""

    rounds: Round
    batch: float
    context: float
    half_width: float
    """95 % half-width of the logarithm of a ratio of two rounds, [-]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Draws of the seconds of a round by k, and of the split of a round at the current k; n is `DRAWS`."""

    seconds: NDArray[np.float64]
    """Shape (n, most + 1)."""
    drafting: NDArray[np.float64]
    """Seconds of drafting in a mean round, per token of k, shape (n,)."""
    plain: NDArray[np.float64]
    """Seconds of a round without speculation, shape (n,)."""
    way: str
    """``window``, ``baseline``, ``names`` or ``both``."""
    notes: tuple[str, ...]


def costs(
    k: int,
    work: Estimate,
    batch: float,
    points: Sequence[Point],
    named: Named | None,
    most: int,
    seed: int,
    *,
    block: bool = False,
    share: float = 1.0,
) -> Costs:
    """Return the time of rounds at k = 0 ... ``most``.

    Parameters
    ----------
    k : tokens drafted per round now, >= 1.
    work : seconds of an undisturbed round at this k.
    batch : sequences in a round.
    points : baselines; the most informative one has ``k`` 0.
    named : pass model made from names; None without any.
    most : largest k.
    seed : seed of the draws.
    block : whether all tokens are drafted in one pass.
    share : tokens that a mean round drafts over k, in (0, 1]: n-grams find none in most rounds, suffixes few.

    Raises
    ------
    ParameterError : a baseline that drafts as many tokens as the window.
    """
    rng = np.random.default_rng([seed, 2])
    for point in points:
        if point.k == k:
            rule = f"drafts {k} tokens, the same k as the window: give one with another k"
            raise ParameterError("baseline", point.source, rule)
    now = _drawn(work, rng)
    measured = {point.k: _drawn(point.seconds, rng) for point in points}
    ks = np.arange(most + 1.0)
    if named is not None:
        return _by_names(k, now, measured.get(0), named, ks, share, rng)
    if measured:
        return _by_points(k, now, measured, batch * (1.0 + share * k), ks, rng, _FIXED[block])
    median, power, sigma = _ADDED
    added = share * median * (share * k) ** power * np.exp(sigma * rng.standard_normal(DRAWS))
    plain = now / (1.0 + added * k)
    return Costs(
        seconds=plain[:, None] * (1.0 + added[:, None] * ks),
        drafting=rng.uniform(0.0, 1.0, DRAWS) * added * plain,
        plain=plain,
        way="window",
        notes=(
            "what a drafted token adds to a round is not measured: about as much as at public servers is assumed (0.02 "
            "to 2 plain passes at k = 3)",
        ),
    )


def _drawn(estimate: Estimate, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draws of a positive quantity, its interval read as that of a normal distribution."""
    sigma = max(estimate.stderr, 0.0) if math.isfinite(estimate.stderr) else estimate.value
    drawn = np.clip(rng.normal(estimate.value, sigma, DRAWS), estimate.low, estimate.high)
    floor = 0.05 * estimate.value if estimate.value > 0.0 else 1e-9
    return np.asarray(np.maximum(drawn, floor), dtype=np.float64)


def _by_points(
    k: int,
    now: NDArray[np.float64],
    measured: Mapping[int, NDArray[np.float64]],
    rows: float,
    ks: NDArray[np.float64],
    rng: np.random.Generator,
    most_fixed: float,
) -> Costs:
    """Linear in k between points, with a fixed part, which is drawn where only two points are measured."""
    known = {**measured, k: now}
    drafted = sorted(other for other in known if other)
    notes = []
    if len(drafted) > 1:
        drafts = _through({other: known[other] for other in drafted}, ks)
        plain = measured.get(0)
        if plain is None:  # between zero and a drafting round less the time that its tokens add
            plain = rng.uniform(0.0, 1.0, DRAWS) * np.maximum(drafts[:, 0], 0.0)
            notes.append("without a baseline that does not speculate, the time of a plain round is only bounded")
    else:
        plain = measured[0]
        added = np.maximum(now - plain, 0.0)
        fixed = rng.uniform(0.0, most_fixed, DRAWS) * added
        drafts = (plain + fixed)[:, None] + ((added - fixed) / k)[:, None] * ks
        notes.append(
            f"up to {100 * most_fixed:.0f} % of what speculation adds to a round is taken as fixed: a --baseline with "
            "another k would measure it"
        )
    few = bool(rows <= _WIDE)
    notes.append(
        f"the drafting part of the time that speculation adds is not measured: with {'few' if few else 'many'} rows in"
        f" a pass at least {100 * (1.0 - _WIDENING[few]):.0f} % is assumed; names (--target, --draft, --gpu) narrow it"
    )
    return Costs(
        seconds=np.maximum(np.where(ks > 0.0, drafts, plain[:, None]), 1e-9),
        drafting=np.maximum(now - plain, 0.0) / k * (1.0 - rng.uniform(0.0, _WIDENING[few], DRAWS)),
        plain=plain,
        way="baseline",
        notes=tuple(notes),
    )


def _through(measured: Mapping[int, NDArray[np.float64]], ks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds by k, shape (n, ks): linear between neighbouring points, and extrapolated from the outermost two."""
    at = sorted(measured)
    columns = []
    for k in ks:
        i = min(max(int(np.searchsorted(at, k, side="right")) - 1, 0), len(at) - 2)
        first, last = measured[at[i]], measured[at[i + 1]]
        columns.append(first + np.maximum((last - first) / (at[i + 1] - at[i]), 0.0) * (k - at[i]))
    return np.column_stack(columns)


def _by_names(
    k: int,
    now: NDArray[np.float64],
    plain: NDArray[np.float64] | None,
    named: Named,
    ks: NDArray[np.float64],
    share: float,
    rng: np.random.Generator,
) -> Costs:
    """The pass model's shape, scaled to the measured round; its error grows with the distance in k."""
    parts = [named.rounds.parts(named.batch, share * other + 1.0, named.context) for other in ks]
    verification = np.array([p.verification for p in parts])
    besides = np.array([p.drafting + p.engine for p in parts])
    off = rng.normal(0.0, named.half_width / 1.96, DRAWS)
    if plain is None:
        slower = faster = now / (verification[k] + besides[k])
        distance = (ks - k) / k
    else:
        wide = np.minimum(plain / verification[0] * verification[k], now)
        slower, faster = wide / verification[k], (now - wide) / max(besides[k], 1e-12)
        distance = np.minimum(np.abs(ks - k), ks) / k  # two points are measured: 0 and k
    seconds = slower[:, None] * verification[None, :] + faster[:, None] * besides[None, :]
    seconds = seconds * np.exp(off[:, None] * distance[None, :])
    if plain is not None:
        seconds[:, 0] = plain
    split = "the split of a round is the pass model's; a --baseline without speculation would measure it"
    return Costs(
        seconds=np.maximum(seconds, 1e-9),
        drafting=faster * parts[k].drafting / k,
        plain=seconds[:, 0],
        way="names" if plain is None else "both",
        notes=(split,) if plain is None else (),
    )
