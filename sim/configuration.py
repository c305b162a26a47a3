"""A configuration: a method of the catalogue with all its knobs set, and the token-level depth below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, get_args

from sim.catalogue import KnobValue, Method, method, methods
from sim.operations import JUDGE, REWARD, SCORER, MakeAlgorithm
from theory.errors import ParameterError, choice

__all__ = [
    "DEFAULT_TOKEN_METHOD",
    "METHOD_NAMES",
    "RULE_NAMES",
    "SHORTCUTS",
    "TOKEN_METHOD_NAMES",
    "Configuration",
    "RuleName",
    "parse_knobs",
]

RuleName = Literal["paper", "released-code", "eager"]

SHORTCUTS: Final = ("k1", "width", "rules")
"""Knobs that have a field, and an option on the command line, of their own."""

DEFAULT_TOKEN_METHOD: Final = "prompt-lookup"
"""What decodes below a step-level method if only k2 is said: it needs no other model."""

_WITHOUT: Final = {"k1": 1, "width": 1, "rules": "paper"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A method with its knobs, and the token-level method below it.

    ``k1``, ``width`` and ``rules`` may also be given among the ``knobs``; afterwards both places hold every knob of the
    method, the defaults filled in. The same holds for ``k2`` and the ``token_knobs``. A method of the token level is
    its own ``token``, and its knobs are the ``token_knobs``.
    """

    method: str
    """Name of a method of `sim.catalogue`."""

    k1: int = None  # type: ignore[assignment]  # None until __post_init__ has found the method's default
    """Target steps in flight along one path, >= 1; default the method's, 1 for methods without the knob."""

    k2: int = None  # type: ignore[assignment]
    """Tokens that a target pass commits at most, >= 1; 1 is plain decoding. Default the token-level method's."""

    width: int = None  # type: ignore[assignment]
    """Drafts per position, >= 1; default the method's, 1 for methods without the knob."""

    rules: RuleName = None  # type: ignore[assignment]
    """Schedule of Lookahead Reasoning; default the paper's."""

    knobs: Mapping[str, KnobValue | None] = field(default_factory=dict, hash=False)
    """All knobs of the method by name."""

    token: str | None = None
    """Name of the token-level method that the target decodes with; None: plain decoding, or prompt lookup if k2 > 1."""

    token_knobs: Mapping[str, KnobValue | None] = field(default_factory=dict, hash=False)
    """All knobs of the token-level method by name."""

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
        if self.spec.level == "token" and self.spec.has("k2") and self.k2 is not None:
            if given.get("k2", self.k2) != self.k2:
                raise ParameterError("k2", self.k2, f"contradicts the knob k2={given['k2']!r}")
            given["k2"] = self.k2
        full = self.spec.settings(given)
        for name in SHORTCUTS:
            object.__setattr__(self, name, full.get(name, getattr(self, name) or _WITHOUT[name]))
        object.__setattr__(self, "knobs", full)
        self._settle_token_level()

    def _settle_token_level(self) -> None:
        """Fill in the token-level method, its knobs and k2."""
        k2, token = self.k2, self.token
        if k2 is not None and (isinstance(k2, bool) or not isinstance(k2, int) or not 1 <= k2 <= 1024):
            raise ParameterError("k2", k2, "must be an integer in [1, 1024]")
        if self.spec.level == "token":
            if token not in (None, self.method):
                raise ParameterError("token", token, f"must not be given: {self.method} is a token-level method itself")
            if self.token_knobs and dict(self.token_knobs) != dict(self.knobs):
                raise ParameterError("token_knobs", dict(self.token_knobs), "must not differ from the method's knobs")
            token, knobs = self.method, dict(self.knobs)
        elif token is None and (k2 is None or k2 == 1):
            if self.token_knobs:
                raise ParameterError("token_knobs", dict(self.token_knobs), "need a token-level method")
            object.__setattr__(self, "k2", 1)
            return
        else:
            if self.spec.level == "baseline":
                name, value = ("k2", k2) if token is None else ("token", token)
                rule = "must be 1 for plain decoding" if token is None else "must not be given for plain decoding"
                raise ParameterError(name, value, rule)
            token, knobs = self._below(DEFAULT_TOKEN_METHOD if token is None else token, k2)
        most = method(token).most_per_pass(**knobs)
        if k2 is not None and k2 != most:
            raise ParameterError("k2", k2, f"must be left out, or {most}: so many the knobs of {token} say")
        object.__setattr__(self, "k2", most)
        object.__setattr__(self, "token", token)
        object.__setattr__(self, "token_knobs", knobs)

    def _below(self, token: str, k2: int | None) -> tuple[str, dict[str, KnobValue | None]]:
        """The token-level method of a hybrid, and its knobs."""
        if token not in methods("token"):
            raise ParameterError("token", token, f"must be one of {', '.join(methods('token'))}")
        spec = method(token)
        given = {name: value for name, value in self.token_knobs.items() if value is not None}
        if k2 is not None and spec.has("k2"):
            # A changed k2 wins over the one that was filled in before, as in `dataclasses.replace`.
            given["k2"] = k2
        return token, spec.settings(given)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a configuration as `name` writes it: a method, its knobs, ``+``, a token-level method and its knobs.

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
        fields: dict[str, Any] = {"knobs": parse_knobs(name, words[1:])}
        if under:
            token = choice("token", under[0], TOKEN_METHOD_NAMES)
            fields |= {"token": token, "token_knobs": parse_knobs(token, under[1:])}
        return cls(method=name, **fields)

    @property
    def spec(self) -> Method:
        """The method's record in the catalogue."""
        return method(self.method)

    @property
    def name(self) -> str:
        """Method and knobs that tell it from its defaults, in one word or a few."""
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
        """The two parts of a hybrid: its step-level method with plain decoding, and its token-level method alone."""
        assert self.token is not None
        above = type(self)(method=self.method, knobs=self.knobs)
        return above, type(self)(method=self.token, knobs=self.token_knobs)

    @property
    def speculates(self) -> bool:
        """Whether it is anything but plain decoding."""
        return self.spec.drafts_steps or self.k2 > 1 or bool(self.knobs)

    @property
    def decider(self) -> tuple[str, float | None]:
        """Who decides which drafts stand, and from which score on; None: from its own threshold on."""
        graded = next((role for role in self.spec.roles if role in (SCORER, REWARD)), JUDGE)
        threshold = self.knobs.get("threshold")
        return str(self.knobs.get("verifier") or graded), None if threshold is None else float(threshold)

    @property
    def most_sequences(self) -> int:
        """Target sequences in flight at the worst moment, whatever the lengths."""
        return self.spec.most_sequences(**self.knobs)

    def algorithm(self) -> MakeAlgorithm:
        """Builds the method's generator for a prompt."""
        return self.spec.build(**self.knobs)


def _shown(spec: Method, knobs: Mapping[str, KnobValue | None], always: str) -> list[str]:
    """Knobs to name: one always, the others where they differ from their defaults."""
    defaults = spec.settings({})
    shown = [f"{always}={knobs[always]}"] if spec.has(always) else []
    return shown + [f"{name}={value}" for name, value in knobs.items() if value != defaults[name] and name != always]


def parse_knobs(chosen: str, settings: Sequence[str]) -> dict[str, KnobValue]:
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
TOKEN_METHOD_NAMES: Final = tuple(methods("token"))
