"""``specplan simulate``, and the commands of the demonstration in the order of a user's work."""

import json
from pathlib import Path

from click.testing import CliRunner
from screens import refused_words

from specplan.cli import cli
from specplan.commands.demo import sequence
from specplan.commands.simulate import command


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


test_places_are_roles_of_a_profile_with_timings = refused_words(
    "simulate -p lr-deepseek-gsm8k -n 2",
    ("--place judge", "place='judge' must be ROLE=ROLE or ROLE=own"),
    ("--place judge=own --place judge=draft", "place='judge=draft' says again what judge is"),
    ("--place judge=own", "needs a profile with timings"),
)


def test_the_demonstration_measures_plans_simulates_and_validates_one_profile() -> None:
    """--help is answered only after all other options have been understood."""
    calibrate, *others = sequence(Path("folder"), (1, 2, 4, 8))
    assert [words[0] for words in (calibrate, *others)] == ["calibrate", "plan", "simulate", "validate"]
    for words in (calibrate, *others):
        assert CliRunner().invoke(cli, [*words, "--help"]).exit_code == 0, words
        assert CliRunner().invoke(cli, [*words, "--no-such-option", "--help"]).exit_code == 2, words
    written = calibrate[calibrate.index("-o") + 1]
    assert [words[words.index("--profile") + 1] for words in others] == [written] * 3
