"""Plans for many answers at once, from loads of planted servers in virtual time: what closed loops of them measure."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from openai_server import Planted
from virtual_loops import gain, loaded, profile_of

from calibrate.replay.trials import PLAIN, Trials
from specplan.planning.at_once import Crowds
from specplan.planning.crowds_text import crowds
from specplan.planning.planner import Request, plan

PASSES = Planted(iteration_s=0.016, sequence_s=0.0006, prefill_token_s=2e-5)
LAWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "reading hides decoding": ({"prefill_s": 0.053, "reading_s": 0.048}, {"prefill_s": 0.081, "reading_s": 0.076}),
    "both take their time": ({"prefill_s": 0.03, "joining_s": 0.03}, {"prefill_s": 0.045, "joining_s": 0.045}),
    "an H100's": (
        {"iteration_s": 0.0064, "sequence_s": 3e-5, "prefill_s": 0.022, "reading_s": 0.0095},
        {"prefill_s": 0.030, "reading_s": 0.022},
    ),
}
"""What reading takes: of the target, and with a draft model that reads too."""
BAR = {1: 0.05, 4: 0.06, 32: 0.09, 64: 0.15}
"""Largest error of a gain by answers at once, [-], the noise of a short loop included; 64 were not timed."""


@pytest.fixture(scope="module")
def answers() -> list[list[int]]:
    """Tokens of the steps of each answer: so many that few of them end together again."""
    rng = random.Random(1)
    return [[rng.randint(15, 25) for _ in range(3)] for _ in range(60)]


def servers(law: str) -> tuple[Planted, Planted]:
    own, drafted = LAWS[law]
    plain = replace(PASSES, **own)
    row_s = 0.4 * plain.sequence_s
    return plain, replace(plain, row_s=row_s, k2=4, accepted=(0.85, 0.87, 0.88), **drafted)


@pytest.mark.parametrize("law", LAWS)
def test_planned_gains_are_those_of_closed_loops(law: str, answers: list[list[int]]) -> None:
    plain, fast = servers(law)
    profile = profile_of(plain, fast, answers, (1, 4, 16, 32), 375 * plain.iteration_s)
    rows = crowds(profile, plan(profile, Request(methods=("draft-model",))), list(BAR))
    assert [row.answers for row in rows] == list(BAR)
    for row in rows:
        measured = gain(plain, fast, row.answers, [sum(steps) for steps in answers], 1800 * plain.iteration_s)
        error = row.gain.value / measured - 1.0
        assert abs(error) <= BAR[row.answers], (row.answers, row.gain.value, measured)
        assert (row.gain.value > 1.0) == (measured > 1.0)
        assert row.timed == 32


def test_planned_tokens_per_second_are_those_of_closed_loops(answers: list[list[int]]) -> None:
    """Of plain decoding, where no draft hides an error of the other."""
    plain, fast = servers("reading hides decoding")
    simulated = Crowds(Trials(profile_of(plain, fast, answers, (1, 4, 16, 32))), [])
    lengths = [sum(steps) for steps in answers]
    for load in (1, 4, 16, 32):
        record = loaded(plain, load, 60.0, lengths)
        rates = simulated._run(PLAIN, load).throughputs(4)
        assert sum(rates) / len(rates) == pytest.approx(record.tokens / record.seconds, rel=0.03)
