"""A calibration from beginning to end: what is measured in which order, kept as it is finished, and put together.

A journal beside the output holds every finished piece (see `calibrate.checkpoint`); the profile is written when all are
there, or when the caller settles for fewer answers.
"""

from __future__ import annotations

import datetime
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from calibrate.backends.torch_engine import TorchEngine
from calibrate.checkpoint import Journal
from calibrate.measure import MeasureOptions, Problem, Truth, measure_answer, measure_engine, warm_up
from calibrate.models import ModelSet
from calibrate.profile import AnswerRecord, EngineRecord, ModelRecord, NGramRecord, Profile, Provenance
from calibrate.prompt_lookup import count_acceptance
from sim.operations import DRAFT, JUDGE, TARGET
from theory.errors import ParameterError

__all__ = ["Plan", "calibrate_torch"]

_NGRAMS: Final = ((1, 8), (2, 8), (3, 8))
"""(longest n-gram, speculative tokens) whose acceptance is counted; LR uses n-grams of 1 and 2 with 8 tokens."""
_PACKAGES: Final = ("specplan", "numpy", "scipy", "torch", "transformers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure."""

    models: ModelSet
    problems: tuple[Problem, ...]
    truth: Truth | None = None
    engine: MeasureOptions = MeasureOptions()
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
            **self.models.settings(),
            **{f"measure_{name}": value for name, value in asdict(self.engine).items()},
            "warm_up_s": self.warm_up_s,
            "problems_sha256": sha256(text.encode()).hexdigest()[:16],
        }

    @property
    def n_parts(self) -> int:
        """Parts of the work, for a progress bar."""
        n_engines = 3 if self.models.judge else 2
        return n_engines * (self.engine.n_parts + 1) + len(self.problems)


async def calibrate_torch(
    plan: Plan, journal_path: Path, *, progress: Callable[[str], None] = lambda part: None
) -> Profile:
    """Measure a set of local models with the torch backend, resuming from the journal if there is one.

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
            engines = {TARGET: roles[TARGET], DRAFT: roles[DRAFT]}
            if plan.models.judge:
                engines[JUDGE] = roles[JUDGE]
            for name, engine in engines.items():
                await _engine_piece(journal, plan, name, engine, progress)
            for problem in plan.problems:
                key = f"answer:{problem.name}"
                if key not in journal:
                    found = await measure_answer(clock, problem, plan.truth, plan.models.look())
                    entry = {"record": found.record.model_dump(mode="json"), "ids": found.ids}
                    journal.add(key, {**entry, "role_seconds": found.role_seconds})
                progress(problem.name)
            return _profile(plan, journal, engines)


async def _engine_piece(
    journal: Journal, plan: Plan, name: str, engine: TorchEngine, progress: Callable[[str], None]
) -> None:
    key = f"engine:{name}"
    warmup = await warm_up(engine, seconds=plan.warm_up_s)
    progress(f"{name}: warm-up")
    if key in journal:
        for _ in range(plan.engine.n_parts):
            progress(f"{name}: kept")
        return
    device = _device(engine)
    record = await measure_engine(engine, device, plan.engine, warmup=warmup, progress=progress)
    journal.add(key, record.model_dump(mode="json"))


def _device(engine: TorchEngine) -> str:
    about = engine.describe()
    cores = about.get("cores")
    return f"cpu cores {','.join(map(str, cores))}" if cores else str(about["device"])


def _profile(plan: Plan, journal: Journal, engines: dict[str, TorchEngine]) -> Profile:
    answers = [journal[f"answer:{problem.name}"] for problem in plan.problems]
    return Profile(
        name=plan.name,
        source="measured",
        provenance=_provenance(plan, engines[TARGET]),
        models={role: _model(plan.models, role, engines.get(role, engines[TARGET])) for role in (TARGET, DRAFT, JUDGE)},
        placement={TARGET: TARGET, DRAFT: DRAFT, JUDGE: JUDGE if JUDGE in engines else TARGET},
        engines={name: EngineRecord.model_validate(journal[f"engine:{name}"]) for name in engines},
        answers=[AnswerRecord.model_validate(answer["record"]) for answer in answers],
        ngram=_ngrams([answer["ids"] for answer in answers]),
        role_seconds=_merged([answer["role_seconds"] for answer in answers]),
        settings=plan.models.settings(),
    )


def _merged(parts: Sequence[dict[str, list[float]]]) -> dict[str, list[float]]:
    return {role: [s for part in parts for s in part.get(role, [])] for role in sorted({r for p in parts for r in p})}


def _ngrams(texts: Sequence[Any]) -> list[NGramRecord]:
    known = [text for text in texts if text is not None]
    if not known:
        return []
    return [count_acceptance(known, max_ngram=longest, n_speculative=tokens) for longest, tokens in _NGRAMS]


def _model(models: ModelSet, role: str, engine: TorchEngine) -> ModelRecord:
    about = engine.describe()
    location = {TARGET: models.target, DRAFT: models.draft, JUDGE: models.judge or models.target}[role]
    return ModelRecord(
        name=f"{Path(location).name} {about['architecture']}, {about['n_layers']} layers",
        location=location,
        n_parameters=about["n_parameters"],
        dtype=about["dtype"],
    )


def _provenance(plan: Plan, engine: TorchEngine) -> Provenance:
    about = engine.describe()
    return Provenance(
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=plan.command,
        seed=plan.models.seed,
        engine="torch",
        engine_version=about["versions"]["torch"],
        device=about["device"] if about["device"] != "cpu" else _cpu_name(),
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
