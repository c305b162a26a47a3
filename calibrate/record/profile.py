"""Profiles: what was measured (or published) about a set of models on a machine, as a versioned JSON file.

A profile keeps raw samples, warm-ups apart, with seeds, machine and versions; what is derived from them (costs, rates)
is derived when it is needed, so that a better estimator can be applied to an old file. `Profile.read` refuses what does
not fit the schema, with the path inside the file.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from theory.errors import ParameterError, SchemaError

__all__ = [
    "SCHEMA_VERSION",
    "AnswerRecord",
    "BeamStepRecord",
    "CandidatesRecord",
    "DecodeSample",
    "EngineRecord",
    "Generated",
    "InUse",
    "ModelRecord",
    "NGramRecord",
    "PrefillSample",
    "Profile",
    "Provenance",
    "Published",
    "PublishedValue",
    "StepRecord",
    "TokenAnswer",
    "TokenRecord",
    "TokenRequest",
    "VerdictRecord",
    "Work",
    "write_atomically",
]

SCHEMA_VERSION = 1

Seconds = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelRecord(_Record):
    """A model in its role."""

    name: str
    location: str = ""
    """Local path relative to the user's input, or URL without credentials."""
    n_parameters: Count | None = None
    dtype: str = ""
    sha256: str = ""
    """Hash of the weights, where they are at hand."""


class Provenance(_Record):
    """Where the numbers come from."""

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
    """For published figures: paper, table, how derived."""
    notes: list[str] = []


class DecodeSample(_Record):
    """One decode iteration of an engine."""

    batch: Annotated[int, Field(ge=1)]
    """Sequences in the iteration."""
    context: Count
    """Cached tokens of all of them together."""
    tokens: Annotated[int, Field(ge=1)] = 1
    """New tokens per sequence (1 is plain decoding; more is the verification of a token draft)."""
    by: str = ""
    """Token-level method whose drafting is part of the time; empty: none's is."""
    seconds: Seconds


class PrefillSample(_Record):
    """One prefill: ``tokens`` new prompt tokens after ``cached`` ones."""

    tokens: Count
    cached: Count = 0
    seconds: Seconds


class Work(_Record):
    """What an engine did, in sums."""

    decode: list[tuple[Annotated[int, Field(ge=1)], Count, Count, Seconds]] = []
    """Per batch size: the size, iterations, cached tokens summed over them, seconds."""

    prefill: tuple[Count, Count, Seconds] = (0, 0, 0.0)
    """Prefills, their uncached tokens, seconds."""

    @property
    def seconds(self) -> float:
        """Seconds of everything."""
        return sum(seconds for *_, seconds in self.decode) + self.prefill[2]


class InUse(Work):
    """What an engine did while one answer was made: the work as it comes, caches cold and neighbours busy."""

    request: tuple[Count, Seconds] = (0, 0.0)
    """Requests that met no other of theirs, and the seconds that they spent outside the engine."""

    beside: Work | None = None
    """Of ``decode`` and ``prefill``, all in whose time another engine worked too; None where that is not known."""

    shared_s: Seconds | None = None
    """Of the seconds of ``beside``, those in which another engine worked; None where that is not known: all."""

    @property
    def alone(self) -> Work:
        """What was done while no other engine worked at all; everything where that is not known."""
        less = {batch: sums for batch, *sums in self.beside.decode} if self.beside else {}
        cells = [(batch, *_difference(sums, less.get(batch, (0, 0, 0.0)))) for batch, *sums in self.decode]
        busy = self.beside.prefill if self.beside else (0, 0, 0.0)
        return Work(decode=[cell for cell in cells if cell[1]], prefill=_difference(self.prefill, busy))

    @property
    def company_s(self) -> float:
        """Seconds of ``beside`` in which another engine worked; all of them where that is not known."""
        if self.beside is None:
            return 0.0
        return self.beside.seconds if self.shared_s is None else self.shared_s


def _difference(all_of: Sequence[float], part: Sequence[float]) -> tuple[int, int, float]:
    n, amount, seconds = (a - b for a, b in zip(all_of, part, strict=True))
    return int(n), int(amount), max(seconds, 0.0)


class EngineRecord(_Record):
    """Raw timings of one model server."""

    device: str
    """Name of the processor it runs on; engines of one device share it."""
    decode: list[DecodeSample]
    prefill: list[PrefillSample]
    request_s: list[Seconds]
    """Latency of a request outside the engine's own work: round trip less prefill and iterations."""
    in_use: list[InUse] = []
    """One entry per answer, while asynchronous lookahead reasoning made it, with k1 = 1, 2, 4 in turns; the fit is
    scaled to it."""
    plain_in_use: list[InUse] = []
    """The same while the target answered alone; empty where that was not measured."""
    beam_in_use: list[InUse] = []
    """The same while candidates were surveyed, many requests at a time; their latency is that of a whole group."""
    warmup_decode: list[DecodeSample] = []
    warmup_prefill: list[PrefillSample] = []
    sentinels: list[tuple[Seconds, Seconds]] = []
    """The same small piece of work timed between the answers: moment (s since 1970), median iteration, s."""


class Generated(_Record):
    """One generated step."""

    tokens: Annotated[int, Field(ge=1)]
    seconds: Seconds
    """From the request to its end, with the engine to itself."""
    final: bool = False
    truncated: bool = False
    correct: bool | None = None
    """Against ground truth, where the task has one."""
    accepted: bool | None = None
    """Of a draft that was only looked at: what the judge said."""
    scores: dict[str, Finite] = {}
    """Of a draft: its score by each verifier and scorer that saw it besides the judge, by role, in the role's unit."""


class VerdictRecord(_Record):
    """A verifier's decision on a draft step."""

    accepted: bool
    score: Finite | None = None
    seconds: Seconds
    prompt_tokens: Count
    same_meaning: bool | None = None
    """Ground truth, where the task has one."""


class StepRecord(_Record):
    """One position of the committed trajectory: both models' steps after the same prefix, and the verdict."""

    draft: Generated
    target: Generated
    verdict: VerdictRecord
    candidates: list[Generated] = []
    """More drafts after the same prefix, none of them committed."""


class CandidatesRecord(_Record):
    """Several steps of one model after the same prefix, by branch."""

    tokens: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)]
    """Lengths of the candidates."""
    truncated: list[Count] = []
    """Which of them were cut by the limit on a step's tokens."""
    correct: list[bool] | None = None
    """Each against ground truth, where the task has one."""
    scores: dict[str, list[Finite]]
    """By role, of each candidate: reward, and of drafts log likelihoods under both models, nats."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        n = len(self.tokens)
        sizes = {n, *map(len, self.scores.values()), n if self.correct is None else len(self.correct)}
        if sizes != {n} or max(self.truncated, default=0) >= n:
            raise ValueError("every list needs one entry per candidate, and truncated ones must be among them")
        return self


class BeamStepRecord(_Record):
    """One position of an answer that was written by choosing among candidates."""

    drafts: CandidatesRecord
    targets: CandidatesRecord


class AnswerRecord(_Record):
    """One problem: the committed trajectory of lookahead reasoning, and the target's own answer."""

    problem: str
    prompt_tokens: Count
    steps: list[StepRecord]
    baseline: list[Generated]
    answer_correct: bool | None = None
    baseline_correct: bool | None = None
    beams: list[BeamStepRecord] = []
    """Another answer to the problem, with candidates of both models at each of its positions."""
    alone: list[Generated] = []
    """The draft's own answer to the problem, each step scored by the roles that score."""


class NGramRecord(_Record):
    """Token acceptance of prompt lookup (n-gram) on the target's own answers, counted per position of the draft."""

    max_ngram: Annotated[int, Field(ge=1)]
    n_speculative: Annotated[int, Field(ge=1)]
    passes: Count
    """Target passes in all."""
    drafts: Count
    """Passes for which the lookup found a draft."""
    tokens: Count
    """Tokens generated in all."""
    drafted_at: list[Count]
    accepted_at: list[Count]
    """Per position: drafts that long, and of these accepted up to and including that position (unconditional)."""

    @model_validator(mode="after")
    def _lengths(self) -> Self:
        if len(self.drafted_at) != self.n_speculative or len(self.accepted_at) != self.n_speculative:
            raise ValueError("drafted_at and accepted_at need one entry per speculative position")
        return self


class TokenRequest(_Record):
    """One request decoded with token-level speculation."""

    tokens: Annotated[int, Field(ge=1)]
    """Tokens that it generated, the first one (of its prefill) included."""

    passes: list[tuple[Count, Count]] = []
    """Per target pass after the prefill: tokens drafted, and how many of them were right. A pass yields these and one
    more, cut where the text ends."""


class TokenAnswer(_Record):
    """One problem answered by the target with token-level speculation."""

    problem: str

    requests: list[TokenRequest]
    """One per step, in order."""

    decode: list[tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)], Count, Count, Seconds, Seconds]] = []
    """What its passes took, in sums: sequences, rows per sequence, passes of that kind, cached tokens summed over them,
    seconds (drafting included), and how many of the seconds went into drafting."""

    prefill: tuple[Count, Count, Seconds] = (0, 0, 0.0)
    """Prefills, their uncached tokens, seconds (what a draft model reads counts with its first draft)."""

    request: tuple[Count, Seconds] = (0, 0.0)
    """Requests, and the seconds that they spent outside the engine."""


class TokenRecord(_Record):
    """What a token-level method did on the target, with the settings that it had.

    Counts per position are *unconditional*: ``accepted_at[i]`` passes had their first i + 1 drafted tokens all right.
    Where ``answers`` are recorded they are what the counts were made of (`counted`).
    """

    method: str
    """Name in the catalogue of methods, e.g. ``prompt-lookup``."""
    settings: dict[str, int | float | str | bool]
    """Its knobs, ``k2`` among them: tokens that a pass can commit at most."""
    passes: Count
    """Target passes in all, prefills not counted."""
    drafts: Count
    """Passes with a draft."""
    tokens: Count
    """Tokens that the passes committed in all, without those cut at the ends of texts."""
    drafted_at: list[Count]
    accepted_at: list[Count]
    """Per position: drafts that long, and of these right up to and including that position."""
    answers: list[TokenAnswer] = []

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.drafted_at) != self.k2 - 1 or len(self.accepted_at) != self.k2 - 1:
            raise ValueError("drafted_at and accepted_at need one entry per drafted position, k2 - 1")
        if any(a > d for a, d in zip(self.accepted_at, self.drafted_at, strict=True)) or self.drafts > self.passes:
            raise ValueError("no more can be accepted than drafted, and no more drafts than passes be made")
        return self

    @property
    def k2(self) -> int:
        """Tokens that a pass can commit at most."""
        return int(self.settings.get("k2", 1))

    @classmethod
    def counted(
        cls, method: str, settings: Mapping[str, int | float | str | bool], answers: Sequence[TokenAnswer]
    ) -> Self:
        """Return the record of some answers, their passes counted.

        Raises
        ------
        ValueError : a pass drafted more than ``k2 - 1`` tokens.
        """
        requests = [request for answer in answers for request in answer.requests]
        passes = [one for request in requests for one in request.passes]
        positions = range(int(settings["k2"]) - 1)
        if any(not a <= d <= len(positions) for d, a in passes):
            raise ValueError(f"a pass drafts at most k2 - 1 = {len(positions)} tokens, and no more are right")
        return cls(
            method=method,
            settings=dict(settings),
            passes=len(passes),
            drafts=sum(d > 0 for d, _ in passes),
            tokens=sum(request.tokens - 1 for request in requests if request.passes),
            drafted_at=[sum(d > i for d, _ in passes) for i in positions],
            accepted_at=[sum(a > i for _, a in passes) for i in positions],
            answers=list(answers),
        )


class PublishedValue(_Record):
    """A published number with the half-width that its source, its rounding or its assumption allows."""

    value: Finite
    half_width: Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
    source: str
    """Paper and table, or how it was derived."""


class Published(_Record):
    """Summary figures from a paper, for profiles without raw samples."""

    alpha1: PublishedValue
    c1: PublishedValue
    target_step_s: PublishedValue
    verify_s: PublishedValue | None = None
    mean_step_tokens: PublishedValue | None = None
    step_length_cv: PublishedValue | None = None
    token_speedup: PublishedValue | None = None
    """Measured speedup of token-level speculation alone, at ``token_k2``."""
    token_k2: Annotated[int, Field(ge=1)] | None = None
    step_speedup: PublishedValue | None = None
    """Measured speedup of lookahead reasoning alone: to compare with, never used for prediction."""
    combined_speedup: PublishedValue | None = None
    k1: Annotated[int, Field(ge=1)] | None = None
    accuracy_target: PublishedValue | None = None
    accuracy_method: PublishedValue | None = None


class Profile(_Record):
    """Everything known about a set of models on a machine."""

    schema_version: Literal[1] = SCHEMA_VERSION  # type: ignore[assignment]  # a Literal default
    name: str
    source: Literal["measured", "published", "latency"]
    """``latency``: timings of engines only, to be combined with the acceptance of another profile (`on_engines_of`)."""
    provenance: Provenance
    models: dict[str, ModelRecord]
    placement: dict[str, str] = {}
    """Role (target, draft, judge) to engine."""
    engines: dict[str, EngineRecord] = {}
    answers: list[AnswerRecord] = []
    ngram: list[NGramRecord] = []
    token: list[TokenRecord] = []
    """Token-level methods as they ran on the target, one record per method and settings."""
    role_seconds: dict[str, list[Seconds]] = {}
    """Raw times of verifiers that run on no engine (``embedding``), by role."""
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
        if self.source == "latency" and (self.answers or self.ngram or self.token or self.published is not None):
            raise ValueError("a latency profile holds timings only: no answers, ngram, token or published")
        return self

    def on_engines_of(self, latency: Profile) -> Profile:
        """What this profile says about the models, with the timings of another one.

        Parameters
        ----------
        latency : a profile with engines (of source ``latency`` or ``measured``) of the same models.

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
        changed = {"engines": latency.engines, "placement": latency.placement, "provenance": provenance}
        return self.model_copy(update=changed)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a profile from a JSON file.

        Raises
        ------
        SchemaError : the file is missing, empty, not JSON, of another schema version, or does not fit the schema.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise SchemaError(f"{path}: cannot be read as a profile: {reason}") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, where: str = "profile") -> Self:
        """Parse a profile from JSON text; ``where`` names it in errors.

        Raises
        ------
        SchemaError : as `read`.
        """
        if not text.strip():
            raise SchemaError(f"{where}: empty file, expected a profile in JSON")
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            message = f"{where}: not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
            raise SchemaError(message) from None
        version = data.get("schema_version") if isinstance(data, dict) else None
        if version != SCHEMA_VERSION:
            message = f"{where}: schema_version={version!r} must be {SCHEMA_VERSION}; calibrate again with this version"
            raise SchemaError(message)
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise SchemaError(_one_line(where, error)) from None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the profile as JSON with sorted keys, atomically."""
        write_atomically(path, self.to_json())

    def to_json(self) -> str:
        """Return the profile as JSON text; samples one to a line, so that files diff well."""
        return _compact_json(self.model_dump(mode="json", exclude_defaults=False)) + "\n"


def _one_line(where: str, error: ValidationError) -> str:
    first = error.errors()[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    message = first["msg"].removeprefix("Value error, ")
    shown = "" if first["type"] in ("missing", "value_error") else f", got {str(first['input'])[:60]!r}"
    return f"{where}: {place + ': ' if place else ''}{message[0].lower() + message[1:]}{shown}{more}"


def _compact_json(value: Any, depth: int = 0) -> str:
    """JSON with an indent for the upper levels and one line per sample below them."""
    if depth < 3 and isinstance(value, dict) and value:
        pad = "  " * (depth + 1)
        items = (f"{pad}{json.dumps(key)}: {_compact_json(value[key], depth + 1)}" for key in sorted(value))
        return "{\n" + ",\n".join(items) + "\n" + "  " * depth + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        pad = "  " * (depth + 1)
        items = (pad + json.dumps(item, sort_keys=True, allow_nan=False) for item in value)
        return "[\n" + ",\n".join(items) + "\n" + "  " * depth + "]"
    return json.dumps(value, sort_keys=True, allow_nan=False)


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` so that a crash or a full disk leaves the old file or the new one, never a part.

    Raises
    ------
    OSError : the folder cannot be written; nothing has changed then.
    """
    path = Path(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent or Path(), prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
