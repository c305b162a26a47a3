"""Profiles: measurements (or published figures) of a set of models on a machine, as a versioned JSON file.

A profile keeps raw samples, with warm-ups separately, and seeds, machine and versions; costs and rates are computed
when they are needed, so that a better estimator can be applied to an old file. `Profile.read` refuses data that do not
fit the schema, with the path inside the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from calibrate.record.answer_records import RecordedAnswer
from calibrate.record.engine_records import EngineRecord
from calibrate.record.fields import Count, Finite, NotNegative, Record, Seconds, checked
from calibrate.record.files import read_text, write_atomically
from calibrate.record.json_text import check_version, one_line_strings, parse_json
from calibrate.record.token_records import NGramRecord, TokenRecord
from theory.errors import ParameterError, SchemaError

__all__ = ["SCHEMA_VERSION", "ModelRecord", "Profile", "Provenance", "Published", "PublishedValue"]

SCHEMA_VERSION = 1


class ModelRecord(Record):
    """The model of a role."""

    name: Annotated[str, Field(max_length=1000)]
    location: str = ""
    """Local path relative to the user's input, or URL without credentials."""
    n_parameters: Count | None = None
    dtype: str = ""
    sha256: str = ""
    """Hash of the weights, if they are available as files."""


class Provenance(Record):
    """Source of the numbers: machine, engine, versions, date."""

    created: str
    """ISO 8601 date or date and time, UTC."""
    command: str = ""
    seed: int | None = None
    engine: str = ""
    engine_version: str = ""
    device: str = ""
    driver: str = ""
    cpu: str = ""
    n_cores: Count | None = None
    os: str = ""
    python: str = ""
    packages: dict[str, str] = {}
    git: str = ""
    citation: str = ""
    """For published figures: paper, table, and derivation."""
    notes: list[str] = []


class PublishedValue(Record):
    """A published number with the half-width that its source, its rounding or its assumption allows."""

    value: Finite
    half_width: NotNegative
    source: str
    """Paper and table, or derivation."""


def _within(low: float, high: float) -> AfterValidator:
    """Refuse a figure outside [low, high], or with a half-width larger than that range."""

    def check(figure: PublishedValue) -> PublishedValue:
        if not (low <= figure.value <= high and figure.half_width <= high):
            raise ValueError(f"must be in [{low:g}, {high:g}], got {figure.value:g} ± {figure.half_width:g}")
        return figure

    return AfterValidator(check)


_Window = Annotated[int, Field(ge=1, le=1_000_000)]
_Share = Annotated[PublishedValue, _within(0.0, 1.0)]
_Score = Annotated[PublishedValue, _within(0.0, 100.0)]
"""Accuracy as a share; for MT-Bench, scores up to 10."""
_Seconds = Annotated[PublishedValue, _within(0.0, 1e6)]
_Speedup = Annotated[PublishedValue, _within(0.0, 1e4)]


class Published(Record):
    """Summary figures from a paper, for profiles without raw samples."""

    alpha1: _Share
    c1: Annotated[PublishedValue, _within(0.0, 1.0)]
    target_step_s: _Seconds
    verify_s: _Seconds | None = None
    mean_step_tokens: Annotated[PublishedValue, _within(1.0, 1e6)] | None = None
    step_length_cv: Annotated[PublishedValue, _within(0.0, 100.0)] | None = None
    token_speedup: _Speedup | None = None
    """Measured speedup of token-level speculation without step-level speculation, at ``token_k2``."""
    token_k2: _Window | None = None
    step_speedup: _Speedup | None = None
    """Measured speedup of lookahead reasoning with plain decoding: for comparison, never used for prediction."""
    combined_speedup: _Speedup | None = None
    k1: _Window | None = None
    accuracy_target: _Score | None = None
    accuracy_method: _Score | None = None


class Profile(Record):
    """All records of a set of models on a machine."""

    schema_version: Literal[1] = SCHEMA_VERSION  # type: ignore[assignment]  # a Literal default
    name: Annotated[str, Field(max_length=300)]
    source: Literal["measured", "published", "latency"]
    """``latency``: timings of engines only, to be combined with the acceptance of another profile (`on_engines_of`)."""
    provenance: Provenance
    models: dict[str, ModelRecord]
    placement: dict[str, str] = {}
    """Role (target, draft, judge) -> name of its engine."""
    engines: dict[str, EngineRecord] = {}
    answers: list[RecordedAnswer] = []
    texts: list[RecordedAnswer] = []
    """Further answers, generated concurrently: their texts are used, their seconds are not."""
    ngram: list[NGramRecord] = []
    token: list[TokenRecord] = []
    """Records of token-level methods on the target, one per method and settings."""
    role_seconds: dict[str, list[Seconds]] = {}
    """Raw times of verifiers without an engine (``embedding``), by role."""
    published: Published | None = None
    settings: dict[str, str | int | float | bool] = {}
    """Every effective parameter of the measurement: temperature, limits, judge threshold, ..."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.source == "published":
            if self.published is None:
                raise ValueError("a published profile needs the section 'published'")
            if not self.engines:
                return self
        for role in ("target", "draft", "judge"):
            if self.placement.get(role) not in self.engines:
                raise ValueError(f"placement.{role} must name one of the engines {sorted(self.engines)}")
        if self.source == "measured" and not self.answers:
            raise ValueError("a measured profile needs at least one answer")
        has_answers = self.answers or self.texts or self.ngram or self.token
        if self.source == "latency" and (has_answers or self.published is not None):
            raise ValueError("a latency profile holds timings only: no answers, texts, ngram, token or published")
        return self

    @property
    def all_answers(self) -> list[RecordedAnswer]:
        """All answers: those that were timed, and after them those that were not."""
        return [*self.answers, *self.texts]

    def timings(self, names: Mapping[str, str] = MappingProxyType({})) -> Profile:
        """Return only the engines, as a profile of source ``latency``.

        Parameters
        ----------
        names : role to the model whose timings these are to count as; roles left out keep their model.

        Raises
        ------
        ParameterError : no engines, or a role without one.
        """
        if not self.engines:
            raise ParameterError("profile", self.name, "holds no timings; see 'specplan profile list'")
        renamed = {}
        for role, name in names.items():
            if role not in self.placement:
                rule = f"must be a role of the profile: {', '.join(sorted(self.placement))}"
                raise ParameterError("model", role, rule)
            renamed[role] = ModelRecord(name=name, dtype=self.models[role].dtype if role in self.models else "")
        measured = ", ".join(f"{role}: {self.models[role].name}" for role in names if role in self.models)
        notes = [*self.provenance.notes, f"timings of profile {self.name}" + (f" ({measured})" if measured else "")]
        return Profile(
            name=self.name,
            source="latency",
            provenance=self.provenance.model_copy(update={"notes": notes}),
            models={**self.models, **renamed},
            placement=self.placement,
            engines=self.engines,
            settings=self.settings,
        )

    def on_engines_of(self, latency: Profile) -> Profile:
        """Return the answers and acceptance of this profile with the timings of another one of the same models.

        Raises
        ------
        ParameterError : this profile has timings only, the other one has none, or they are about different models.
        """
        if self.source == "latency":
            raise ParameterError("profile", self.name, "holds timings only, no acceptance: give it as the latency")
        if not latency.engines:
            raise ParameterError("latency", latency.name, "holds no timings; see 'specplan profile list'")
        for role in sorted(self.models.keys() & latency.models.keys()):
            own, timed = self.models[role].name, latency.models[role].name
            if own != timed:
                raise ParameterError("latency", latency.name, f"has timings of the {role} {timed}, not of {own}")
        note = f"timings of profile {latency.name}: {latency.provenance.device or latency.provenance.cpu}"
        provenance = self.provenance.model_copy(update={"notes": [*self.provenance.notes, note]})
        return self.model_copy(
            update={"engines": latency.engines, "placement": latency.placement, "provenance": provenance}
        )

    def with_answers_of(self, others: Sequence[Profile]) -> Profile:
        """Return this profile with the answers of other profiles of the same models added to its texts.

        Texts depend neither on the engine nor on the machine. Seconds do, and so does the share of a prompt in a
        judge's cache: the tokens that it read for the added verdicts are scaled to this profile's mean. Timings,
        statistics of n-grams and token-level methods stay this profile's.

        Parameters
        ----------
        others : measured profiles of the same models, with the same settings of generation and judging.

        Raises
        ------
        ParameterError : a profile without answers, of other models, with other settings, or with answers that this
            profile has already.
        """
        own = {_draw(answer) for answer in self.all_answers}
        texts, notes = list(self.texts), list(self.provenance.notes)
        for other in others:
            _check_alike(self, other)
            scale = _mean_read(self) / _mean_read(other)
            for answer in other.all_answers:
                if _draw(answer) in own:
                    rule = f"has an answer to {answer.problem} that is here already"
                    raise ParameterError("others", other.name, rule)
                own.add(_draw(answer))
                steps = []
                for step in answer.steps:
                    read = {"prompt_tokens": round(scale * step.verdict.prompt_tokens)}
                    changed = {"verdict": step.verdict.model_copy(update=read), "candidates": []}
                    steps.append(step.model_copy(update=changed))
                named = f"{answer.problem} ({other.name})"
                texts.append(answer.model_copy(update={"problem": named, "steps": steps, "beams": []}))
            source = f"{other.provenance.engine} {other.provenance.engine_version}, {other.provenance.created}"
            notes.append(f"{len(other.all_answers)} texts are of profile {other.name} ({source})")
        provenance = self.provenance.model_copy(update={"notes": notes})
        return self.model_copy(update={"texts": texts, "provenance": provenance})

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a profile from a JSON file.

        Raises
        ------
        SchemaError : the file is missing, empty, not JSON, of another schema version, or does not fit the schema.
        """
        return cls.parse(read_text(path, "a profile"), str(path))

    @classmethod
    def parse(cls, text: str, where: str = "profile") -> Self:
        """Parse a profile from JSON text; ``where`` names it in errors.

        Raises
        ------
        SchemaError : as `read`.
        """
        if not text.strip():
            raise SchemaError(f"{where}: empty file, expected a profile in JSON")
        data = parse_json(text, where)
        check_version(data, SCHEMA_VERSION, where, "calibrate again with this version")
        one_line_strings(data, text, where)
        return checked(cls, data, where)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the profile as JSON with sorted keys, atomically."""
        write_atomically(path, self.to_json())

    def to_json(self) -> str:
        """Return the profile as JSON text; samples one to a line, so that files diff well."""
        return _compact_json(self.model_dump(mode="json", exclude_defaults=False)) + "\n"


_SHARED: Final = ("temperature", "top_p", "max_step_tokens", "max_steps", "judge_threshold", "chat", "template_kwargs")
"""Settings that determine the models' texts and verdicts."""


def _check_alike(one: Profile, other: Profile) -> None:
    """Raise `ParameterError` if two profiles have different models, as far as known, or different settings."""
    for profile in (one, other):
        if profile.source != "measured":
            raise ParameterError("others", profile.name, f"is {profile.source}: only measured profiles have answers")
    if one.models.keys() != other.models.keys():
        raise ParameterError("others", other.name, f"has models for {sorted(other.models)}, not {sorted(one.models)}")
    for role, own in sorted(one.models.items()):
        added = other.models[role]
        for name in ("sha256", "n_parameters"):
            values = getattr(own, name), getattr(added, name)
            if all(values) and values[0] != values[1]:
                raise ParameterError("others", other.name, f"has another {role}: {name} {values[1]}, not {values[0]}")
    for name in _SHARED:
        if name in one.settings and name in other.settings and one.settings[name] != other.settings[name]:
            rule = f"was measured with {name} = {other.settings[name]}, not {one.settings[name]}"
            raise ParameterError("others", other.name, rule)


def _draw(answer: RecordedAnswer) -> tuple[float, ...]:
    """The seconds of an answer's steps, which identify it."""
    return tuple(step.seconds for step in answer.baseline)


def _mean_read(profile: Profile) -> float:
    """Mean tokens that the judge read per verdict; 1 where there is no verdict."""
    read = [step.verdict.prompt_tokens for answer in profile.all_answers for step in answer.steps]
    return max(sum(read) / len(read), 1.0) if read else 1.0


def _compact_json(value: Any, depth: int = 0) -> str:
    """JSON with an indent for the upper levels and one line per sample below them."""
    if depth < 3 and isinstance(value, dict) and value:
        items, ends = [f"{json.dumps(key)}: {_compact_json(value[key], depth + 1)}" for key in sorted(value)], "{}"
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        items, ends = [json.dumps(item, sort_keys=True, allow_nan=False) for item in value], "[]"
    else:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    pad = "\n" + "  " * depth
    return ends[0] + ",".join(f"{pad}  {item}" for item in items) + pad + ends[1]
