r"""Token acceptance per position of a draft, with its convention named and every conversion exact.

Five figures go by the name of acceptance. With :math:`u_j` the probability that the first :math:`j` tokens of a draft
are all accepted, over all drafts (a draft too short for position :math:`j` counts as not accepted there):

=============================  ==================================================  ====================================
convention                     definition                                          who uses it
=============================  ==================================================  ====================================
``unconditional``              :math:`u_j` per position                            vLLM: per-position rates, counters
``conditional``                :math:`u_j / u_{j-1}` per position                  EAGLE papers, alpha of the theory
``length-with-bonus``          :math:`1 + u_1 + \dots + u_k`, in [1, k + 1]        vLLM and SGLang: acceptance length
``length-without-bonus``       :math:`u_1 + \dots + u_k`, in [0, k]                TensorRT-LLM: accepted draft tokens
``accepted-over-drafted``      :math:`(u_1 + \dots + u_k) / k`, in [0, 1]          vLLM: draft acceptance rate
=============================  ==================================================  ====================================

The last three are single figures for a draft of k tokens; a curve gives all of them, but none of them gives a curve.
All are per *draft*. An n-gram lookup that finds nothing drafts nothing: tokens per target *pass* are
``1 + hit_rate * (u_1 + ... + u_k)``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self, get_args

import numpy as np

from calibrate.record.json_text import load_json, number
from theory.errors import ParameterError, SchemaError

__all__ = [
    "CONVENTIONS",
    "FIGURES",
    "SCHEMA",
    "AcceptanceCurve",
    "Convention",
    "Figure",
    "curve_as_csv",
    "curve_in_text",
    "fitted_alpha2",
]

SCHEMA: Final = "specplan.acceptance"
"""Schema of the JSON that ``specplan acceptance`` writes."""

Convention = Literal["unconditional", "conditional"]
CONVENTIONS: Final[tuple[Convention, ...]] = get_args(Convention)
_HELD: Final = 1e4
"""Weight of a sum that least squares hold, over that of a length."""
Figure = Literal["length-with-bonus", "length-without-bonus", "accepted-over-drafted"]
FIGURES: Final[tuple[Figure, ...]] = get_args(Figure)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceCurve:
    """Acceptance per position of a draft, kept as unconditional rates."""

    unconditional: tuple[float, ...]
    """u_1 ... u_k: probability that the draft is accepted up to and including each position, non-increasing."""
    hit_rate: float | None = None
    """Share of target passes that have a draft, in [0, 1]; 1 for model drafts, None if not known."""

    def __post_init__(self) -> None:
        _rates("unconditional", self.unconditional)
        for j, (before, rate) in enumerate(zip(self.unconditional, self.unconditional[1:], strict=False), 1):
            if rate > before:
                rule = f"must not exceed the position before it ({before:g}): are these conditional rates?"
                raise ParameterError(f"unconditional[{j}]", rate, rule)
        if self.hit_rate is not None and not 0.0 <= self.hit_rate <= 1.0:
            raise ParameterError("hit_rate", self.hit_rate, "must be in [0, 1] or None")

    @classmethod
    def of(cls, rates: Sequence[float | None], convention: Convention, hit_rate: float | None = None) -> Self:
        """Build a curve from rates per position under a named convention.

        Parameters
        ----------
        rates : one per position, at least one; conditional ones may be None after a rate of 0, where nothing is seen.

        Raises
        ------
        ParameterError : a rate outside [0, 1], unconditional rates that rise, or an unknown convention.
        """
        if convention not in CONVENTIONS:
            raise ParameterError("convention", convention, f"must be one of {', '.join(CONVENTIONS)}")
        if convention == "conditional":
            return cls(unconditional=_products(rates), hit_rate=hit_rate)
        if None in rates:
            raise ParameterError(f"unconditional[{rates.index(None)}]", None, "must be a probability in [0, 1]")
        return cls(unconditional=tuple(float(rate) for rate in rates if rate is not None), hit_rate=hit_rate)

    @classmethod
    def fitted(cls, lengths: Sequence[float]) -> tuple[Self, float]:
        """Return the curve nearest to mean acceptance lengths with the bonus token, and how far the farthest is off.

        Least squares over non-increasing unconditional rates in [0, 1]: exact where the lengths are a drafter's, which
        measured ones need not be, since each k is a run of its own.

        Parameters
        ----------
        lengths : of drafts of 1, 2, ... tokens, each in [1, k + 1].

        Raises
        ------
        ParameterError : no length, or one that no draft has.

        >>> curve, off = AcceptanceCurve.fitted([1.7, 2.1])
        >>> curve.unconditional, off
        ((0.7, 0.4), 0.0)
        """
        _rates("lengths", [(length - 1.0) / k for k, length in enumerate(lengths, 1)])
        rates = _non_increasing([length - 1.0 for length in lengths])
        off = max(abs(math.fsum(rates[:k]) + 1.0 - length) for k, length in enumerate(lengths, 1))
        return cls.of(rates, "unconditional"), round(off, 9)

    @classmethod
    def from_length(cls, length: float, k: int) -> Self:
        """Build the curve of drafts of ``k`` tokens, each accepted at one rate, from their mean acceptance length.

        Parameters
        ----------
        length : tokens per round with the bonus token, in [1, k + 1].
        k : tokens drafted per round, >= 1.

        Raises
        ------
        ParameterError : a length that no draft of ``k`` tokens has.

        >>> AcceptanceCurve.from_length(1.75, 2).unconditional
        (0.5, 0.25)
        """
        if not 1.0 <= length <= k + 1.0:
            rule = f"must be in [1, {k + 1}] tokens per round with k = {k} drafted: those accepted, and one more"
            raise ParameterError("acceptance", length, rule)
        rate = round(fitted_alpha2(length, k + 1), 12)
        return cls.of([rate] * k, "conditional")

    @property
    def k(self) -> int:
        """Drafted tokens at most."""
        return len(self.unconditional)

    def conditional(self) -> tuple[float | None, ...]:
        """u_j / u_(j-1) per position; None after a rate of 0, where it is not defined."""
        before = (1.0, *self.unconditional)
        return tuple(u / b if b > 0.0 else None for u, b in zip(self.unconditional, before, strict=False))

    def figure(self, name: Figure, k: int | None = None) -> float:
        """The single figure of that name for drafts of ``k`` tokens, default all positions.

        Raises
        ------
        ParameterError : ``k`` beyond the curve or below 1 (0 for the lengths).
        """
        depth = self.k if k is None else k
        if not 0 <= depth <= self.k or (depth == 0 and name == "accepted-over-drafted"):
            raise ParameterError("k", depth, f"must be an integer in [1, {self.k}]: the curve ends there")
        accepted = math.fsum(self.unconditional[:depth])
        if name == "accepted-over-drafted":
            return accepted / depth
        return accepted + 1.0 if name == "length-with-bonus" else accepted

    def tokens_per_pass(self, k: int) -> float:
        """Tokens that a target pass commits with drafts of at most ``k`` tokens.

        Raises
        ------
        ParameterError : the hit rate is not known, or ``k`` is beyond the curve.
        """
        if self.hit_rate is None:
            raise ParameterError("hit_rate", None, "must be known for tokens per pass: passes without a draft count")
        return 1.0 + self.hit_rate * self.figure("length-without-bonus", k)


def fitted_alpha2(speedup: float, k2: int) -> float:
    """The acceptance probability for which g(alpha2, 0, k2) is ``speedup``; 0 where speculation brought nothing.

    >>> round(fitted_alpha2(1.875, 4), 12)
    0.5
    """
    if speedup <= 1.0:
        return 0.0
    if speedup >= k2:
        return 1.0
    # g(alpha, 0, k2) is 1 + alpha + ... + alpha^(k2 - 1), which grows with alpha: one root lies between 0 and 1.
    roots = np.roots([*np.ones(k2 - 1), 1.0 - speedup])
    return float(next(root.real for root in roots if abs(root.imag) < 1e-9 and root.real >= 0.0))


def _non_increasing(sums: Sequence[float]) -> list[float]:
    """Non-increasing rates in [0, 1] whose sums of the first 1, 2, ... are nearest to the given ones."""
    from scipy.optimize import nnls

    n = len(sums)
    upto = np.minimum.outer(np.arange(1, n + 1), np.arange(1, n + 1)).astype(float)
    drops, _ = nnls(upto, np.asarray(sums))  # rate j is the sum of the drops from position j on
    if drops.sum() > 1.0:  # the first rate cannot exceed 1: the same with the sum of the drops held there
        drops, _ = nnls(np.vstack([upto, np.full(n, _HELD)]), np.append(sums, _HELD))
        drops /= drops.sum()
    return [round(float(rate), 12) for rate in np.cumsum(drops[::-1])[::-1]]


def _products(rates: Sequence[float | None]) -> tuple[float, ...]:
    unconditional: list[float] = []
    product = 1.0
    for j, rate in enumerate(rates):
        if rate is not None:
            _rates(f"conditional[{j}]", (rate,))
        elif product > 0.0:
            raise ParameterError(f"conditional[{j}]", rate, "may be unknown after a rate of 0 only")
        product *= rate or 0.0
        unconditional.append(product)
    return tuple(unconditional)


def _rates(name: str, rates: Sequence[float]) -> None:
    if not rates:
        raise ParameterError(name, list(rates), "must hold at least one position")
    for j, rate in enumerate(rates):
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 <= rate <= 1.0:
            raise ParameterError(f"{name}[{j}]" if len(rates) > 1 else name, rate, "must be a probability in [0, 1]")


def curve_in_text(text: str, where: str) -> tuple[AcceptanceCurve, str] | None:
    """Return the curve of a JSON or CSV text of ``specplan acceptance``, and the method by its engines' name.

    None where the text is neither JSON nor such CSV; an empty name where it does not tell the method.

    Raises
    ------
    SchemaError : JSON of another kind, or rates that are no numbers.
    """
    if text.lstrip().startswith("{"):
        data = load_json(text, where)
        if data.get("schema") != SCHEMA:
            raise SchemaError(f"{where}: schema: must be {SCHEMA}, as 'specplan acceptance --json' writes it")
        rates, hit = data.get("unconditional"), data.get("hit_rate")
        if not isinstance(rates, list) or not rates:
            raise SchemaError(f"{where}: unconditional: must be a list of rates by position")
        values = [number(rate, f"{where}: unconditional[{j}]") for j, rate in enumerate(rates)]
        share = None if hit is None else number(hit, f"{where}: hit_rate")
        return AcceptanceCurve.of(values, "unconditional", share), str(data.get("method") or "")
    first = text.lstrip().partition("\n")[0]
    convention = next((one for one in CONVENTIONS if one in [cell.strip() for cell in first.split(",")]), None)
    if convention is None:
        return None
    rows = list(csv.DictReader(text.strip().splitlines(), skipinitialspace=True))
    cells = []
    for line, row in enumerate(rows, 2):
        try:
            cells.append(float(row[convention] or ""))
        except ValueError:
            rule = f"must be a rate in [0, 1] ({where}: line {line})"
            raise ParameterError("acceptance", row[convention], rule) from None
    return AcceptanceCurve.of(cells, convention), ""


def curve_as_csv(curve: AcceptanceCurve) -> str:
    """Return a curve as CSV: k, unconditional, conditional."""
    rows = zip(curve.unconditional, curve.conditional(), strict=True)
    lines = [f"{k},{u!r},{'' if c is None else repr(c)}" for k, (u, c) in enumerate(rows, 1)]
    return "\n".join(["k,unconditional,conditional", *lines])
