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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self, get_args

import numpy as np

from calibrate.record.token_records import NGramRecord
from theory.errors import ParameterError

__all__ = ["CONVENTIONS", "FIGURES", "AcceptanceCurve", "Convention", "Figure", "fitted_alpha2"]

Convention = Literal["unconditional", "conditional"]
CONVENTIONS: Final[tuple[Convention, ...]] = get_args(Convention)
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
        convention : what the rates are.

        Raises
        ------
        ParameterError : a rate outside [0, 1], unconditional rates that rise, or an unknown convention.
        """
        if convention not in CONVENTIONS:
            raise ParameterError("convention", convention, f"must be one of {', '.join(CONVENTIONS)}")
        if convention == "conditional":
            return cls(unconditional=_products(rates), hit_rate=hit_rate)
        for j, rate in enumerate(rates):
            if rate is None:
                raise ParameterError(f"unconditional[{j}]", rate, "must be a probability in [0, 1]")
        return cls(unconditional=tuple(float(rate) for rate in rates if rate is not None), hit_rate=hit_rate)

    @classmethod
    def from_lengths(cls, lengths: Sequence[float], *, bonus: bool) -> Self:
        """Build a curve from the mean acceptance lengths of drafts of 1, 2, ... k tokens by the same drafter.

        The differences are the unconditional rates, if a longer draft begins as the shorter one does.

        Raises
        ------
        ParameterError : the lengths fall, or rise ever faster: no drafter has them (or they are too noisy).
        """
        rates: list[float] = []
        before = 1.0 if bonus else 0.0
        for j, length in enumerate(lengths):
            rate = _snapped(length - before)
            if not 0.0 <= rate <= 1.0 or (rates and rate > rates[-1]):
                rule = f"cannot follow {before:g}: the gain of each further token must be in [0, 1] and not rise"
                raise ParameterError(f"lengths[{j}]", length, rule)
            rates.append(rate)
            before = length
        return cls.of(rates, "unconditional")

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

    @classmethod
    def from_histogram(cls, histogram: Sequence[int]) -> Self:
        """Build a curve from how many drafts had exactly 0, 1, ... k tokens accepted.

        Raises
        ------
        ParameterError : fewer than two entries, negative counts, or no draft at all.
        """
        if len(histogram) < 2 or min(histogram) < 0 or not sum(histogram):
            raise ParameterError("histogram", list(histogram), "must hold counts of 0 to k >= 1 accepted, not all 0")
        total = sum(histogram)
        return cls.of([sum(histogram[j:]) / total for j in range(1, len(histogram))], "unconditional")

    @classmethod
    def from_counts(cls, record: NGramRecord) -> Self:
        """Build a curve, with its hit rate, from the counts of a profile.

        Raises
        ------
        ParameterError : the record holds no draft.
        """
        if not record.drafts:
            raise ParameterError("drafts", record.drafts, "must be at least 1 for an acceptance rate")
        rates = [accepted / record.drafts for accepted in record.accepted_at]
        return cls.of(rates, "unconditional", hit_rate=record.drafts / record.passes)

    @property
    def k(self) -> int:
        """Positions: drafted tokens at most."""
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
        return accepted if depth == 0 and name == "length-without-bonus" else _to(accepted, name, depth)

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


def _to(accepted: float, name: Figure, k: int) -> float:
    if name == "accepted-over-drafted":
        return accepted / k
    return accepted + 1.0 if name == "length-with-bonus" else accepted


def _snapped(rate: float) -> float:
    """Take out the rounding of a difference of decimal numbers: 2.55 - 1.86 is .69."""
    return round(rate, 12)


def _products(rates: Sequence[float | None]) -> tuple[float, ...]:
    unconditional: list[float] = []
    product = 1.0
    for j, rate in enumerate(rates):
        if rate is None:
            if product > 0.0:
                raise ParameterError(f"conditional[{j}]", rate, "may be unknown after a rate of 0 only")
            unconditional.append(0.0)
            continue
        _rates(f"conditional[{j}]", (rate,))
        product *= rate
        unconditional.append(product)
    return tuple(unconditional)


def _rates(name: str, rates: Sequence[float]) -> None:
    if not rates:
        raise ParameterError(name, list(rates), "must hold at least one position")
    for j, rate in enumerate(rates):
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 <= rate <= 1.0:
            raise ParameterError(f"{name}[{j}]" if len(rates) > 1 else name, rate, "must be a probability in [0, 1]")
