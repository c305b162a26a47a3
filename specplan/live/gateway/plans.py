"""A plan as the gateway runs it: a configuration for each number of answers in flight, and defaults of requests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from calibrate.record.files import read_text
from calibrate.record.json_text import check_version, parse_json
from sim.configuration import Configuration
from sim.roles import CHOOSER, DRAFT, EMBEDDING, JUDGE, LIKELIHOOD, REWARD, SCORER
from theory.errors import ParameterError, SchemaError, shown

__all__ = [
    "PLAIN",
    "SPECULATIVE",
    "Expected",
    "RequestDefaults",
    "ServingPlan",
    "helpers_of",
    "parse_plan",
    "plan_text",
]

PLAIN: Final = Configuration(method="autoregressive")
"""Configuration that runs when speculation is off."""

SPECULATIVE: Final = "speculative"
"""Role of the target's servers with token-level methods, where they are servers of their own."""

_MOST_BYTES: Final = 64 * 2**20
_SCHEMAS: Final = ("specplan.plan", "specplan.load-plan")
_CASCADE: Final = "cascade"


class _Foreign(BaseModel):
    """Part of a plan's file; fields that the gateway does not use are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class RequestDefaults(_Foreign):
    """The plan's values of fields that a request leaves out, and its settings and servers of the models."""

    temperature: Annotated[float, Field(ge=0.0, le=100.0)] = 0.6
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 0.95
    max_step_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Longest step, tokens."""
    threshold: float | None = None
    """The method's threshold of acceptance, which may be none of a probability."""
    target: str = ""
    draft: str = ""
    judge: str = ""

    @property
    def judge_threshold(self) -> float:
        """Least probability of "yes" at which the judge accepts, in [0, 1]."""
        return self.threshold if self.threshold is not None and 0.0 <= self.threshold <= 1.0 else 0.5


class Expected(_Foreign):
    """The plan's prediction for a configuration."""

    acceptance: Annotated[float, Field(ge=0.0, le=1.0)] | None
    """Share of judged drafts that were accepted; None if none was judged."""
    token_settings: dict[str, Any] = {}
    """Settings of the token-level method that the prediction assumes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPlan:
    """The configuration for each load."""

    by_load: tuple[tuple[int, Configuration], ...]
    """Answers in flight, ascending, with the best configuration; a single entry holds at every load."""
    tried: tuple[tuple[int, Configuration], ...] = ()
    """The same, but where plain decoding is planned, with what may gain: its interval reaches above 1."""
    defaults: RequestDefaults = field(default_factory=RequestDefaults)
    expected: Mapping[Configuration, Expected] = field(default_factory=dict)
    """Predictions of the configurations that the plan describes at concurrency 1."""

    def at(self, in_flight: int) -> Configuration:
        """Return the configuration of the planned load whose ratio to ``in_flight`` is nearest to 1."""
        return _nearest(self.by_load, in_flight)

    def candidate(self, in_flight: int) -> Configuration:
        """Return the configuration to compare with plain decoding; `PLAIN` where none may gain."""
        return _nearest(self.tried or self.by_load, in_flight)

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """The configurations that may run, each once, in the order of loads."""
        return tuple(dict.fromkeys(configuration for _, configuration in (*self.by_load, *self.tried)))

    def servable(self, roles: Set[str], *, trusted: bool = False) -> ServingPlan:
        """Return the plan without what is only tried: if it is ``trusted``, or needs a helper not among ``roles``."""
        if trusted:
            return replace(self, tried=())
        planned = dict(self.by_load)
        kept = [(n, one if helpers_of(one) <= roles else planned[n]) for n, one in self.tried]
        return replace(self, tried=tuple(kept))


def _nearest(rows: Sequence[tuple[int, Configuration]], in_flight: int) -> Configuration:
    return min(rows, key=lambda row: abs(math.log(max(in_flight, 1) / row[0])))[1]


def helpers_of(configuration: Configuration) -> set[str]:
    """Return the roles that a configuration needs next to the target: ``draft``, ``judge``, ``scorer``, ``embedding``.

    Raises
    ------
    ParameterError : it needs a role that no server can have.
    """
    helpers: set[str] = set()
    verifier = str(configuration.knobs.get("verifier", JUDGE))
    for role in configuration.spec.roles:
        if role == DRAFT:
            helpers.add(DRAFT)
        elif role == JUDGE and verifier in (JUDGE, _CASCADE):
            helpers.add(JUDGE)
        elif role in (SCORER, REWARD, CHOOSER):
            helpers.add(SCORER)
        elif role == LIKELIHOOD:
            rule = "cannot be served: servers do not report the likelihood of a given text at a temperature"
            raise ParameterError("method", configuration.method, f"{rule}; plan with --methods that leave it out")
    if JUDGE in configuration.spec.roles and verifier == EMBEDDING:
        helpers.add(EMBEDDING)
    return helpers


class _Value(_Foreign):
    value: Annotated[float, Field(gt=0.0, lt=1e6)]
    high: float | None = None

    @property
    def reaches(self) -> float:
        """Upper end of the interval; the value where the file has none."""
        return self.value if self.high is None else max(self.high, self.value)


class _Configuration(_Foreign):
    method: str
    knobs: dict[str, Any] = {}
    token: str | None = None
    token_knobs: dict[str, Any] = {}

    def configuration(self) -> Configuration:
        plain = Configuration(method=self.method, knobs=self.knobs)
        if self.token is None or self.token == self.method:
            return plain
        return plain.with_token(self.token, self.token_knobs)


class _Row(Expected):
    configuration: _Configuration


class _LoadRow(_Foreign):
    configuration: str
    gain: _Value


class _AtOnce(_LoadRow):
    answers: Annotated[int, Field(ge=1, le=1_000_000)]


class _Advice(_Foreign):
    client: RequestDefaults | None = None


class _Plan(_Foreign):
    rows: Annotated[list[_Row], Field(min_length=1)]
    at_once: list[_AtOnce] = []
    advice: _Advice = _Advice()


class _Load(_Foreign):
    load: str
    rows: Annotated[list[_LoadRow], Field(min_length=1)]


class _LoadPlan(_Foreign):
    loads: Annotated[list[_Load], Field(min_length=1)]


def plan_text(path: str) -> str:
    """Read the text of a plan that ``specplan plan --json`` wrote; `SchemaError` if the file cannot be read."""
    return read_text(path, "a plan", most_bytes=_MOST_BYTES)


def parse_plan(text: str, path: str) -> ServingPlan:
    """Return the plan with this text, from a profile or from names; ``path`` is how errors name it.

    Raises
    ------
    SchemaError : it is not a plan.
    ParameterError : it has a method or knob that this version does not know.
    """
    data = parse_json(text, path)
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema not in _SCHEMAS:
        what = f"schema={shown(repr(schema))}" if isinstance(data, dict) else "no object"
        raise SchemaError(
            f"{shown(path)}: is not a plan ({what}); write one: specplan plan ... --json -o {shown(path)}"
        )
    check_version(data, 1, path, "plan again with this version")
    try:
        if schema == _SCHEMAS[0]:
            return _of_profile(_Plan.model_validate(data))
        return _of_names(_LoadPlan.model_validate(data))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SchemaError(f"{shown(path)}: {shown(place)}: {first['msg']}; plan again with this version") from None


def _of_profile(plan: _Plan) -> ServingPlan:
    best = plan.rows[0].configuration.configuration()
    by_load, tried = _tables([(one.answers, one.configuration, one.gain) for one in plan.at_once])
    return ServingPlan(
        by_load=by_load or ((1, best),),
        tried=tried,
        defaults=plan.advice.client or RequestDefaults(),
        expected={row.configuration.configuration(): row for row in plan.rows},
    )


def _of_names(plan: _LoadPlan) -> ServingPlan:
    rows = []
    for load in plan.loads:
        answers = load.load.split()[0]
        if not answers.isdigit() or int(answers) < 1:
            rule = "is a rate of arrivals, not a number of answers in flight: plan with --concurrency, e.g. 1,8,32"
            raise SchemaError(f"load {shown(load.load)!r} {rule}")
        rows += [(int(answers), row.configuration, row.gain) for row in load.rows]
    by_load, tried = _tables(rows)
    return ServingPlan(by_load=by_load, tried=tried)


_Table: TypeAlias = tuple[tuple[int, Configuration], ...]


def _tables(rows: Sequence[tuple[int, str, _Value]]) -> tuple[_Table, _Table]:
    """The best configuration at each load, and the best that may gain: plain decoding where there is none."""
    best: dict[int, tuple[float, Configuration]] = {}
    tried: dict[int, tuple[float, Configuration]] = {}
    for answers, name, gain in rows:
        configuration = Configuration.parse(name)
        if gain.value > best.setdefault(answers, (1.0, PLAIN))[0]:
            best[answers] = gain.value, configuration
        open_ = gain.reaches > 1.0 and configuration != PLAIN
        if gain.value > tried.setdefault(answers, (0.0, PLAIN))[0] and open_:
            tried[answers] = gain.value, configuration
    at_best, at_tried = (tuple((answers, rows[answers][1]) for answers in sorted(rows)) for rows in (best, tried))
    return at_best, at_tried
