"""A plan as the gateway runs it: which configuration with how many answers in flight, and how models are asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from calibrate.record.files import read_text
from calibrate.record.json_text import check_version, parse_json
from sim.configuration import Configuration
from sim.operations import CHOOSER, DRAFT, EMBEDDING, JUDGE, LIKELIHOOD, REWARD, SCORER
from theory.errors import ParameterError, SchemaError, shown

__all__ = ["PLAIN", "Asking", "Expected", "ServingPlan", "helpers_of", "read_plan"]

PLAIN: Final = Configuration(method="autoregressive")
"""What is left when speculation is off."""

_MOST_BYTES: Final = 64 * 2**20
_SCHEMAS: Final = ("specplan.plan", "specplan.load-plan")
_CASCADE: Final = "cascade"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How the plan asks the models, where a request does not say."""

    temperature: float = 0.6
    top_p: float = 0.95
    max_step_tokens: int = 100
    """A step is cut there, tokens."""
    threshold: float = 0.5
    """Least probability of yes at which the judge accepts, in [0, 1]."""
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Role to URL, as far as the plan names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the plan expects of a configuration."""

    acceptance: float | None
    """Share of judged drafts that were accepted, in [0, 1]; None if none was judged."""
    speedup: float
    """Seconds of plain decoding / seconds of the method, [-]."""
    token_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the token-level method that the prediction rests on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPlan:
    """Which configuration runs at which load."""

    name: str
    """Name of the profile or the target that was planned for."""
    by_load: tuple[tuple[int, Configuration], ...]
    """Answers in flight, ascending, and what is best there; one entry: the same at every load."""
    asking: Asking = field(default_factory=Asking)
    expected: Mapping[Configuration, Expected] = field(default_factory=dict)
    """What the plan expects, of the configurations that it describes for one answer at a time."""
    baseline_seconds: float | None = None
    """Mean time of an answer by plain decoding, one at a time, s; None where the plan does not say."""

    def at(self, in_flight: int) -> Configuration:
        """Return the configuration for so many answers in flight: that of the planned load nearest by ratio."""
        return min(self.by_load, key=lambda row: abs(math.log(max(in_flight, 1) / row[0])))[1]

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """All that may run, each once, in the order of loads."""
        return tuple(dict.fromkeys(configuration for _, configuration in self.by_load))


def helpers_of(configuration: Configuration) -> set[str]:
    """Whom a configuration asks besides the target: ``draft``, ``judge``, ``scorer``, ``embedding``.

    Raises
    ------
    ParameterError : it asks somebody whom servers cannot stand for.
    """
    found: set[str] = set()
    verifier = str(configuration.knobs.get("verifier", JUDGE))
    for role in configuration.spec.roles:
        if role == DRAFT:
            found.add(DRAFT)
        elif role == JUDGE and verifier in (JUDGE, _CASCADE):
            found.add(JUDGE)
        elif role in (SCORER, REWARD, CHOOSER):
            found.add(SCORER)
        elif role == LIKELIHOOD:
            rule = "cannot be served: it asks how likely a given text is, which servers do not tell at a temperature"
            raise ParameterError("method", configuration.method, f"{rule}; plan with --methods and others")
    if JUDGE in configuration.spec.roles and verifier == EMBEDDING:
        found.add(EMBEDDING)
    return found


class _Foreign(BaseModel):
    """Part of a plan; what the gateway has no use for is passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


_Share = Annotated[float, Field(ge=0.0, le=1.0)]
_Positive = Annotated[float, Field(gt=0.0, lt=1e9)]


class _Value(_Foreign):
    value: Annotated[float, Field(gt=0.0, lt=1e6)]


class _Configuration(_Foreign):
    method: str
    knobs: dict[str, Any] = {}
    token: str | None = None
    token_knobs: dict[str, Any] = {}

    def configuration(self) -> Configuration:
        found = Configuration(method=self.method, knobs=self.knobs)
        if self.token is None or self.token == self.method:
            return found
        return found.with_token(self.token, self.token_knobs)


class _Row(_Foreign):
    configuration: _Configuration
    speedup: _Value
    acceptance: _Share | None
    baseline_seconds: _Positive
    token_settings: dict[str, Any] = {}


class _AtOnce(_Foreign):
    answers: Annotated[int, Field(ge=1, le=1_000_000)]
    configuration: str
    gain: _Value


class _Client(_Foreign):
    temperature: Annotated[float, Field(ge=0.0, le=100.0)] = 0.6
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 0.95
    max_step_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    threshold: float | None = None
    target: str = ""
    draft: str = ""
    judge: str = ""


class _Advice(_Foreign):
    client: _Client | None = None


class _Plan(_Foreign):
    profile: str
    rows: Annotated[list[_Row], Field(min_length=1)]
    at_once: list[_AtOnce] = []
    advice: _Advice = _Advice()


class _LoadRow(_Foreign):
    configuration: str
    gain: _Value


class _Load(_Foreign):
    load: str
    rows: Annotated[list[_LoadRow], Field(min_length=1)]


class _LoadPlan(_Foreign):
    target: str
    loads: Annotated[list[_Load], Field(min_length=1)]


def read_plan(path: str) -> ServingPlan:
    """Read what ``specplan plan --json`` wrote, from a profile or from names.

    Raises
    ------
    SchemaError : the file cannot be read, or is no plan.
    ParameterError : a method or knob in it that this version does not know.
    """
    text = read_text(path, "a plan", most_bytes=_MOST_BYTES)
    data = parse_json(text, path)
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema not in _SCHEMAS:
        what = f"schema={shown(repr(schema))}" if isinstance(data, dict) else "no object"
        raise SchemaError(f"{shown(path)}: is no plan ({what}); write one: specplan plan ... --json -o {shown(path)}")
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
    by_load = _table([(one.answers, one.configuration, one.gain.value) for one in plan.at_once]) or ((1, best),)
    client = plan.advice.client or _Client()
    given = {"target": client.target, "draft": client.draft, "judge": client.judge}
    # A knob of the method goes before the judge's own threshold; only the latter is a probability of yes.
    threshold = client.threshold if client.threshold is not None and 0.0 <= client.threshold <= 1.0 else 0.5
    return ServingPlan(
        name=plan.profile,
        by_load=by_load,
        asking=Asking(
            temperature=client.temperature,
            top_p=client.top_p,
            max_step_tokens=client.max_step_tokens,
            threshold=threshold,
            endpoints={role: url for role, url in given.items() if url},
        ),
        expected={
            row.configuration.configuration(): Expected(
                acceptance=row.acceptance, speedup=row.speedup.value, token_settings=row.token_settings
            )
            for row in plan.rows
        },
        baseline_seconds=plan.rows[0].baseline_seconds,
    )


def _of_names(plan: _LoadPlan) -> ServingPlan:
    rows = []
    for load in plan.loads:
        answers = load.load.split()[0]
        if not answers.isdigit() or int(answers) < 1:
            rule = "is of arrivals, not of answers in flight: plan with --concurrency, e.g. 1,8,32"
            raise SchemaError(f"load {shown(load.load)!r} {rule}")
        rows += [(int(answers), row.configuration, row.gain.value) for row in load.rows]
    return ServingPlan(name=plan.target, by_load=_table(rows))


def _table(rows: Sequence[tuple[int, str, float]]) -> tuple[tuple[int, Configuration], ...]:
    """The best configuration at each load: plain decoding where nothing gains."""
    best: dict[int, tuple[float, Configuration]] = {}
    for answers, name, gain in rows:
        found = Configuration.parse(name)
        if gain > best.setdefault(answers, (1.0, PLAIN))[0]:
            best[answers] = gain, found
    return tuple((answers, best[answers][1]) for answers in sorted(best))
