"""`specplan.calibrate` and `validate`: what they refuse; their examples run for real (slow)."""

import asyncio
from pathlib import Path

import pytest
from measured_profiles import measured

import specplan as sp
from specplan.api.calibrating import ENGINES, _models
from specplan.calibrating import finished
from specplan.check.validating.questions import named
from theory.errors import CalibrationError, ParameterError


def test_coroutines_are_finished_in_notebooks_too() -> None:
    async def two() -> int:
        await asyncio.sleep(0)
        return 2

    async def cell() -> int:
        return finished(two())

    assert finished(two()) == 2
    assert asyncio.run(cell()) == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_the_fields_of_an_engine_are_arguments(engine: str) -> None:
    servers = {"target": "http://127.0.0.1:1#a", "draft": "http://127.0.0.1:2#b"}
    made = _models(engine, servers if engine == "openai" else {"max_step_tokens": 7})
    assert made.is_bundled == (engine != "openai")
    with pytest.raises(ParameterError, match=r"tarjet='x' is no field of the models: .*target"):
        _models(engine, {"tarjet": "x"})


def test_configurations_are_names_or_objects_each_once() -> None:
    (one,) = named("lr-async k1=2")
    assert named([one, "lr-async k1=2", "lr-async k1=3"]) == [one, *named("lr-async k1=3")]


def test_bad_arguments_are_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "there.json").touch()
    for call, message in (
        (lambda: sp.calibrate("tensorrt"), "models='tensorrt' must be one of"),
        (lambda: sp.calibrate(answers=1), "answers=1 must be"),
        (lambda: sp.calibrate(effort="quik"), "did you mean 'quick'"),
        (lambda: sp.calibrate(output=tmp_path / "there.json"), "exists; give another name"),
        (lambda: sp.calibrate(target="a", draft="b"), "prompts=None must name"),
        (lambda: sp.validate("lr-deepseek-gsm8k", "lr-async k1=2"), "must be a measured one"),
        (lambda: sp.validate(measured([True] * 4), "lr-asink"), "did you mean 'lr-async'"),
        (lambda: sp.validate_under_load("lr-deepseek-gsm8k", "lr-async", 2), "must be a measured one"),
    ):
        with pytest.raises((ParameterError, CalibrationError), match=message):
            call()
