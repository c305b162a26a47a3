"""A configuration: a method of the catalogue with all its knobs set, and the token-level method below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias

from sim.algorithms.rules import PRESETS
from sim.catalogue import KnobValue, Method, choice, method, methods
from sim.operations import MakeAlgorithm
from sim.roles import JUDGE, REWARD, SCORER
from theory.errors import ParameterError

__all__ = [
    "DEFAULT_TOKEN_METHOD",
    "METHOD_NAMES",
    "PLAIN",
    "RULE_NAMES",
    "TOKEN_METHOD_NAMES",
    "Configuration",
    "parse_knobs",
]

RULE_NAMES: Final = tuple(PRESETS)
METHOD_NAMES: Final = tuple(methods())
TOKEN_METHOD_NAMES: Final = tuple(methods("token"))

DEFAULT_TOKEN_METHOD: Final = "prompt-lookup"
"""Token-level method below a step-level method if only k2 is given: it needs no other model."""

Knobs: TypeAlias = Mapping[str, KnobValue | None]


@dataclass(frozen=True, slots=True, init=False)
class Configuration:
    """A method with its knobs, and the token-level method below it."""

    method: str
    """Name of a method of `sim.catalogue`."""
    knobs: Knobs
    """All knobs of the method by name."""
    token: str | None
    """Name of the token-level method that the target decodes with: ``method`` itself if it is one; None: plain."""
    token_knobs: Knobs
    """All knobs of the token-level method by name."""

    def __init__(
        self,
        *,
        method: str,
        k1: int | None = None,
        k2: int | None = None,
        width: int | None = None,
        rules: str | None = None,
        knobs: Knobs = MappingProxyType({}),
        token: str | None = None,
        token_knobs: Knobs = MappingProxyType({}),
    ) -> None:
        """Fill in the defaults of what is not given.

        ``k1``, ``width`` and ``rules`` set knobs of the method, ``k2`` a knob of the token level. A method without such
        a knob accepts a k1 or width of 1, and any rules. A k2 > 1 without a ``token`` means prompt lookup.

        Raises
        ------
        ParameterError : an unknown method or knob, a value outside its domain, or two that contradict each other.
        """
        put = object.__setattr__
        put(self, "method", method)
        put(self, "knobs", _filled(self.spec, knobs, k1=k1, width=width, rules=rules, k2=k2))
        name, below = self._token_level(token, token_knobs, k2)
        put(self, "token", name)
        put(self, "token_knobs", below)
        if k2 not in (None, self.k2):
            raise ParameterError("k2", k2, f"must be left out, or {self.k2}, which the knobs of {name} give")

    def _token_level(self, token: str | None, knobs: Knobs, k2: int | None) -> tuple[str | None, Knobs]:
        """The token-level method and all its knobs."""
        level = self.spec.level
        if level == "token":
            if token not in (None, self.method):
                raise ParameterError("token", token, f"must not be given: {self.method} is a token-level method itself")
            if knobs and knobs != self.knobs:
                raise ParameterError("token_knobs", dict(knobs), "must not differ from the method's knobs")
            return self.method, self.knobs
        if token is None and k2 in (None, 1):
            if knobs:
                raise ParameterError("token_knobs", dict(knobs), "need a token-level method")
            return None, {}
        if level == "baseline":
            name, value, rule = ("k2", k2, "must be 1") if token is None else ("token", token, "must not be given")
            raise ParameterError(name, value, f"{rule} for plain decoding")
        name = choice("token", DEFAULT_TOKEN_METHOD if token is None else token, TOKEN_METHOD_NAMES)
        return name, _filled(method(name), knobs, k2=k2)

    def __hash__(self) -> int:
        return hash((self.method, *self.knobs.items(), self.token, *self.token_knobs.items()))

    @classmethod
    def parse(cls, text: str, *, rules: str | None = None) -> Self:
        """Parse a configuration in the format of `name`: method, its knobs, ``+``, token-level method, its knobs.

        Parameters
        ----------
        text : the configuration.
        rules : schedule where the text names none; default the method's.

        Raises
        ------
        ParameterError : an unknown method or knob, or a value outside its domain.

        >>> Configuration.parse("lr-async k1=2 + prompt-lookup k2=4").name
        'lr-async k1=2 + prompt-lookup k2=4'
        """
        above, plus, below = text.partition("+")
        words, under = above.split(), below.split()
        if not words or (plus and not under):
            rule = "must be METHOD [KNOB=VALUE ...] [+ TOKEN-METHOD [KNOB=VALUE ...]]"
            raise ParameterError("configuration", text, rule)
        name = choice("method", words[0], METHOD_NAMES)
        knobs = parse_knobs(name, words[1:])
        configuration = cls(method=name, knobs=knobs, rules=None if "rules" in knobs else rules)
        if not under:
            return configuration
        token = choice("token", under[0], TOKEN_METHOD_NAMES)
        return configuration.with_token(token, parse_knobs(token, under[1:]))

    def with_token(self, token: str, token_knobs: Knobs) -> Self:
        """Return the same configuration with a token-level method below it."""
        return type(self)(method=self.method, knobs=self.knobs, token=token, token_knobs=token_knobs)

    @property
    def k1(self) -> int:
        """Target steps in flight along one path, >= 1; 1 for methods without the knob."""
        return int(self.knobs.get("k1") or 1)

    @property
    def width(self) -> int:
        """Drafts per position, >= 1; 1 for methods without the knob."""
        return int(self.knobs.get("width") or 1)

    @property
    def rules(self) -> str:
        """Schedule of Lookahead Reasoning; the paper's for methods without the knob."""
        return str(self.knobs.get("rules") or "paper")

    @property
    def k2(self) -> int:
        """Tokens that a target pass commits at most, >= 1; 1 is plain decoding."""
        return 1 if self.token is None else method(self.token).most_per_pass(**self.token_knobs)

    @property
    def least(self) -> float:
        """How likely a drafted token must survive for the target to verify it, in [0, 1]; 0: all are verified."""
        return float(self.token_knobs.get("least") or 0.0)

    @property
    def spec(self) -> Method:
        """The method's record in the catalogue."""
        return method(self.method)

    @property
    def name(self) -> str:
        """Short name: the method and the knobs that differ from their defaults."""
        if self.spec.level == "token":
            return " ".join([self.method, *_shown(self.spec, self.knobs, "k2")])
        words = [self.method, *_shown(self.spec, self.knobs, "k1")]
        if self.token is not None:
            words += ["+", self.token, *_shown(method(self.token), self.token_knobs, "k2")]
        return " ".join(words)

    @property
    def is_hybrid(self) -> bool:
        """Whether a token-level method decodes below another method."""
        return self.token is not None and self.token != self.method

    @property
    def levels(self) -> tuple[Self, Self]:
        """The two parts of a hybrid: its step-level method with plain decoding, and its token-level method."""
        assert self.token is not None
        above = type(self)(method=self.method, knobs=self.knobs)
        return above, type(self)(method=self.token, knobs=self.token_knobs)

    @property
    def speculates(self) -> bool:
        """Whether it is not plain decoding."""
        return self.spec.drafts_steps or self.k2 > 1 or bool(self.knobs)

    @property
    def decider(self) -> tuple[str, float | None]:
        """The role that verifies drafts, and the least score that it accepts; None: its own threshold."""
        graded = next((role for role in self.spec.roles if role in (SCORER, REWARD)), JUDGE)
        threshold = self.knobs.get("threshold")
        return str(self.knobs.get("verifier") or graded), None if threshold is None else float(threshold)

    @property
    def most_sequences(self) -> int:
        """Most target sequences in flight at one time, for any step lengths."""
        return self.spec.most_sequences(**self.knobs)

    def algorithm(self) -> MakeAlgorithm:
        """The function that builds the method's generator for a prompt."""
        return self.spec.build(**self.knobs)

    def plain(self) -> dict[str, Any]:
        """Fields as plain data, with the derived values under their own names."""
        names = ("method", "k1", "k2", "width", "rules", "knobs", "token", "token_knobs")
        return {name: getattr(self, name) for name in names}


def _filled(spec: Method, knobs: Knobs, **shortcuts: KnobValue | None) -> Knobs:
    """All knobs of a method: the given ones, and the defaults of the others."""
    said = {name: value for name, value in shortcuts.items() if value is not None}
    for name, value in said.items():
        if knobs.get(name) not in (None, value):
            raise ParameterError(name, value, f"contradicts the knob {name}={knobs[name]!r}")
        if name in ("k1", "width") and value != 1 and not spec.has(name):
            raise ParameterError(name, value, f"must be 1 for the method {spec.name}")
    return spec.settings({**knobs, **{name: value for name, value in said.items() if spec.has(name)}})


def _shown(spec: Method, knobs: Knobs, always: str) -> list[str]:
    """Knobs to show in a name: ``always``, and the others where they differ from their defaults."""
    defaults = spec.settings({})
    shown = [f"{always}={knobs[always]}"] if spec.has(always) else []
    return shown + [f"{name}={value}" for name, value in knobs.items() if value != defaults[name] and name != always]


def parse_knobs(chosen: str, settings: Sequence[str]) -> dict[str, KnobValue]:
    """Parse ``name=value`` settings of a method as typed on the command line.

    Raises
    ------
    ParameterError : an unknown method or knob, no ``=``, a value outside its domain, or a knob given twice.

    >>> parse_knobs("lr-async", ("k1=3", "gamma=0.8"))
    {'k1': 3, 'gamma': 0.8}
    """
    knobs: dict[str, KnobValue] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise ParameterError("set", text, f"must be NAME=VALUE; see 'specplan methods {chosen}' for the names")
        knob = method(chosen).knob(name.strip())
        if knob.name in knobs:
            raise ParameterError(knob.name, value.strip(), "must not be given twice")
        knobs[knob.name] = knob.parse(value.strip())
    return knobs


PLAIN: Final = Configuration(method="autoregressive")
"""Plain decoding."""
