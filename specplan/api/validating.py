"""Configurations with predictions and measurements, at concurrency 1 and under load."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from calibrate.models.servers import timeouts_as_such
from specplan.api.planning import profile as profile_of
from specplan.calibrating import finished
from specplan.check.validating import under_load, validation
from specplan.check.validating.questions import Questions, named, to_ask
from specplan.output import progress
from specplan.planning.advice import advise
from specplan.show.load_validations import ValidatedUnderLoad
from specplan.show.validations import Validated

if TYPE_CHECKING:
    from calibrate.record.profile import Profile
    from sim.configuration import Configuration

__all__ = ["Validated", "ValidatedUnderLoad", "validate", "validate_under_load"]

T = TypeVar("T")

Configurations: TypeAlias = "str | Configuration | Sequence[str | Configuration]"


def validate(
    of: Profile | str | Path,
    configurations: Configurations,
    *,
    n_answers: int = 40,
    n_plain: int | None = None,
    prompts: str | Path | None = None,
    servers: Mapping[str, str] | None = None,
    seed: int = 1,
    journal: Path | None = None,
) -> Validated:
    """Predict configurations, run them on real engines, and compare, as ``specplan validate`` does.

    >>> import specplan as sp
    >>> from calibrate.measuring.engine_timings import MeasureOptions
    >>> short = MeasureOptions(rounds=1, batches=(1, 2), contexts=(64,), prefills=(16,))
    >>> known = sp.calibrate("torch", answers=2, max_steps=4, candidates=0, n_token_answers=0, timings=short)
    >>> validated = sp.validate(known, "lr-async k1=2", n_answers=2)
    >>> validated.records()[0]["measured"] > 0.0
    True

    Parameters
    ----------
    of : a measured profile, its name or its file; its models are opened.
    configurations : one or several names as in tables, e.g. ``lr-async k1=2 + prompt-lookup k2=4``.
    n_answers : fresh questions, each answered by every configuration, >= 2.
    n_plain : answers of plain decoding to each, >= 1; default the root of the number of configurations, rounded.
    prompts : JSONL file of fresh questions; default those of the bundled task, for the bundled pair.
    servers : new address (``URL[#model]``) by the address in the profile, for servers that moved.
    seed : seed of the questions and the order of runs.
    journal : file that keeps finished runs; the same call continues from it. The caller removes it.

    Raises
    ------
    ParameterError : a profile without models, an unknown configuration, or no questions for these models.
    CalibrationError : an engine failed.
    """
    given = profile_of(of)
    chosen = named(configurations)
    models, questions = to_ask(given, n_answers, None if prompts is None else Path(prompts), seed, servers or {})
    predictions = validation.predict_all(given, chosen)
    n_plain = validation.plain_answers(len(predictions)) if n_plain is None else n_plain
    parts = len(questions.problems) * (len(predictions) + n_plain)
    work = partial(validation.validate, given, predictions, models, questions.problems, n_plain=n_plain)
    result = _finished(work, given, questions, parts, seed=seed, journal=journal)
    advice = advise(given, result.fastest.prediction.configuration)
    return Validated(validation=result, profile=given, advice=advice)


def validate_under_load(
    of: Profile | str | Path,
    configurations: Configurations,
    concurrency: int | Sequence[int],
    *,
    n_answers: int = 40,
    n_rounds: int = 4,
    prompts: str | Path | None = None,
    servers: Mapping[str, str] | None = None,
    seed: int = 1,
    journal: Path | None = None,
) -> ValidatedUnderLoad:
    """Predict configurations, run them with concurrent clients, and compare: ``specplan validate --concurrency``.

    >>> import specplan as sp
    >>> sp.validate_under_load("lr-deepseek-gsm8k", "lr-async k1=2", [1, 2])
    Traceback (most recent call last):
    theory.errors.ParameterError: profile='lr-deepseek-gsm8k' must be a measured one: ...

    Parameters
    ----------
    of, configurations, prompts, servers, seed, journal : as for `validate`.
    concurrency : numbers of clients, each of which sends its next question when it has an answer.
    n_answers, n_rounds : fresh questions in all, and rounds into which they are divided, >= 2.

    Raises
    ------
    ParameterError, CalibrationError : as `validate`; or too few questions for the rounds.
    """
    given = profile_of(of)
    chosen = named(configurations)
    loads = [concurrency] if isinstance(concurrency, int) else sorted(set(concurrency))
    models, questions = to_ask(given, n_answers, None if prompts is None else Path(prompts), seed, servers or {})
    under_load.check_rounds(len(questions.problems), n_rounds, loads)
    parts = (len(chosen) + 1) * len(loads) * (n_rounds + 1)
    measured = under_load.validate_under_load
    work = partial(measured, given, chosen, models, questions.problems, loads, n_rounds=n_rounds)
    return ValidatedUnderLoad(validation=_finished(work, given, questions, parts, seed=seed, journal=journal))


def _finished(
    work: Callable[..., Coroutine[Any, Any, T]], given: Profile, questions: Questions, parts: int, **options: Any
) -> T:
    """Carry out a validation, with progress by its parts."""
    with progress(f"validating {given.name}", parts) as step_done, timeouts_as_such():
        return finished(
            work(truth=questions.truth, source=questions.source, progress=lambda part: step_done(), **options)
        )
