"""Costs of iterations: between and beyond the batch sizes that were measured, and for each candidate."""

from dataclasses import replace
from functools import partial

import pytest
from sim_worlds import replayed

from sim.algorithms.graded import best_of_drafts
from sim.answers.traces import DraftTrace, StepTrace
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost, TableCost
from sim.engines.fixed import FixedEngine
from sim.engines.per_candidate import PerCandidate
from sim.engines.protocol import Engine
from sim.operations import WAIT, Algorithm, Cancel, Choose, Commit, Generate, Outcome, Score, Step
from sim.roles import CHOOSER, DRAFT, SCORER, TARGET
from sim.trial import run_answer
from sim.virtual_clock import Session
from theory.errors import ParameterError

PREFILL, TOKEN = 0.5, 0.01
QUESTION, OVERHEAD = 7, 2
LENGTHS = (3, 4, 6)


def position(final: bool) -> StepTrace:
    """Three drafts of 3, 4 and 6 tokens; the last one is the best."""
    others = tuple(
        DraftTrace(tokens=n, accepted=True, final=final, scores={CHOOSER: score, SCORER: 10 * score})
        for n, score in zip(LENGTHS[1:], (0.8, 0.9), strict=True)
    )
    return StepTrace(
        draft_tokens=LENGTHS[0],
        target_tokens=5,
        accepted=True,
        draft_final=final,
        target_final=final,
        scores={CHOOSER: 0.7, SCORER: 7.0},
        others=others,
    )


ANSWER = replayed(position(False), position(True), prompt_tokens=QUESTION)


def run(make: partial[Algorithm], *, split: bool = False) -> Session:
    target = BatchEngine(LinearCost(base_s=0.1, prefill_s=PREFILL, prefill_token_s=TOKEN))
    engines: dict[str, Engine] = {TARGET: target, DRAFT: FixedEngine(1.0)}
    return run_answer(make, ANSWER.answer(0), {**engines, CHOOSER: PerCandidate(target)} if split else engines)


@pytest.mark.parametrize(
    ("select", "split", "requests"), [("choice", True, 3), ("choice", False, 1), ("grades", False, 3)]
)
def test_each_request_costs_a_prefill_and_the_question_is_read_once(select: str, split: bool, requests: int) -> None:
    """A choice by a request for each candidate, by one for all, and a grade for each, one after the other."""
    session = run(partial(best_of_drafts, width=3, threshold=7.0, select=select), split=split)  # type: ignore[arg-type]
    asked = [op for op in session.operations if isinstance(op, Choose | Score)]
    first, second = asked[: len(asked) // 2], asked[len(asked) // 2 :]
    reading = requests * (PREFILL + TOKEN * OVERHEAD) + TOKEN * sum(LENGTHS)
    for operations, question in ((first, QUESTION), (second, 0)):
        seconds = max(op.finished for op in operations) - operations[0].started
        assert seconds == pytest.approx(reading + TOKEN * question)


def test_an_abandoned_choice_leaves_the_engine_free() -> None:
    def impatient(root: Step) -> Algorithm:
        draft = Generate(DRAFT, root)
        yield draft
        yield WAIT
        choice = Choose((draft.result,))
        yield choice
        yield Cancel(choice)
        choice.outcome = draft.outcome = Outcome.DISCARDED
        while not root.final:
            target = Generate(TARGET, root)
            yield target
            yield WAIT
            target.outcome, root = Outcome.COMMITTED, target.result
            yield Commit(root)

    session = run(partial(impatient), split=True)
    choice, target = session.operations[1:3]
    assert choice.cancelled
    # The prefill that had begun runs to its end; the target's own follows it.
    assert target.finished - 1.0 < 2 * (PREFILL + 20 * TOKEN) + 5 * 0.1


def cost(**seconds: float) -> TableCost:
    return TableCost(batches=tuple(int(name[1:]) for name in seconds), seconds=tuple(seconds.values()))


@pytest.mark.parametrize(
    ("seconds", "batch", "expected"),
    [
        ({"b1": 1.0, "b4": 4.0}, 3, 3.0),  # between sizes
        # Beyond them the least-squares slope of 4, 6 and 8 goes on: 0.35, where that of the last two is 1.1.
        ({"b1": 1.0, "b2": 2.0, "b4": 10.5, "b6": 9.7, "b8": 11.9}, 8, 11.9),
        ({"b1": 1.0, "b2": 2.0, "b4": 10.5, "b6": 9.7, "b8": 11.9}, 16, 11.9 + 8 * 0.35),
        ({"b1": 1.0, "b2": 1.1, "b4": 1.5}, 8, 1.5 + 4 * 0.2),  # sizes that double keep their last slope
        ({"b1": 1.0, "b16": 2.5}, 31, 4.0),
        ({"b1": 2.0, "b2": 1.0}, 9, 1.0),  # times do not fall, and one size says nothing of growth
        ({"b1": 2.0}, 9, 2.0),
    ],
)
def test_iterations_between_and_beyond_the_sizes_that_were_measured(seconds, batch, expected):
    assert cost(**seconds).iteration(batch, 0.0) == pytest.approx(expected)


def test_a_prefill_takes_more_for_each_token_beyond_a_bend() -> None:
    found = replace(cost(b1=1.0), prefill_s=4.0, prefill_token_s=0.25, bends=((16.0, 0.5), (64.0, 1.0)))
    assert [found.prefill(n) for n in (0, 16, 20, 64, 66)] == [4.0, 8.0, 11.0, 44.0, 47.5]
    with pytest.raises(ParameterError, match="bends"):
        replace(found, bends=((16.0, -0.5),))
