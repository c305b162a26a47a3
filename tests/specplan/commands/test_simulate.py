"""``specplan simulate``, and the commands of the demonstration in the order of a user's work."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from specplan.cli import cli
from specplan.commands.demo import sequence
from specplan.commands.simulate import command
from theory.errors import ParameterError


def test_answers_at_once_are_compared_with_plain_decoding_at_the_same_concurrency() -> None:
    """One answer at a time takes what it takes alone; twenty share the passes, and gain less."""
    shared = ["-p", "lr-deepseek-gsm8k", "--k1", "6", "-n", "2", "--json", "--concurrency"]
    alone, crowd = (json.loads(CliRunner().invoke(command, [*shared, n]).stdout) for n in ("1", "20"))
    assert alone["at_once"]["answers"] == 1
    assert alone["at_once"]["gain"]["value"] == alone["speedup"]["value"]
    assert crowd["at_once"]["gain"]["value"] < 0.85 * alone["at_once"]["gain"]["value"]  # found: 0.81
    assert crowd["at_once"]["seconds"] > alone["at_once"]["seconds"]
    assert crowd["at_once"]["busy"]["target"] > 0.95
    assert alone["simulated"] == crowd["simulated"]


def test_places_are_roles_of_a_profile_with_timings() -> None:
    for places, said in (
        (["judge"], "place='judge' must be ROLE=ROLE or ROLE=own"),
        (["judge=own", "judge=draft"], "place='judge=draft' says again what judge is"),
        (["judge=own"], "needs a profile with timings"),
    ):
        options = [part for place in places for part in ("--place", place)]
        found = CliRunner().invoke(command, ["-p", "lr-deepseek-gsm8k", "-n", "2", *options])
        assert isinstance(found.exception, ParameterError)
        assert said in str(found.exception)


SEQUENCE = sequence(Path("folder"), (1, 2, 4, 8))


def test_order_is_that_of_the_work() -> None:
    assert [arguments[0] for arguments in SEQUENCE] == ["calibrate", "plan", "simulate", "validate"]


@pytest.mark.parametrize("arguments", SEQUENCE, ids=lambda arguments: arguments[0])
def test_every_command_takes_its_arguments(arguments: list[str]) -> None:
    """--help is answered only after all other options have been understood."""
    assert CliRunner().invoke(cli, [*arguments, "--help"]).exit_code == 0
    assert CliRunner().invoke(cli, [*arguments, "--no-such-option", "--help"]).exit_code == 2


def test_validation_reads_the_profile_that_calibration_writes() -> None:
    calibrate, *others = SEQUENCE
    written = calibrate[calibrate.index("-o") + 1]
    assert [arguments[arguments.index("--profile") + 1] for arguments in others] == [written] * 3
