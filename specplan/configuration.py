"""A configuration: a method of the catalogue with all its knobs set, and the token-level depth below it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from sim.catalogue import KnobValue, Method, method, methods
from sim.replicate import MakeAlgorithm
from theory.errors import ParameterError

__all__ = ["METHOD_NAMES", "RULE_NAMES", "SHORTCUTS", "Configuration", "RuleName", "parse_knobs"]

RuleName = Literal["paper", "released-code"]

SHORTCUTS: Final = ("k1", "width", "rules")
"""Knobs that have a field, and an option on the command line, of their own."""

_WITHOUT: Final = {"k1": 1, "width": 1, "rules": "paper"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A method with its knobs.

    ``k1``, ``width`` and ``rules`` may also be given among the ``knobs``; afterwards both places hold every knob of the
    method, the defaults filled in.
    """

    method: str
    """Name of a method of `sim.catalogue`; with k2 > 1 a method of the step level has prompt lookup below it."""

    k1: int = None  # type: ignore[assignment]  # None until __post_init__ has found the method's default
    """Target steps in flight along one path, >= 1; default the method's, 1 for methods without the knob."""

    k2: int = 1
    """Tokens per target pass, >= 1; 1 is plain decoding."""

    width: int = None  # type: ignore[assignment]
    """Drafts per position, >= 1; default the method's, 1 for methods without the knob."""

    rules: RuleName = None  # type: ignore[assignment]
    """Schedule of Lookahead Reasoning; default the paper's."""

    knobs: Mapping[str, KnobValue | None] = field(default_factory=dict, hash=False)
    """All knobs of the method by name."""

    def __post_init__(self) -> None:
        given = {name: value for name, value in self.knobs.items() if value is not None}
        for name in SHORTCUTS:
            value = getattr(self, name)
            if value is None:
                continue
            if name in given and given[name] != value:
                raise ParameterError(name, value, f"contradicts the knob {name}={given[name]!r}")
            if self.spec.has(name):
                given[name] = value
            elif value != _WITHOUT[name] and name != "rules":
                raise ParameterError(name, value, f"must be {_WITHOUT[name]} for the method {self.method}")
        if isinstance(self.k2, bool) or not isinstance(self.k2, int) or not 1 <= self.k2 <= 1024:
            raise ParameterError("k2", self.k2, "must be an integer in [1, 1024]")
        if self.spec.level == "baseline" and self.k2 != 1:
            raise ParameterError("k2", self.k2, "must be 1 for plain decoding")
        full = self.spec.settings(given)
        for name in SHORTCUTS:
            object.__setattr__(self, name, full.get(name, getattr(self, name) or _WITHOUT[name]))
        object.__setattr__(self, "knobs", full)

    @property
    def spec(self) -> Method:
        """The method's record in the catalogue."""
        return method(self.method)

    @property
    def name(self) -> str:
        """Method and knobs that tell it from its defaults, in one word or a few."""
        shown = [f"k1={self.k1}"] if self.spec.has("k1") else []
        defaults = self.spec.settings({})
        shown += [f"{k}={v}" for k, v in self.knobs.items() if v != defaults[k] and k != "k1"]
        shown += [f"k2={self.k2}"] if self.k2 > 1 else []
        return " ".join([self.method, *shown])

    @property
    def speculates(self) -> bool:
        """Whether it is anything but plain decoding."""
        return self.spec.drafts_steps or self.k2 > 1 or bool(self.knobs)

    @property
    def most_sequences(self) -> int:
        """Target sequences in flight at the worst moment, whatever the lengths."""
        return self.spec.most_sequences(**self.knobs)

    def algorithm(self) -> MakeAlgorithm:
        """Builds the method's generator for a prompt."""
        return self.spec.build(**self.knobs)


def parse_knobs(chosen: str, settings: tuple[str, ...]) -> dict[str, KnobValue]:
    """Read ``name=value`` settings of a method as typed on the command line.

    Raises
    ------
    ParameterError : an unknown method or knob, no ``=``, or a value outside its domain.

    >>> parse_knobs("lr-async", ("k1=3", "gamma=0.8"))
    {'k1': 3, 'gamma': 0.8}
    """
    found: dict[str, KnobValue] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise ParameterError("set", text, f"must be NAME=VALUE; see 'specplan methods {chosen}' for the names")
        found[name.strip()] = method(chosen).knob(name.strip()).parse(value.strip())
    return found


RULE_NAMES: Final = get_args(RuleName)
METHOD_NAMES: Final = tuple(methods())
