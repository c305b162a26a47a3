"""The estimator of corruption against planted corruption: unbiased, with honest intervals, unlike the pooled one."""

import math

import numpy as np
import pytest
from measured_profiles import answer_of, measured, position
from sim_worlds import drawn_answers, seconds_per_step

from calibrate.record.answer_records import Generated, RecordedAnswer, StepRecord, VerdictRecord
from calibrate.replay.corruption import Recorded, Row, corruption, corruption_of, least_corruption
from calibrate.replay.system import as_seen_by, system_of
from sim.algorithms.paired import paired_trajectory
from sim.answers.drawn import SyntheticBehaviour
from sim.answers.facts import Facts, Quality
from sim.operations import Generate, Verify
from sim.roles import DRAFT, EMBEDDING, SCORER, TARGET
from sim.trial import run_answer


def planted(kappa: float, n: int, seed: int, *, spread: float = 0.25) -> tuple[Row, ...]:
    """Answers of 8 steps: acceptance .7, differing between answers; 15 % of what is accepted is wrong."""
    rng = np.random.default_rng(seed)
    weight = 0.7 * 0.3 / spread**2 - 1.0
    rows = []
    for alpha in rng.beta(0.7 * weight, 0.3 * weight, n):
        row, spoilt = [0, 0, 0, 0], False
        for _ in range(8):
            lost = spoilt * max(kappa, 0.0) * alpha - spoilt * max(-kappa, 0.0) * (1.0 - alpha)
            accepted = rng.random() < alpha - lost
            row[2 * spoilt] += 1
            row[2 * spoilt + 1] += accepted
            spoilt = spoilt or rng.random() < (0.15 if accepted else 0.02)
        rows.append((row[0], int(row[1]), row[2], int(row[3])))
    return tuple(rows)


@pytest.mark.parametrize("kappa", [-0.6, 0.7])
def test_the_interval_covers_what_was_planted(kappa: float) -> None:
    """8 samples of 80 answers: at a coverage of 95 %, 4 or fewer hits have probability 3.7e-4 each.

    A negative kappa takes its share of the refusals.
    """
    found = [corruption_of(planted(kappa, 80, seed), least=min(math.copysign(1.0, kappa), 0.0)) for seed in range(8)]
    assert sum(one.low <= kappa <= one.high for one in found) > 4


@pytest.mark.parametrize("kappa", [0.0, 0.4])
def test_answers_that_differ_do_not_pass_for_corruption(kappa: float) -> None:
    """Within 4 standard errors (false alarm 6e-5); a comparison over all answers would be off by more than that."""
    found = corruption_of(planted(kappa, 1500, 1))
    assert found.stderr < 0.02
    assert abs(found.value - kappa) <= 4.0 * found.stderr


def test_what_the_simulator_does_with_it_is_what_the_estimator_finds() -> None:
    """The knob and the estimator mean the same: recorded runs of the simulator give the knob back, to 4 sigma."""
    quality = Quality(wrong_accepted=0.12, wrong_target=0.03, corruption=0.5)
    behaviour = drawn_answers(4, alpha=0.7, spread=0.2, steps=10, quality=quality, seed=3)
    found = corruption([recorded(behaviour, i) for i in range(250)])
    assert found.stderr < 0.06
    assert abs(found.value - 0.5) <= 4.0 * found.stderr
    assert found.low < found.value < found.high


def recorded(behaviour: SyntheticBehaviour, index: int) -> RecordedAnswer:
    """A simulated calibration run as a record."""
    run = run_answer(paired_trajectory, behaviour.answer(index), seconds_per_step(0.2))
    steps: dict[str, list[Generated]] = {TARGET: [], DRAFT: []}
    for operation in run.operations:
        if isinstance(operation, Generate):
            facts = operation.result.payload
            assert isinstance(facts, Facts)
            steps[operation.role].append(Generated(tokens=4, seconds=0.1, correct=facts.right))
    verdicts = [
        VerdictRecord(accepted=operation.result.accepted, seconds=0.0, prompt_tokens=8)
        for operation in run.operations
        if isinstance(operation, Verify)
    ]
    positions = zip(steps[DRAFT], steps[TARGET], verdicts, strict=True)
    return answer_of(*(StepRecord(draft=d, target=t, verdict=v) for d, t, v in positions), problem=str(index))


def test_scorers_are_asked_about_the_draft_s_own_answers() -> None:
    """Steps after a wrong one against the recorded drafts of the same positions, until the first that is refused."""

    def draft(grade: float, correct: bool = True) -> Generated:
        return Generated(tokens=4, seconds=0.1, correct=correct, scores={SCORER: grade})

    def answers(recorded: str, own: str) -> list[RecordedAnswer]:
        """30 alike; grades as digits, ``x`` a wrong step of grade 8. The judge lets the target write."""
        refused = position(False, target_correct=True)
        steps = [refused.model_copy(update={"draft": draft(float(grade))}) for grade in recorded]
        alone = [draft(8.0, correct=False) if grade == "x" else draft(float(grade)) for grade in own]
        return [answer_of(*steps, problem=str(i), alone=alone) for i in range(30)]

    assert corruption(answers("9999", ""), SCORER, 7.0) is None  # nothing wrong was let pass: no verdict is after it
    assert corruption(answers("9999", "999"), SCORER, 7.0) is None
    lost = corruption(answers("9999", "9x19"), SCORER, 7.0)
    assert (lost.value, lost.n) == (1.0, 30)  # the last one comes after a refusal, and does not count
    assert corruption(answers("1929", "9x2999"), SCORER, 7.0) is None  # nothing was accepted at that position before
    equal = corruption([*answers("9991", "9x91"), *answers("9999", "9x99")], SCORER, 7.0)
    assert abs(equal.value) < 0.05
    raised = corruption([*answers("9911", "9x99"), *answers("9919", "9x99")], SCORER, 7.0)
    assert raised.value < -0.9
    assert corruption(answers("9999", "9x19")) is None


def test_where_a_role_does_not_tell_the_judge_does() -> None:
    """And what is taken off its figure by chance does not go below what a judge can lose."""

    def answer(index: int, verdicts: str) -> RecordedAnswer:
        """Accepted or not, ``x`` an accepted wrong step."""
        steps = (position(one != "-", one != "x", target_correct=True) for one in verdicts)
        return answer_of(*steps, problem=str(index))

    answers = [answer(i, "++x+-+") for i in range(4)]
    found = Recorded(answers).corruption(EMBEDDING, 0.8)
    assert found == Recorded(answers).corruption() == ("judge", corruption(answers))
    assert (least_corruption("judge"), least_corruption(EMBEDDING)) == (0.0, -1.0)
    assert Recorded([answer(0, "+++")]).corruption(EMBEDDING, 0.8) is None
    profile = measured([True]).model_copy(update={"answers": answers})
    system, recorded = system_of(profile), Recorded(answers)
    drawn = [as_seen_by(system, recorded, EMBEDDING, 0.8, resample=seed).behaviour.corruption for seed in range(40)]
    assert min(drawn) == 0.0 < max(drawn)


def test_nothing_is_said_without_both_sides() -> None:
    assert corruption_of(((5, 3, 0, 0), (4, 2, 0, 0))) is None  # nothing went wrong
    assert corruption_of(((1, 0, 5, 3),)) is None  # nothing was accepted before
    everything = corruption_of(((40, 39, 30, 0),))
    assert (everything.value, everything.high) == (1.0, 1.0)
    assert everything.low > 0.8
    none = corruption_of(((40, 20, 40, 30),))
    assert (none.value, none.low) == (0.0, 0.0)
    assert 0.0 < none.high < 0.3
    assert math.isfinite(none.stderr)
