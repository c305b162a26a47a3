"""Parameters of a validation run: the effective value of each, read from the models, engines and clock."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from calibrate.record.journal import digest
from calibrate.running.verifiers import LlmJudge
from sim.roles import JUDGE
from specplan.output import SCREEN
from specplan.version import __version__

if TYPE_CHECKING:
    from calibrate.measuring.plan import MeasurableModels
    from calibrate.record.profile import Profile
    from calibrate.running.interleaved import RealConfiguration
    from calibrate.running.problem import Problem
    from calibrate.running.wall_clock import WallClock
    from sim.configuration import Configuration

__all__ = ["as_lines", "effective", "identity", "of_configuration", "of_models", "of_profile", "of_questions"]

_WIDTH: Final = SCREEN - 2


def identity(
    profile: Profile, models: MeasurableModels, runs: Iterable[str], problems: Sequence[Problem]
) -> dict[str, Any]:
    """Return what makes a validation the same one, for its journal: profile, models, configurations and questions."""
    questions = digest(*(problem.prompt for problem in problems))
    known = {"profile": digest(profile.model_dump_json()), "models": models.identity()}
    return {**known, "runs": list(runs), "questions": questions}


def effective(*, stolen: float | None = None, **parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters by part as JSON reads them back, so that the printed and the written values agree.

    ``stolen`` is the share of the requested CPU time that a hypervisor gave to others during the runs, if known.
    """
    machine: dict[str, Any] = {  # the one that runs the command; servers may be elsewhere
        "specplan": __version__,
        "python": platform.python_version(),
        "os": platform.platform(terse=True),
        "n_cores": len(os.sched_getaffinity(0)),
    }
    if stolen is not None:
        machine["cpu_time_stolen"] = round(stolen, 4)
    record: dict[str, Any] = json.loads(json.dumps({**parts, "machine": machine}, default=str))
    return record


def of_profile(profile: Profile) -> dict[str, Any]:
    """Return the origin of the predictions."""
    made = profile.provenance
    origin = {name: getattr(made, name) for name in ("created", "engine", "engine_version", "device", "cpu", "seed")}
    return {"name": profile.name, "answers": len(profile.answers), "texts": len(profile.texts), **origin}


def of_models(models: MeasurableModels, roles: Mapping[str, Any], clock: WallClock) -> dict[str, Any]:
    """Return the opened models and their engines by role, and their settings with the clock's."""
    engines = {
        engine.name: {name: value for name, value in engine.describe().items() if name != "pid"}
        for engine in roles.values()
    }
    settings = {**models.settings(), **asdict(clock.limits)}
    judge = clock.verifiers[JUDGE]
    if isinstance(judge, LlmJudge):
        settings["judge_prompt"] = judge.prompt("{draft step}", "{target step}")
    return {
        "models": {
            role: {**models.record(role, engine).model_dump(exclude_defaults=True), "engine": engine.name}
            for role, engine in roles.items()
        },
        "engines": engines,
        "settings": settings,
    }


def of_configuration(configuration: Configuration, spec: RealConfiguration) -> dict[str, Any]:
    """Return all knobs of a configuration, defaults included, and its token-level speculation by role."""
    knobs: dict[str, Any] = {
        "method": configuration.method,
        "k1": configuration.k1,
        "k2": configuration.k2,
        **configuration.knobs,
    }
    if configuration.is_hybrid:
        knobs |= {"token": configuration.token, "token_knobs": dict(configuration.token_knobs)}
    return {**knobs, "speculation": {role: one.to_message() for role, one in spec.speculation.items()}}


def of_questions(
    problems: Sequence[Problem], source: str, seed: int, confidence: float, n_plain: int = 1
) -> dict[str, Any]:
    """Return the questions, their order, and the confidence of the intervals."""
    texts = "\x00".join(problem.prompt for problem in problems).encode()
    return {
        "source": source,
        "n": len(problems),
        "sha256": hashlib.sha256(texts).hexdigest()[:16],
        "interleaved": "all configurations answer a question, in random order, before the next one",
        "plain_answers": n_plain,
        "order_seed": seed,
        "warm_up": "all configurations answer the first question once, not counted",
        "confidence": confidence,
    }


def as_lines(run: Mapping[str, Any]) -> list[str]:
    """Return the parameters as lines of text, ``name=value`` after the name of their part, without unset ones."""
    lines = []
    for part, values in run.items():
        groups = values.items() if all(isinstance(value, dict) for value in values.values()) else [("", values)]
        for name, group in groups:
            words = " ".join([f"{part} {name}".rstrip() + ":", *_words(group)])
            lines += textwrap.wrap(
                words, _WIDTH, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False
            )
    return lines


def _words(group: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in group.items():
        if isinstance(value, dict):
            yield from _words(value, f"{before}{name}.")
        elif value not in (None, "", []):
            plain = isinstance(value, str) and not set(value) & set(' "\n=')
            yield f"{before}{name}={value if plain else json.dumps(value, ensure_ascii=False)}"
