"""Measure models, and get their profile."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.loads.levels import LoadOptions
    from calibrate.measuring.engine_timings import MeasureOptions
    from calibrate.measuring.plan import MeasurableModels
    from calibrate.record.profile import Profile

__all__ = ["ENGINES", "calibrate"]

ENGINES: Final = {
    "torch": ("calibrate.models.local", "TorchModels"),
    "vllm": ("calibrate.models.vllm", "VllmModels"),
    "openai": ("calibrate.models.servers", "RemoteModels"),
}
"""Engine to the class of its models, whose fields are further arguments of `calibrate`."""


def calibrate(
    models: str | MeasurableModels = "torch",
    *,
    prompts: str | Path | None = None,
    answers: int | None = None,
    precision: float | None = None,
    texts: int | None = None,
    effort: str | None = None,
    output: str | Path | None = None,
    name: str = "",
    timings: MeasureOptions | None = None,
    loads: LoadOptions | None = None,
    n_token_answers: int | None = None,
    **fields: Any,
) -> Profile:
    """Measure models and return their profile, as ``specplan calibrate`` does.

    >>> import specplan as sp
    >>> from calibrate.measuring.engine_timings import MeasureOptions
    >>> short = MeasureOptions(rounds=1, batches=(1, 2), contexts=(64,), prefills=(16,))
    >>> known = sp.calibrate("torch", answers=2, max_steps=4, candidates=0, n_token_answers=0, timings=short)
    >>> len(known.answers)
    2

    Parameters
    ----------
    models : torch, vllm or openai, with ``fields``; or target, draft and judge as an object.
    prompts : JSONL file of questions; default those of the bundled task, for the bundled pair.
    answers : questions to answer, >= 2; with a precision at most so many.
    texts : further questions, answered many at a time: how long steps are and how often accepted, no timings; default
        none, on servers without `answers` as many as the command writes.
    precision : half-width of the planned speedup at which to stop, a share of it in (0, 1).
    effort : quick, normal or precise, where neither is given.
    output : file to write; what is finished is kept in a journal next to it, and the same call goes on from there.
        Default none: an interrupted measurement starts anew.
    name : of the profile; default the file's.
    timings : how engines are timed; default as the command does: at the lengths of questions and answers too.
    loads : answers at once at which the target is measured; default as the command does, for torch none.
    n_token_answers : questions that are answered with every token-level method too.
    fields : of the models: target, draft, judge and so on, as the command's options are named.

    Raises
    ------
    ParameterError : an argument outside its range, no such field, or an output that exists.
    CalibrationError : an engine failed.
    """
    from calibrate.loads.levels import LoadOptions
    from sim.catalogue import choice
    from specplan.calibrating import EFFORTS, Effort, measured, plan_of

    to_measure = _models(models, fields)
    how_much = Effort(
        named=None if effort is None else choice("effort", effort, tuple(EFFORTS)),
        answers=answers,
        precision=precision,
        texts=texts,
    )
    options: dict[str, Any] = {"reach": True} if timings is None else {"engine": timings}
    if loads is not None or to_measure.by_load:
        options["loads"] = loads or LoadOptions()
    place = None if output is None else Path(output)
    if place is not None and place.exists():
        raise ParameterError("output", str(place), "exists; give another name")
    plan = plan_of(
        to_measure,
        how_much,
        None if prompts is None else Path(prompts),
        name=name or ("profile" if place is None else place.stem),
        command="specplan.calibrate",
        n_token_answers=n_token_answers,
        **options,
    )
    if place is not None:
        return measured(plan, place)
    with TemporaryDirectory() as folder:
        return measured(plan, Path(folder) / "profile.json")


def _models(models: str | MeasurableModels, fields: dict[str, Any]) -> MeasurableModels:
    """The models of an engine, or those that are given."""
    from dataclasses import fields as fields_of
    from importlib import import_module

    from sim.catalogue import choice

    if not isinstance(models, str):
        if fields:
            raise ParameterError(next(iter(fields)), fields, "has no use with models that are given as an object")
        return models
    module, kind = ENGINES[choice("models", models, tuple(ENGINES))]
    made = getattr(import_module(module), kind)
    known = [one.name for one in fields_of(made)]
    for name, value in fields.items():
        if name not in known:
            raise ParameterError(name, value, f"is no field of the models: {', '.join(known)}")
    result: MeasurableModels = made(**fields)
    return result
