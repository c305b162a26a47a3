"""Prompt lookup of a published profile, of which only a speedup is known: rows of others, and ends of steps."""

from __future__ import annotations

import pytest

from calibrate.record.library import bundled
from calibrate.replay.token_level import AveragedCost
from calibrate.replay.trials import Trials
from sim.configuration import PLAIN, Configuration
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.roles import TARGET
from sim.trial import trial_seconds


def test_averaged_passes_cost_the_rows_of_others_and_what_is_lost_at_the_end_of_steps() -> None:
    """By hand: passes of 2 tokens; one sequence pays nothing more, four the drafts of three, a step its last pass."""
    plain = LinearCost(base_s=1.0, sequence_s=0.0, request_s=0.5)
    cost = AveragedCost(plain, 2.0, rows_s=0.1, cut_tokens=0.25)
    assert cost.iteration(1, 0.0) == 0.5
    assert cost.iteration(4, 0.0) == pytest.approx(1.3 / 2.0)
    assert cost.request_s == pytest.approx((0.5 + 0.25) / 2.0)


def test_published_prompt_lookup_alone_is_as_fast_as_published_and_loses_below_steps() -> None:
    """The published speedup is met to its rounding where answers are decoded in one piece, not where in steps."""
    trials = Trials(bundled("lr-deepseek-aime24"))
    plain = Configuration.parse("prompt-lookup k2=9")
    below = Configuration.parse("lr-async k1=1 rules=paper + prompt-lookup k2=9")
    for one, is_cut in ((plain, False), (below, True)):
        engine = trials.trial(one).engines[TARGET]
        assert isinstance(engine, BatchEngine)
        assert isinstance(engine.cost, AveragedCost)
        assert (engine.cost.cut_tokens > 0.0) is is_cut
    seconds = [trial_seconds(trials.trial(one), range(3)).sum() for one in (PLAIN, plain)]
    assert seconds[0] / seconds[1] == pytest.approx(1.53, abs=0.005)
