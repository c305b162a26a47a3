"""The demonstration: its commands are ones that the command line takes, in the order of a user's work."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from specplan.cli import cli
from specplan.commands.demo import sequence

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
