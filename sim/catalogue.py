"""The catalogue: every method by name, with its paper, its knobs, and which part of its prediction is exact.

A method is a generator (see `sim.operations`) with a `Method` record; the module that defines the generator lists its
records in ``METHODS``, and `methods` collects them. The commands, the planner and the tests iterate over this list, so
a method in it is simulated, run on real engines, planned with and tested without another line of code.

>>> method("lr-async").settings({"k1": 3})["k1"]
3
>>> make = method("lr-async").build(k1=3)  # prompt -> generator, for either clock
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, partial
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias, TypeVar

from sim.operations import Algorithm, Step
from theory.errors import ParameterError

__all__ = [
    "Knob",
    "KnobValue",
    "Level",
    "Method",
    "built",
    "choice",
    "drafts_per_position",
    "method",
    "methods",
    "nodes_of_tree",
    "one_sequence",
    "tokens_of_k2",
]

T = TypeVar("T", bound=str)

KnobValue: TypeAlias = int | float | str | bool
Level: TypeAlias = Literal["baseline", "token", "step", "beam"]
_Kind: TypeAlias = Literal["integer", "number", "choice", "switch"]

Meets: TypeAlias = Literal["plain", "speculation", "candidates"]
"""The view of an answer that a method uses: that of plain decoding, drafts with their verdicts, or candidates of every
position."""

MOST_COUNT: Final = 1_000_000
"""Largest value of integer knobs without a bound of their own."""

_MODULES: Final = (
    "sim.algorithms.autoregressive",
    "sim.algorithms.token",
    "sim.algorithms.lookahead_async",
    "sim.algorithms.lookahead_sync",
    "sim.algorithms.graded",
    "sim.algorithms.confspec",
    "sim.algorithms.beams",
    "sim.algorithms.specs",
)
"""Modules with a ``METHODS``, in the order of their methods in lists; the first call of `methods` imports them."""

_SWITCH: Final = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One parameter of a method, with its domain."""

    name: str
    """Name in ``--set name=value`` and keyword of the method's ``algorithm``."""
    kind: _Kind
    """``integer`` and ``number`` lie in [low, high]; ``choice`` is one of ``choices``; ``switch`` is true or false."""
    default: KnobValue | None
    """Default value; ``None``: the verifier or scorer that the knob configures has its own default."""
    help: str
    """One line: meaning and unit."""
    low: float | None = None
    """Least value; None: no bound."""
    high: float | None = None
    """Largest value; None: no bound."""
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.kind == "choice") != bool(self.choices):
            raise ParameterError("choices", self.choices, "must be given for the kind 'choice', and for no other")
        if self.default is not None:
            self.validate(self.default)

    def with_default(self, default: KnobValue) -> Knob:
        """Return the same knob with another default."""
        return replace(self, default=default)

    @property
    def rule(self) -> str:
        """The domain in words."""
        if self.kind == "choice":
            return f"must be one of {', '.join(self.choices)}"
        if self.kind == "switch":
            return "must be true or false"
        what = "an integer" if self.kind == "integer" else "a finite number"
        if self.low is not None and self.high is not None:
            return f"must be {what} in [{self.low:g}, {self.high:g}]"
        if self.low is not None:
            most = f", at most {MOST_COUNT}" if self.kind == "integer" else ""
            return f"must be {what} >= {self.low:g}{most}"
        return f"must be {what}" + (f" <= {self.high:g}" if self.high is not None else "")

    def validate(self, value: object) -> KnobValue:
        """Return ``value`` in the knob's own type.

        Raises
        ------
        ParameterError : outside the domain, NaN included.
        """
        if self.kind == "choice" and isinstance(value, str) and value in self.choices:
            return value
        if self.kind == "switch" and isinstance(value, bool):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ParameterError(self.name, value, self.rule)
        whole = self.kind == "number" or (self.kind == "integer" and isinstance(value, int))
        high = MOST_COUNT if self.kind == "integer" and self.high is None else self.high
        inside = (self.low is None or value >= self.low) and (high is None or value <= high)
        if not (whole and inside and (isinstance(value, int) or math.isfinite(value))):
            raise ParameterError(self.name, value, self.rule)
        return float(value) if self.kind == "number" else value

    def parse(self, text: str) -> KnobValue:
        """Return the value that a user typed.

        Raises
        ------
        ParameterError : no such value, or outside the domain.

        >>> Knob(name="k1", kind="integer", default=4, low=1, help="").parse("3")
        3
        """
        typed: object = text
        try:
            if self.kind == "integer":
                typed = int(text)
            elif self.kind == "number":
                typed = float(text)
            elif self.kind == "switch":
                typed = _SWITCH.get(text.lower(), text)
        except ValueError:
            raise ParameterError(self.name, text, self.rule) from None
        return self.validate(typed)


def built(algorithm: Callable[..., Algorithm], **fixed: Any) -> Callable[..., Callable[[Step], Algorithm]]:
    """What a method's record calls with the knobs: they are keywords of the generator, as ``fixed`` ones are."""
    return _Bound(algorithm, tuple(fixed.items()))


@dataclass(frozen=True, slots=True)
class _Bound:
    """A generator with its fixed keywords; equal ones compare equal, as records that were sent to a worker must."""

    algorithm: Callable[..., Algorithm]
    fixed: tuple[tuple[str, Any], ...]

    def __call__(self, **knobs: Any) -> Callable[[Step], Algorithm]:
        return partial(self.algorithm, **dict(self.fixed), **knobs)


def one_sequence(**knobs: KnobValue | None) -> int:
    """Target sequences in flight of a method that never has more than 1."""
    return 1


def nodes_of_tree(*, k1: int, width: int, **knobs: KnobValue | None) -> int:
    """Target sequences in flight at the worst moment: one for each node of a full tree of ``k1`` levels."""
    return int(sum(width**level for level in range(k1)))


def tokens_of_k2(*, k2: int = 1, **knobs: KnobValue | None) -> int:
    """Most tokens that a target pass commits with a method that has the knob k2."""
    return k2


def drafts_per_position(*, width: int = 1, **knobs: KnobValue | None) -> int:
    """Drafts of a position that a method looks at: its tree's width."""
    return width


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method: its name, knobs and functions to run, predict and describe it."""

    name: str
    """Name on the command line, e.g. ``lr-async``."""
    title: str
    """Title, for tables."""
    paper: str
    """Paper, section or algorithm that defines the method."""
    level: Level
    """What is speculated: nothing, tokens, reasoning steps, or beams."""
    algorithm: Callable[..., Callable[[Step], Algorithm]]
    """Takes the knobs as keyword arguments; returns what turns a prompt into the generator. `built`, or a module-level
    function, so that it can be sent to worker processes."""
    exact: str
    """The part of its prediction that is exact, with the assumptions."""
    measured: str
    """The part of its prediction that comes from measurements."""
    knobs: tuple[Knob, ...] = ()
    roles: tuple[str, ...] = ()
    """Roles that it uses in addition to the target, e.g. ``draft``, ``judge``."""
    closed_form: str | None = None
    """Dotted name of the closed form in `theory`."""
    in_flight: Callable[..., int] = one_sequence
    """Takes the knobs; returns the most target sequences in flight at one time, for any step lengths."""
    drafts_seen: Callable[..., int] = drafts_per_position
    """Takes the knobs; returns the most drafts of a position that it uses: the number that a replay needs."""
    most_tokens: Callable[..., int] = tokens_of_k2
    """Takes the knobs; returns the most tokens that a target pass commits: k2."""
    ablation: bool = False
    """Whether it is an ablation: a method with a part removed or degraded, for comparison only."""
    drafts_steps: bool = True
    """Whether it speculates on steps, so that recorded step verdicts, not the target's own answer, are replayed."""

    def __post_init__(self) -> None:
        names = [knob.name for knob in self.knobs]
        if len(set(names)) != len(names):
            raise ParameterError("knobs", names, "must have different names")

    def knob(self, name: str) -> Knob:
        """Return the knob of that name.

        Raises
        ------
        ParameterError : there is none; the message suggests the nearest.
        """
        by_name = {knob.name: knob for knob in self.knobs}
        return by_name[choice("knob", name, by_name, f"a knob of {self.name}, one")]

    @property
    def meets(self) -> Meets:
        """The view of an answer that it uses; see `Meets`."""
        if self.level == "beam":
            return "candidates"
        return "speculation" if self.drafts_steps else "plain"

    def has(self, name: str) -> bool:
        """Whether it has a knob of that name."""
        return any(knob.name == name for knob in self.knobs)

    def settings(self, given: Mapping[str, object]) -> dict[str, KnobValue | None]:
        """Return every knob's value: the given ones, validated, and the defaults of the others.

        Raises
        ------
        ParameterError : an unknown knob, or a value outside its domain.
        """
        for name in given:
            self.knob(name)
        return {k.name: k.default if given.get(k.name) is None else k.validate(given[k.name]) for k in self.knobs}

    def build(self, **given: Any) -> Callable[[Step], Algorithm]:
        """Return what turns a prompt into the method's generator.

        Raises
        ------
        ParameterError : as `settings`.
        """
        return self.algorithm(**self.settings(given))

    def most_per_pass(self, **given: Any) -> int:
        """Return the most tokens that a target pass commits.

        Raises
        ------
        ParameterError : as `settings`.
        """
        return self.most_tokens(**self.settings(given))

    def most_sequences(self, **given: Any) -> int:
        """Return the most target sequences in flight at one time.

        Raises
        ------
        ParameterError : as `settings`.
        """
        return self.in_flight(**self.settings(given))


def choice(name: str, value: str, allowed: Iterable[T], what: str = "one") -> T:
    """Return the element of ``allowed`` that is named by ``value``, as a user typed it.

    Raises
    ------
    ParameterError : there is none; the message suggests the nearest.

    >>> choice("method", "lr-async", ("lr-sync", "lr-async"))
    'lr-async'
    """
    listed = list(allowed)
    for item in listed:
        if value == item:
            return item
    if not listed:
        raise ParameterError(name, value, f"must be {what}, which has none")
    near = get_close_matches(value.lower(), listed, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ParameterError(name, value, f"must be {what} of {', '.join(listed)}{hint}")


@cache
def _collected() -> dict[str, Method]:
    collected: dict[str, Method] = {}
    for module in _MODULES:
        for one in import_module(module).METHODS:
            if one.name in collected:
                raise ParameterError("METHODS", one.name, f"is listed twice, the second time in {module}")
            collected[one.name] = one
    return collected


def methods(*levels: Level) -> dict[str, Method]:
    """Return all methods by name, in the order of the catalogue; only those of some levels if any are given."""
    return {name: one for name, one in _collected().items() if not levels or one.level in levels}


def method(name: str) -> Method:
    """Return the method of that name.

    Raises
    ------
    ParameterError : there is none; the message suggests the nearest.
    """
    return _collected()[choice("method", name, _collected())]
