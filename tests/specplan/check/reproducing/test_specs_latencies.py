"""SPECS' latencies beside predictions: the model against the simulator, what is reached, and that nothing leaks."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from sim.algorithms.beams import rsd_beams
from sim.algorithms.specs import specs
from sim.answers.candidates import BeamAnswer
from sim.answers.traces import AnswerTrace, BeamStepTrace, DraftTrace
from sim.engines.fixed import FixedEngine
from sim.operations import Algorithm, Generate, Step
from sim.roles import DRAFT, DRAFT_LIKELIHOOD, LIKELIHOOD, REWARD, TARGET
from sim.trial import run_answer
from specplan.check.reproducing import specs as paper
from theory.published.specs import TABLE_1

SMALL, LARGE, REWARDED = 0.8, 1.5, 0.25
"""Seconds of a step of beam search with either model, and what of them its reward takes."""


def _answer(rewards: list[float]) -> BeamAnswer:
    """One answer whose drafts get these rewards; the target's candidates are all rewarded highly."""

    def candidate(reward: float) -> DraftTrace:
        return DraftTrace(tokens=1, accepted=False, scores={REWARD: reward, LIKELIHOOD: -1.0, DRAFT_LIKELIHOOD: -1.0})

    beams = tuple(BeamStepTrace(drafts=(candidate(x),) * 2, targets=(candidate(0.9),) * 2) for x in rewards)
    return BeamAnswer(AnswerTrace(prompt_tokens=1, steps=(), baseline=(1,), beams=beams))


@pytest.mark.parametrize(
    ("make", "model"),
    [
        (partial(specs, width=2, beta=20.0, tau=0.8, switch="both-ways"), paper.specs_step),
        (partial(rsd_beams, width=2, threshold=0.7), paper.rsd_step),
    ],
)
def test_a_step_costs_what_the_simulator_says(
    make: Callable[[Step], Algorithm], model: Callable[[float, float, float], float]
) -> None:
    """Both schedules on engines that take what beam search does; a likelihood no slower than a reward costs nothing."""
    seconds = {TARGET: LARGE - REWARDED, DRAFT: SMALL - REWARDED, REWARD: REWARDED, LIKELIHOOD: REWARDED}
    engines = {role: FixedEngine(x) for role, x in {**seconds, DRAFT_LIKELIHOOD: 0.0}.items()}
    answer = _answer([0.9, 0.5, 0.9, 0.9, 0.5, 0.5, 0.9, 0.9])
    session = run_answer(make, answer, engines)
    by_target = sum(isinstance(op, Generate) and op.role == TARGET for op in session.operations) / 2
    assert 0 < by_target < 8
    assert session.finished is not None
    assert session.finished / 8 == pytest.approx(model(by_target / 8, SMALL, LARGE), rel=1e-12)


def test_no_data_set_enters_its_own_prediction() -> None:
    found = paper.cells()
    at = next(i for i, cell in enumerate(found) if cell.benchmark == "AMC23" and cell.method == "SPECS")
    changed = [replace(cell, published=99.0) if cell.benchmark == "AMC23" else cell for cell in found]
    before, after = found[at], paper._with_constant(changed[at], changed)
    assert (after.predicted, after.left_out, after.low) == (before.predicted, before.left_out, before.low)
    other = next(cell for cell in found if cell.benchmark == "MATH500" and cell.method == "SPECS")
    assert paper._with_constant(other, changed).left_out != other.left_out


def test_the_contradicted_cell_repeats_its_neighbour() -> None:
    """Width 16 has the seconds per step and the share of width 8, and less than a step of the small model alone."""
    here, neighbour = (TABLE_1["Qwen2.5", "MATH500", "SPECS", width] for width in (16, 8))
    assert (here.step_seconds, here.share) == (neighbour.step_seconds, neighbour.share)
    assert float(here.step_seconds) < float(TABLE_1["Qwen2.5", "MATH500", "BS(S)", 16].step_seconds)
