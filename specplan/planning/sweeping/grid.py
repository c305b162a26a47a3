"""The file that says what is swept: TOML, and the points that it stands for.

.. code-block:: toml

    precision = 0.001                    # standard error of each speedup, as a share of it
    # profile = "lr-deepseek-gsm8k"      # else a world of models that the parameters describe

    [fixed]
    cv = 1.2

    [vary]
    method = ["lr-async", "lr-sync"]
    k1 = {from = 1, to = 8}
    alpha1 = {from = 0.5, to = 0.95, points = 10}
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from calibrate.record.files import read_text
from sim.catalogue import KnobValue, method
from sim.configuration import METHOD_NAMES, Configuration
from sim.gaps.worlds import World
from theory.errors import ParameterError, SchemaError, shown

__all__ = ["MOST_POINTS", "Grid", "Point", "grid_of", "read_grid"]

MOST_POINTS: Final = 1_000_000
WORLD: Final = tuple(field.name for field in fields(World) if field.name not in ("ends",))
FIGURES: Final = ("alpha1", "c1", "target_step_s", "verify_s", "mean_step_tokens", "step_length_cv")
RUNS: Final = ("method", "token", "k2", "concurrency")


_LIST: Final = "a list of values"
_SPAN: Final = "a span of values"
"""What stands in the path of an error, and in no file."""


def _one_value(value: Any) -> Any:
    if isinstance(value, (bool, str)) or (isinstance(value, (int, float)) and math.isfinite(value)):
        return value
    raise ValueError("must be a finite number, a text, true or false")


if TYPE_CHECKING:
    Value = bool | int | float | str
else:  # a single type for pydantic, so that it reports a single error
    Value = Annotated[Any, AfterValidator(_one_value)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True, allow_inf_nan=False)


class Span(_Record):
    """Evenly spaced values, both ends included: whole numbers, or so many ``points``."""

    first: int | float = Field(alias="from")
    last: int | float = Field(alias="to")
    points: Annotated[int, Field(ge=2, le=10_000)] | None = None

    @model_validator(mode="after")
    def _checked(self) -> Span:
        if not (math.isfinite(self.first) and math.isfinite(self.last) and self.first <= self.last):
            raise ValueError("'from' and 'to' must be finite, 'from' not above 'to'")
        whole = isinstance(self.first, int) and isinstance(self.last, int)
        if self.points is None and not (whole and self.last - self.first <= 10_000):
            raise ValueError("needs 'points', unless 'from' and 'to' are whole numbers")
        return self

    def values(self) -> list[Value]:
        """Return the values, ascending."""
        if self.points is None:
            return list(range(int(self.first), int(self.last) + 1))
        step = (self.last - self.first) / (self.points - 1)
        return [float(f"{self.first + i * step:.12g}") for i in range(self.points)]


class Grid(_Record):
    """What is swept."""

    profile: str | None = None
    """Name or file of a profile; without one, a world that the parameters describe."""
    precision: Annotated[float, Field(ge=1e-5, le=0.5)] = 0.005
    """Standard error at which a point is known well enough, as a share of its speedup."""
    most_answers: Annotated[int, Field(ge=8, le=1_000_000)] = 20_000
    """Answers that a point simulates at most."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of all points: they meet the same answers (common random numbers)."""
    fixed: dict[str, Value] = {}
    vary: dict[
        str,
        Annotated[
            Annotated[list[Value], Tag(_LIST)] | Annotated[Span, Tag(_SPAN)],
            Discriminator(lambda value: _SPAN if isinstance(value, (dict, Span)) else _LIST),
        ],
    ]

    @model_validator(mode="after")
    def _checked(self) -> Grid:
        twice = sorted(self.fixed.keys() & self.vary.keys())
        if twice:
            raise ValueError(f"{twice[0]!r} stands in both 'fixed' and 'vary'")
        if not self.vary or any(isinstance(one, list) and not one for one in self.vary.values()):
            raise ValueError("'vary' needs at least one name, and each of its lists a value")
        return self

    @property
    def axes(self) -> dict[str, list[Value]]:
        """Names that vary, to their values."""
        return {name: one.values() if isinstance(one, Span) else list(one) for name, one in self.vary.items()}

    def points(self) -> list[Point]:
        """Return all points, the last name fastest. Of those that differ in a knob that their method lacks, one.

        Raises
        ------
        ParameterError : a name or value that nothing takes, or too many points.
        """
        axes = self.axes
        count = math.prod(len(values) for values in axes.values())
        if count > MOST_POINTS:
            raise ParameterError("vary", count, f"must have at most {MOST_POINTS} points")
        chosen = [{**self.fixed, **dict(zip(axes, one, strict=True))} for one in itertools.product(*axes.values())]
        self._refuse_unknown(chosen)
        return list(dict.fromkeys(self._point(one) for one in chosen))

    def _refuse_unknown(self, chosen: list[dict[str, Value]]) -> None:
        methods = {str(one.get("method", "lr-async")) for one in chosen}
        unknown = sorted(methods - set(METHOD_NAMES))
        if unknown:
            raise ParameterError("method", unknown[0], "must be one that 'specplan methods' lists")
        knobs = {knob.name for name in methods for knob in method(name).knobs}
        known = {*RUNS, *self.parameters, *knobs}
        if self.profile is None:
            known -= {"concurrency"}
        for name in (*self.fixed, *self.vary):
            if name not in known:
                rule = f"is no knob of {', '.join(sorted(methods))}, and no parameter: {', '.join(sorted(known))}"
                raise ParameterError("name", name, rule)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of parameters that are no knobs."""
        return WORLD if self.profile is None else FIGURES

    def _point(self, chosen: dict[str, Value]) -> Point:
        name = str(chosen.get("method", "lr-async"))
        knobs: dict[str, KnobValue] = {}
        for knob in method(name).knobs:
            if knob.name in chosen and knob.name not in RUNS:
                knobs[knob.name] = knob.parse(str(chosen[knob.name]))
        k2, token = chosen.get("k2"), chosen.get("token")
        if k2 is not None and (not isinstance(k2, int) or isinstance(k2, bool)):
            raise ParameterError("k2", k2, "must be an integer >= 1")
        base = method(name).level == "baseline"
        configuration = Configuration(
            method=name,
            knobs=knobs,
            k2=None if base else k2,
            token=None if token is None or base or method(name).level == "token" else str(token),
        )
        parameters = {key: value for key, value in chosen.items() if key in self.parameters and key not in knobs}
        concurrency = chosen.get("concurrency", 1)
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or not 1 <= concurrency <= 256:
            raise ParameterError("concurrency", concurrency, "must be an integer in [1, 256]")
        return Point(configuration=configuration, parameters=tuple(parameters.items()), concurrency=concurrency)


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a grid."""

    configuration: Configuration
    parameters: tuple[tuple[str, Value], ...]
    concurrency: int

    @property
    def key(self) -> str:
        """Name of the point: it has all that its result depends on except the grid's profile, precision and seed."""
        said = " ".join(f"{name}={value!r}" for name, value in sorted(self.parameters))
        knobs = " ".join(f"{name}={value!r}" for name, value in sorted(self.configuration.knobs.items()))
        below = " ".join(f"{name}={value!r}" for name, value in sorted(self.configuration.token_knobs.items()))
        named = f"{self.configuration.method} {knobs} + {self.configuration.token} {below}"
        return f"{named} | {said} | {self.concurrency}"

    @property
    def columns(self) -> dict[str, Value | None]:
        """What distinguishes it from other points, by column."""
        result: dict[str, Value | None] = {"method": self.configuration.method, **self.configuration.knobs}
        if self.configuration.token is not None:
            result |= {"token": self.configuration.token, "k2": self.configuration.k2}
        return {**result, **dict(self.parameters), "concurrency": self.concurrency}


def read_grid(path: str | Path) -> Grid:
    """Read a grid.

    Raises
    ------
    SchemaError : no TOML, or not of this form; the path inside the file is named.
    """
    text = read_text(path, "a grid", most_bytes=1 << 20)
    try:
        return grid_of(tomllib.loads(text), shown(str(path)))
    except (ValueError, RecursionError) as error:  # also of integers of thousands of digits
        raise SchemaError(f"{shown(str(path))}: not TOML: {shown(str(error))}") from None


def grid_of(data: Mapping[str, Any], source: str = "grid") -> Grid:
    """Return the grid of what a file holds.

    Raises
    ------
    SchemaError : it is not of this form; the path inside it is named.
    """
    try:
        return Grid.model_validate(dict(data))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in (_LIST, _SPAN)) or "the file"
        what: Any = first["msg"].removeprefix("Value error, ")
        raise SchemaError(f"{source}: {shown(where)}: {shown(what)}") from None
