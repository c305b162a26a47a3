"""Verification of a draft step against the target's: the verifier, its threshold, and when a second one decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sim.algorithms.rules import PRESETS
from sim.catalogue import Knob
from sim.operations import Algorithm, MakeAlgorithm, Step, Verify
from sim.roles import EMBEDDING, EXACT, GATE, JUDGE, RANDOM
from theory.errors import ParameterError

__all__ = ["CASCADE", "CHECK_KNOBS", "JUDGED", "VERIFIERS", "Check", "Judging", "confidence"]

CASCADE: Final = "cascade"
VERIFIERS: Final = (JUDGE, GATE, CASCADE, EMBEDDING, EXACT, RANDOM)
"""``gate`` is the draft model's own verdict, ``cascade`` the same where it is confident and the judge's elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The verifier that decides whether a draft step may replace the target's, with its threshold."""

    verifier: str = JUDGE
    """One of `VERIFIERS`."""
    threshold: float | None = None
    """Least score at which a draft is accepted, in the verifier's own unit; ``None``: the verifier's own threshold."""
    gamma: float = 0.9
    """Cascade only: least confidence at which the gate's decision stands, in [0, 1] (ConfSpec, Equation 4)."""

    def __post_init__(self) -> None:
        if self.verifier not in VERIFIERS:
            raise ParameterError("verifier", self.verifier, f"must be one of {', '.join(VERIFIERS)}")
        if not 0.0 <= self.gamma <= 1.0:
            raise ParameterError("gamma", self.gamma, "must be in [0, 1]")

    @property
    def first(self) -> tuple[str, float | None]:
        """The role that verifies a draft first, and its threshold."""
        return (GATE, None) if self.verifier == CASCADE else (self.verifier, self.threshold)

    def ask(self, candidate: Step, reference: Step, branch: int, tag: Any) -> Verify:
        """Return the first verification of a draft."""
        role, threshold = self.first
        return Verify(candidate, reference, branch, role, tag, threshold)

    def appeal(self, done: Verify) -> Verify | None:
        """Return the judge's verification if the gate was not confident in ``done``; ``None`` if its verdict stands."""
        if self.verifier != CASCADE or done.role != GATE or confidence(done) >= self.gamma:
            return None
        return Verify(done.candidate, done.reference, done.branch, JUDGE, done.tag, self.threshold)


def confidence(verify: Verify) -> float:
    """Probability that the verifier gives to its own verdict (ConfSpec, Equation 3).

    Raises
    ------
    ParameterError : the verdict has no score that could be a probability of yes.
    """
    score: float | None = verify.result.score
    if score is None or not 0.0 <= score <= 1.0:
        raise ParameterError("score", score, f"of the verifier {verify.role!r} must be a probability")
    return score if verify.result.accepted else 1.0 - score


JUDGED: Final = Check()


@dataclass(frozen=True, slots=True)
class Judging:
    """What the record of a method calls with its knobs: a generator with a `Check`, and with `Rules` by their name."""

    algorithm: Callable[..., Algorithm]

    def __call__(self, *, verifier: str, threshold: float | None, gamma: float, **knobs: Any) -> MakeAlgorithm:
        """Return what turns a prompt into the generator."""
        check = Check(verifier=verifier, threshold=threshold, gamma=gamma)
        if "rules" in knobs:
            knobs["rules"] = PRESETS[knobs["rules"]]
        return partial(self.algorithm, **knobs, check=check)


CHECK_KNOBS: Final = (
    Knob(
        name="verifier",
        kind="choice",
        default=JUDGE,
        choices=VERIFIERS,
        help="verifier of a draft against the target's step",
    ),
    Knob(
        name="threshold",
        kind="number",
        default=None,
        low=-1.0,
        high=1.0,
        help="least score at which a draft is accepted; default the verifier's own",
    ),
    Knob(name="gamma", kind="number", default=0.9, low=0.0, high=1.0, help="cascade: least confidence of the gate"),
)
