"""Plans from a profile for many answers at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from calibrate.record.library import bundled
from calibrate.replay.trials import Trials
from specplan.planning.at_once import Crowds
from specplan.planning.crowds_text import counts_of, crowds, crowds_as_text
from specplan.planning.planner import Plan, Request, plan
from theory.errors import ParameterError

METHODS = ("lr-async", "prompt-lookup")


@pytest.fixture(scope="module")
def found() -> Plan:
    return plan(bundled("lr-qwen3-gsm8k"), Request(methods=METHODS))


def test_one_answer_at_once_is_the_plan_for_one_answer(found: Plan) -> None:
    rows = Crowds(Trials(bundled("lr-qwen3-gsm8k")), [row.prediction for row in found.rows]).at_once(1)
    planned = {row.prediction.configuration: row.prediction.speedup for row in found.rows}
    assert len(rows) == len(planned) - 1, "all but plain decoding"
    for row in rows:
        assert row.gain == planned[row.configuration]


def test_shared_engines_cost_steps_and_drafts_of_tokens(found: Plan) -> None:
    """Parallel steps get in each other's way; prompt lookup loses what 16 times 8 drafted tokens add to a pass."""
    simulated = Crowds(Trials(bundled("lr-qwen3-gsm8k")), [row.prediction for row in found.rows])
    gains = {
        n: {(row.configuration.method, row.configuration.is_hybrid): row.gain for row in simulated.at_once(n)}
        for n in (1, 16)
    }
    for key in (("lr-async", False), ("lr-async", True)):
        assert gains[16][key].value < gains[1][key].value
    left = gains[16]["prompt-lookup", False].value / gains[1]["prompt-lookup", False].value
    assert left == pytest.approx(
        (1 + 15 * 0.0049) / (1 + 15 * (0.0049 + 8 * 0.0012)), rel=0.03
    )  # contexts are left out
    assert all(g.low <= g.value <= g.high for g in gains[16].values())


def test_the_table_has_a_column_for_each_number_and_says_when_to_stop(found: Plan) -> None:
    rows = crowds(bundled("lr-qwen3-gsm8k"), found, counts_of("4,1"))
    text = crowds_as_text(rows)[0]
    header = text.splitlines()[2].split()
    assert header == ["method", "1", "4"]
    assert ("Switch speculation off" in text) == all(row.gain.value <= 1.0 for row in rows if row.answers == 4)
    assert crowds_as_text([]) == []


@pytest.mark.parametrize("numbers", ["0", "1,257", "x", "", "1.5"])
def test_impossible_numbers_of_answers_are_refused(found: Plan, numbers: str) -> None:
    with pytest.raises(ParameterError, match="concurrency"):
        crowds(bundled("lr-qwen3-gsm8k"), found, counts_of(numbers))


def test_the_command_prints_the_rows(run_main: Callable[..., tuple[int, str, str]]) -> None:
    words = ("plan", "-p", "lr-qwen3-gsm8k", "--methods", "prompt-lookup", "--concurrency", "1,2", "--json")
    code, out, _ = run_main(*words)
    assert code == 0
    data = json.loads(out)
    assert [row["answers"] for row in data["at_once"]] == [1, 2]
    assert data["at_once"][0]["gain"]["value"] == data["rows"][0]["speedup"]["value"]


def test_the_command_draws_the_gains_by_load(run_main: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    words = ("plan", "-p", "lr-qwen3-gsm8k", "--methods", "prompt-lookup")
    picture = tmp_path / "gains.svg"
    code, _, _ = run_main(*words, "--concurrency", "1,2", "--picture", str(picture))
    assert code == 0
    drawn = picture.read_text(encoding="utf-8")
    assert "prompt lookup" in drawn
    assert "answers at once" in drawn
    code, _, err = run_main(*words, "--picture", str(tmp_path / "other.svg"))
    assert (code, "say loads" in err) == (2, True)
    code, _, err = run_main(*words, "--picture", str(tmp_path / "other.svg"), "--rate", "1")
    assert (code, "--rate needs --target" in err) == (2, True)
