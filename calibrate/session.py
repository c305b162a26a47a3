"""A calibration from beginning to end: what is measured in which order, kept as it is finished, and put together.

A journal beside the output holds every finished piece (see `calibrate.checkpoint`); the profile is written when all are
there, or when the caller settles for fewer answers.
"""

from __future__ import annotations

import datetime
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Protocol

from calibrate.checkpoint import Journal
from calibrate.measure import Look, MeasureOptions, Problem, Truth, measure_answer
from calibrate.profile import AnswerRecord, EngineRecord, InUse, ModelRecord, NGramRecord, Profile, Provenance
from calibrate.prompt_lookup import count_acceptance
from calibrate.wall_clock import WallClock
from sim.operations import DRAFT, JUDGE, TARGET
from theory.errors import ParameterError

__all__ = ["Models", "Plan", "calibrate_models"]

_NGRAMS: Final = ((1, 8), (2, 8), (3, 8))
"""(longest n-gram, speculative tokens) whose acceptance is counted; LR uses n-grams of 1 and 2 with 8 tokens."""
_PACKAGES: Final = ("specplan", "numpy", "scipy", "torch", "transformers")


class Models(Protocol):
    """A set of models that can be measured: `calibrate.models.ModelSet`, `calibrate.remote.RemoteModels`.

    Engines are of the set's own kind, handed back to it as it opened them.
    """

    @property
    def n_engines(self) -> int:
        """Engines that `open` opens: roles may share one."""
        ...

    @property
    def seed(self) -> int:
        """Of the sampling."""
        ...

    def settings(self) -> dict[str, str | int | float | bool]:
        """Return the set as plain settings, for a profile."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return the settings on which results depend."""
        ...

    def look(self) -> Look:
        """Return how closely drafts are looked at."""
        ...

    def open(self) -> AbstractAsyncContextManager[tuple[Mapping[str, Any], WallClock]]:
        """Open the engines; yield them by role, and a wall clock on them."""
        ...

    async def warm_up(self, engine: Any, seconds: float) -> Any:
        """Get an engine over its first, slow work; return the record of that, for `time_engine`."""
        ...

    async def time_engine(
        self, engine: Any, options: MeasureOptions, *, warmup: Any, progress: Callable[[str], None]
    ) -> EngineRecord:
        """Measure an engine; ``progress`` is called ``options.n_parts`` times."""
        ...

    async def in_use(self, engine: Any, outside: Sequence[float]) -> InUse | None:
        """Return what an engine did since it was last asked, given its requests' seconds elsewhere; None: unknown."""
        ...

    def record(self, role: str, engine: Any) -> ModelRecord:
        """Return what is known about the model of a role."""
        ...

    async def stamp(self, engines: dict[str, Any]) -> dict[str, Any]:
        """Return fields of the provenance: engine, engine_version, and device or notes where there are any."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure."""

    models: Models
    problems: tuple[Problem, ...]
    truth: Truth | None = None
    engine: MeasureOptions = field(default_factory=MeasureOptions)
    warm_up_s: float = 1.0
    name: str = "profile"
    command: str = ""

    def __post_init__(self) -> None:
        if len(self.problems) < 2:
            raise ParameterError("problems", len(self.problems), "must be at least 2 questions, for a standard error")
        if len({problem.name for problem in self.problems}) != len(self.problems):
            raise ParameterError("problems", len(self.problems), "must have different names")

    def settings(self) -> dict[str, Any]:
        """Return everything that the pieces depend on: a journal made with other settings cannot be resumed."""
        from hashlib import sha256

        text = "\x00".join(problem.prompt for problem in self.problems)
        return {
            **self.models.identity(),
            **{f"measure_{name}": value for name, value in asdict(self.engine).items()},
            "warm_up_s": self.warm_up_s,
            "problems_sha256": sha256(text.encode()).hexdigest()[:16],
        }

    @property
    def n_parts(self) -> int:
        """Parts of the work, for a progress bar."""
        return self.models.n_engines * (self.engine.rounds * self.engine.n_parts + 1) + len(self.problems)


async def calibrate_models(
    plan: Plan, journal_path: Path, *, progress: Callable[[str], None] = lambda part: None
) -> Profile:
    """Measure a set of models, resuming from the journal if there is one.

    Parameters
    ----------
    plan : what to measure.
    journal_path : where finished pieces are kept; the file is left behind for the caller to remove.
    progress : called with a description when a part is done, ``plan.n_parts`` times in all.

    Raises
    ------
    CalibrationError : an engine failed; what was finished is in the journal.
    SchemaError : the journal belongs to a measurement with other settings.
    """
    with Journal(journal_path, plan.settings()) as journal:
        async with plan.models.open() as (roles, clock):
            engines: dict[str, Any] = {}
            for role in (TARGET, DRAFT, JUDGE):
                if not any(engine is roles[role] for engine in engines.values()):
                    engines[role] = roles[role]
            placement = {role: _name_of(roles[role], engines) for role in (TARGET, DRAFT, JUDGE)}
            warmups = {}
            for name, engine in engines.items():
                warmups[name] = await plan.models.warm_up(engine, plan.warm_up_s)
                progress(f"{name}: warm-up")
            n, rounds = len(plan.problems), plan.engine.rounds
            for number in range(rounds):
                for name, engine in engines.items():
                    await _timing(journal, plan, name, engine, number, warmups[name], progress)
                for problem in plan.problems[n * number // rounds : n * (number + 1) // rounds]:
                    await _answer(journal, plan, problem, engines, placement, clock)
                    progress(problem.name)
            return _profile(plan, journal, engines, placement, await plan.models.stamp(engines))


async def _timing(
    journal: Journal,
    plan: Plan,
    name: str,
    engine: Any,
    number: int,
    warmup: Any,
    progress: Callable[[str], None],
) -> None:
    """One round of timing an engine; the first one keeps the warm-up."""
    key = f"engine:{name}:{number}"
    if key in journal:
        for _ in range(plan.engine.n_parts):
            progress(f"{name}: kept")
        return
    options = replace(plan.engine, seed=plan.engine.seed + number)
    record = await plan.models.time_engine(engine, options, warmup=warmup, progress=progress)
    if number:
        record = record.model_copy(update={"warmup_decode": [], "warmup_prefill": []})
    journal.add(key, record.model_dump(mode="json"))


async def _answer(
    journal: Journal,
    plan: Plan,
    problem: Problem,
    engines: Mapping[str, Any],
    placement: Mapping[str, str],
    clock: WallClock,
) -> None:
    key = f"answer:{problem.name}"
    if key in journal:
        return
    for engine in engines.values():
        await plan.models.in_use(engine, ())  # what it did before is not this answer's
    found = await measure_answer(clock, problem, plan.truth, plan.models.look())
    in_use = {}
    for name, engine in engines.items():
        outside = [s for role, home in placement.items() if home == name for s in found.outside.get(role, [])]
        used = await plan.models.in_use(engine, outside)
        in_use[name] = None if used is None else used.model_dump(mode="json")
    entry = {"record": found.record.model_dump(mode="json"), "ids": found.ids}
    journal.add(key, {**entry, "role_seconds": found.role_seconds, "in_use": in_use})


def _name_of(engine: Any, engines: Mapping[str, Any]) -> str:
    return next(name for name, known in engines.items() if known is engine)


def _profile(
    plan: Plan, journal: Journal, engines: Mapping[str, Any], placement: dict[str, str], stamp: dict[str, Any]
) -> Profile:
    answers = [journal[f"answer:{problem.name}"] for problem in plan.problems]
    return Profile(
        name=plan.name,
        source="measured",
        provenance=_provenance(plan, stamp),
        models={role: plan.models.record(role, engines[name]) for role, name in placement.items()},
        placement=placement,
        engines={name: _engine_record(plan, journal, name, answers) for name in engines},
        answers=[AnswerRecord.model_validate(answer["record"]) for answer in answers],
        ngram=_ngrams([answer["ids"] for answer in answers]),
        role_seconds=_merged([answer["role_seconds"] for answer in answers]),
        settings=plan.models.settings(),
    )


def _engine_record(plan: Plan, journal: Journal, name: str, answers: Sequence[Any]) -> EngineRecord:
    """All rounds of an engine's timing, and its work on the answers."""
    rounds = [EngineRecord.model_validate(journal[f"engine:{name}:{i}"]) for i in range(plan.engine.rounds)]
    used = [answer["in_use"][name] for answer in answers]
    return EngineRecord(
        device=rounds[0].device,
        decode=[sample for one in rounds for sample in one.decode],
        prefill=[sample for one in rounds for sample in one.prefill],
        request_s=[seconds for one in rounds for seconds in one.request_s],
        in_use=[InUse.model_validate(one) for one in used if one is not None],
        warmup_decode=rounds[0].warmup_decode,
        warmup_prefill=rounds[0].warmup_prefill,
    )


def _merged(parts: Sequence[dict[str, list[float]]]) -> dict[str, list[float]]:
    return {role: [s for part in parts for s in part.get(role, [])] for role in sorted({r for p in parts for r in p})}


def _ngrams(texts: Sequence[Any]) -> list[NGramRecord]:
    known = [text for text in texts if text is not None]
    if not known:
        return []
    return [count_acceptance(known, max_ngram=longest, n_speculative=tokens) for longest, tokens in _NGRAMS]


def _provenance(plan: Plan, stamp: dict[str, Any]) -> Provenance:
    return Provenance(
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=plan.command,
        seed=plan.models.seed,
        **{"device": _cpu_name(), **stamp},
        cpu=_cpu_name(),
        n_cores=len(os.sched_getaffinity(0)),
        os=platform.platform(terse=True),
        python=platform.python_version(),
        packages={name: _version(name) for name in _PACKAGES},
    )


def _cpu_name() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"
