"""Lookahead Reasoning for real on two trained models, predicted against measured, in as many calls as it takes.

First the models are calibrated (`calibrate.measuring.calibration`, with a journal of its own), and the profile is
written. From it alone the speedups are predicted, and put on record. Then fresh questions are answered by plain
decoding and by Lookahead Reasoning at several depths, interleaved, a few questions at a time; every few that are
finished are in a journal. When all are, the table of `specplan validate` is printed, and written as JSON.
"""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.gpu.measure_torch import Session
from benchmarks.gpu.telemetry import Telemetry
from calibrate.measuring.calibration import calibrate_models
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.measuring.plan import CalibrationPlan, MeasurableModels
from calibrate.models.asking import BUNDLED, bundled_problems, bundled_truth
from calibrate.models.local import TorchModels
from calibrate.record.files import write_atomically
from calibrate.record.journal import Journal
from calibrate.record.profile import Profile
from calibrate.running.interleaved import BASELINE, RealRun, Runs, measured, run_interleaved
from calibrate.running.problem import Problem, Truth
from sim.timeline import Counts
from specplan.check.validating.validation import Row, Validation, predict_all
from specplan.planning.predict import Configuration, Prediction
from theory.errors import CalibrationError, ParameterError, SchemaError

__all__ = ["Campaign", "campaign", "run"]

_AT_ONCE: Final = 4
"""Questions of a piece; each piece answers its first one an extra time, to warm up."""
_GRACE_S: Final = 45.0
"""How long past the deadline a round of timing may go on, which is lost if it is broken off, s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What to measure, and what to run."""

    name: str
    """Name of the profile and of the files."""
    models: MeasurableModels
    calibration: tuple[Problem, ...]
    validation: tuple[Problem, ...]
    """Questions that the calibration does not see."""
    truth: Truth | None
    windows: tuple[int, ...]
    """Target steps in flight (k1)."""
    options: MeasureOptions = field(default_factory=MeasureOptions)
    """How the engines are timed."""

    def configurations(self) -> list[Configuration]:
        """The ways in which every question is answered besides plain decoding."""
        return [Configuration(method="lr-async", k1=k1) for k1 in self.windows]

    @property
    def profile_name(self) -> str:
        """File of the profile."""
        return f"{self.name}.profile.json"


class _TimeUp(Exception):  # noqa: N818  (no error: the next call goes on)
    """The budget of this call is used up."""


def campaign(
    target: str,
    draft: str,
    *,
    through: str,
    device: str,
    prompts: Path | None = None,
    n: int = 24,
    windows: Sequence[int] = (1, 2, 4),
) -> Campaign:
    """The campaign for two models.

    Parameters
    ----------
    target, draft : folders of trained models, or ``bundled`` both.
    through : the engine, ``vllm`` or ``torch``.
    device : ``cuda`` or ``cpu``.
    prompts : JSONL file with 2 n questions, one ``{"prompt": ...}`` a line; the bundled pair has questions of its own.
    n : questions to calibrate on, and fresh ones to run on, >= 2.
    windows : target steps in flight (k1).

    Raises
    ------
    ParameterError : a value outside its range, or no questions for models other than the bundled pair.
    SchemaError : the questions cannot be read, or are too few.
    """
    if n < 2:
        raise ParameterError("answers", n, "must be an integer >= 2")
    models = _models(target, draft, through, device)
    bundled = target == BUNDLED
    if prompts is None and not bundled:
        raise ParameterError("prompts", None, "must name a JSONL file of questions, unless the bundled pair is run")
    if prompts is None:
        first, fresh = bundled_problems(n, 0, "calibration"), bundled_problems(n, 1, "validation")
    else:
        first, fresh = _halves(prompts, n)
    return Campaign(
        name="-".join(["lr", through, *dict.fromkeys(Path(part).name for part in (target, draft))]),
        models=models,
        calibration=tuple(first),
        validation=tuple(fresh),
        truth=bundled_truth() if prompts is None else None,
        windows=tuple(dict.fromkeys(windows)),
    )


def _halves(prompts: Path, n: int) -> tuple[list[Problem], list[Problem]]:
    from specplan.prompts import read_prompts

    found = read_prompts(prompts, 2 * n)
    if len(found) < 2 * n:
        raise SchemaError(f"{prompts}: holds {len(found)} questions, {2 * n} are needed: {n} to calibrate, {n} to run")
    return found[:n], found[n:]


def _models(target: str, draft: str, through: str, device: str) -> MeasurableModels:
    dtype = "bfloat16" if device == "cuda" else "float32"
    if through == "torch":
        return TorchModels(target=target, draft=draft, device=device, dtype=dtype)
    from calibrate.models.vllm import VllmModels

    # compiled and captured where that is worth its minute: launches would be all that is measured of small models
    return VllmModels(target=target, draft=draft, device=device, dtype=dtype, eager=device == "cpu")


def run(wanted: Campaign, out: Path, deadline: float, telemetry: Telemetry) -> int:
    """Go on with a campaign until it is complete or the time is up; return the exit code.

    Parameters
    ----------
    wanted : the campaign.
    out : folder of its files.
    deadline : when to stop between pieces, s on the monotonic clock.
    telemetry : of the device.

    Raises
    ------
    CalibrationError : an engine failed, or three pieces in a row did; what was finished is kept.
    SchemaError : the files there belong to another campaign.
    """
    profile = _calibrated(wanted, out, deadline)
    if profile is None:
        print(f"{wanted.profile_name}: not calibrated to the end: call again with the same arguments")
        return 0
    path = out / f"{wanted.name}.jsonl"
    predictions = predict_all(profile, wanted.configurations())
    with Journal(path, _settings(wanted, profile)) as journal:
        _put_on_record(predictions, journal)
        session = Session(journal, deadline, telemetry)
        _run_pieces(wanted, predictions, session)
        code = session.status()
        if session.left == 0:
            _report(wanted, profile, predictions, journal, out)
    return code


def _calibrated(wanted: Campaign, out: Path, deadline: float) -> Profile | None:
    """The profile, measured to its end now or before; None if the time was up."""
    path = out / wanted.profile_name
    if path.exists():
        found = Profile.read(path)
        settings = wanted.models.settings()
        differ = sorted(name for name in settings if found.settings.get(name) != settings[name])
        if differ or [a.problem for a in found.answers] != [p.name for p in wanted.calibration]:
            what = ", ".join(differ) or "questions"
            raise SchemaError(f"{path}: was measured with other settings ({what}): choose another folder or remove it")
        return found
    command = shlex.join(["python", "-m", "benchmarks.gpu.measure_vllm", *sys.argv[1:]])
    plan = CalibrationPlan(
        models=wanted.models,
        problems=wanted.calibration,
        truth=wanted.truth,
        engine=wanted.options,
        name=wanted.name,
        command=command,
    )
    journal = out / f"{wanted.name}.calibration.jsonl"
    try:
        profile = asyncio.run(calibrate_models(plan, journal, progress=_stopper(wanted, deadline, journal)))
    except _TimeUp:
        return None
    profile.write(path)
    journal.unlink()
    return Profile.read(path)  # as the next calls will: engines are resampled in the order in which they are listed


def _stopper(wanted: Campaign, deadline: float, journal: Path) -> Callable[[str], None]:
    """Raise when the time is up: after an answer, which is on the disk then, or in a round that goes on for long.

    Unless nothing was finished yet: a call that leaves no more behind than it found would be followed by others.
    """
    answers = {problem.name for problem in wanted.calibration}
    before = None

    def stop(part: str) -> None:
        nonlocal before
        size, now = journal.stat().st_size, time.monotonic()
        before = size if before is None else before
        if size > before and (now > deadline + _GRACE_S or (now > deadline and part in answers)):
            raise _TimeUp

    return stop


@dataclass(frozen=True, slots=True)
class _Piece:
    """A few questions, each answered in every way."""

    first: int
    problems: tuple[Problem, ...]

    @property
    def key(self) -> str:
        """Its name in the journal."""
        return f"runs:{self.first}"


def _pieces(problems: Sequence[Problem]) -> list[_Piece]:
    """Pieces of `_AT_ONCE` questions; a last one of a single question joins the one before."""
    starts = list(range(0, len(problems), _AT_ONCE))
    if len(starts) > 1 and len(problems) - starts[-1] == 1:
        starts.pop()
    ends = [*starts[1:], len(problems)]
    return [_Piece(a, tuple(problems[a:b])) for a, b in zip(starts, ends, strict=True)]


def _run_pieces(wanted: Campaign, predictions: Sequence[Prediction], session: Session) -> None:
    methods = {p.configuration.name: p.configuration.algorithm() for p in predictions}
    with asyncio.Runner() as runner, ExitStack() as engines:

        def load() -> Callable[[Any], dict[str, Any]]:
            opened = wanted.models.open()
            _, clock = runner.run(_entered(opened))
            engines.callback(lambda: runner.run(_left(opened)))

            def measure(piece: _Piece) -> dict[str, Any]:
                found = runner.run(
                    run_interleaved(clock, piece.problems, methods, truth=wanted.truth, seed=1 + piece.first)
                )
                return {"runs": {name: [asdict(one) for one in runs] for name, runs in found.by_name.items()}}

            return measure

        session.run(_pieces(wanted.validation), load)


async def _entered(opened: Any) -> Any:
    return await opened.__aenter__()


async def _left(opened: Any) -> None:
    await opened.__aexit__(None, None, None)


def _put_on_record(predictions: Sequence[Prediction], journal: Journal) -> None:
    """Write the predictions down before anything is run; they must be the same ever after."""
    for prediction in predictions:
        key, s = f"predicted:{prediction.configuration.name}", prediction.speedup
        told = [s.value, s.low, s.high]
        if key not in journal:
            journal.add(key, told)
        elif any(abs(a - b) > 1e-9 * abs(b) for a, b in zip(told, journal[key], strict=True)):
            raise CalibrationError(f"{key}: {told} now, {journal[key]} before the runs: not the same version")


def _settings(wanted: Campaign, profile: Profile) -> dict[str, Any]:
    digest = hashlib.sha256(profile.to_json().encode()).hexdigest()[:16]
    questions = hashlib.sha256("\x00".join(p.prompt for p in wanted.validation).encode()).hexdigest()[:16]
    windows = list(wanted.windows)
    return {"format": 1, "profile_sha256": digest, "questions_sha256": questions, "windows": windows}


def _report(wanted: Campaign, profile: Profile, predictions: Sequence[Prediction], journal: Journal, out: Path) -> None:
    """Print predicted beside measured, and write it."""
    from specplan.check.validating.next_measurement import Measurements
    from specplan.check.validating.text import as_text, plain
    from specplan.output import to_json

    runs = Runs()
    for piece in _pieces(wanted.validation):
        if piece.key not in journal:
            print(f"{piece.key} was given up after failures", file=sys.stderr)
            continue
        for name, found in journal[piece.key]["runs"].items():
            made = [RealRun(**{**one, "counts": Counts(**one["counts"])}) for one in found]
            runs.by_name.setdefault(name, []).extend(made)
    if not runs.by_name:
        raise CalibrationError(f"{journal.path}: no piece succeeded")
    names = [(p.configuration.name, p) for p in predictions]
    measurements = Measurements(profile)
    validation = Validation(
        profile=profile.name,
        rows=tuple(
            Row(
                name=name,
                prediction=p,
                measured=measured(runs, name),
                expected=measurements.expected(p, len(runs.by_name[BASELINE])),
            )
            for name, p in names
        ),
        baseline=measured(runs, BASELINE),
        runs=runs,
    )
    told = {**plain(validation), "settings": dict(profile.settings), "provenance": profile.provenance.model_dump()}
    write_atomically(out / f"{wanted.name}.validation.json", to_json(told) + "\n")
    print(as_text(validation))
