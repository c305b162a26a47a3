"""Costs of iterations: between and beyond the batch sizes that were measured, and for each candidate."""

from dataclasses import replace

import pytest
from sim_worlds import replayed

from sim.algorithms.graded import best_of_drafts
from sim.answers.drawn import TraceBehaviour
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


def behaviour() -> TraceBehaviour:
    """Two positions, the second one final, with three drafts of 3, 4 and 6 tokens; the last one is the best."""

    def step(final: bool) -> StepTrace:
        return StepTrace(
            draft_tokens=LENGTHS[0],
            target_tokens=5,
            accepted=True,
            draft_final=final,
            target_final=final,
            scores={CHOOSER: 0.1},
            others=tuple(
                DraftTrace(tokens=n, accepted=True, final=final, scores={CHOOSER: score})
                for n, score in zip(LENGTHS[1:], (0.2, 0.3), strict=True)
            ),
        )

    return replayed(step(False), step(True), prompt_tokens=QUESTION)


def engines(*, split: bool) -> dict[str, Engine]:
    target = BatchEngine(LinearCost(base_s=0.1, prefill_s=PREFILL, prefill_token_s=TOKEN))
    found: dict[str, Engine] = {TARGET: target, DRAFT: FixedEngine(1.0)}
    return {**found, CHOOSER: PerCandidate(target)} if split else found


def run(*, split: bool) -> Session:
    return run_answer(
        lambda root: best_of_drafts(root, width=3, threshold=7.0, select="choice"),
        behaviour().answer(0),
        engines(split=split),
    )


def test_each_candidate_costs_a_prefill_and_the_question_is_read_once() -> None:
    first, second = (op for op in run(split=True).operations if isinstance(op, Choose))
    reading = TOKEN * (sum(LENGTHS) + 3 * OVERHEAD)
    assert first.finished - first.started == pytest.approx(3 * PREFILL + reading + TOKEN * QUESTION)
    assert second.finished - second.started == pytest.approx(3 * PREFILL + reading)


def test_one_request_for_all_costs_one() -> None:
    first, second = (op for op in run(split=False).operations if isinstance(op, Choose))
    reading = TOKEN * (sum(LENGTHS) + OVERHEAD)
    assert first.finished - first.started == pytest.approx(PREFILL + reading + TOKEN * QUESTION)
    assert second.finished - second.started == pytest.approx(PREFILL + reading)


def test_a_score_reads_the_question_once_and_only_at_the_first_step() -> None:
    trace = behaviour().traces[0]
    scored = [
        StepTrace(
            draft_tokens=3,
            target_tokens=5,
            accepted=True,
            draft_final=one.draft_final,
            target_final=one.target_final,
            scores={SCORER: 9.0},
            others=(DraftTrace(tokens=3, accepted=True, final=one.draft_final, scores={SCORER: 8.0}),),
        )
        for one in trace.steps
    ]
    replay = replayed(*scored, prompt_tokens=QUESTION)
    session = run_answer(
        lambda root: best_of_drafts(root, width=2, threshold=7.0), replay.answer(0), engines(split=False)
    )
    scores = [op for op in session.operations if isinstance(op, Score)]
    seconds = [max(op.finished for op in scores if op.candidate.depth == depth) for depth in (0, 1)]
    each = PREFILL + TOKEN * (3 + OVERHEAD)
    assert seconds[0] == pytest.approx(1.0 + 2 * each + TOKEN * QUESTION)
    assert seconds[1] - seconds[0] == pytest.approx(1.0 + 2 * each)


def test_an_abandoned_choice_leaves_the_engine_free() -> None:
    def impatient(root: Step) -> Algorithm:
        draft = Generate(DRAFT, root)
        yield draft
        yield WAIT
        choice = Choose((draft.result,))
        yield choice
        yield Cancel(choice)
        target = Generate(TARGET, root)
        yield target
        yield WAIT
        choice.outcome = draft.outcome = Outcome.DISCARDED
        target.outcome = Outcome.COMMITTED
        yield Commit(target.result)
        last = Generate(TARGET, target.result)
        yield last
        yield WAIT
        last.outcome = Outcome.COMMITTED
        yield Commit(last.result)

    session = run_answer(impatient, behaviour().answer(0), engines(split=True))
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
