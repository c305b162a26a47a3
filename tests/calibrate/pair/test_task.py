"""Laws of the pair's task: wording and parsing are inverse, ground truth is right, the splits never meet."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from calibrate import pair
from calibrate.pair.task import (
    JUDGE_NO,
    JUDGE_YES,
    Problem,
    State,
    meaning_is_correct,
    parse_question,
    split_of,
    state_after,
)
from calibrate.pair.wording import LAST_NUMBER, parse_step, verbosity_at
from workshop.training.examples import MAX_QUALITY, corrupt, judge_example, quality, writing_example
from workshop.training.rendering import answer_meanings, word_step

SEEDS = st.integers(0, 10**6)
FEW = settings(max_examples=40, deadline=None)


def _case(seed: int) -> tuple[Problem, np.random.Generator]:
    (problem,) = pair.problems(1, seed)
    return problem, np.random.default_rng(seed)


@FEW
@given(SEEDS)
def test_a_rendered_answer_is_right_whatever_its_words_and_stays_in_the_language(seed: int) -> None:
    problem, rng = _case(seed)
    assert parse_question(problem.question) == problem
    meanings = answer_meanings(problem)
    steps, others = (tuple(word_step(problem, meaning, rng) for meaning in meanings) for _ in range(2))
    for i, (step, other, meaning) in enumerate(zip(steps, others, meanings, strict=True)):
        assert pair.step_is_correct(problem.question, steps[:i], step)
        assert pair.same_meaning(step, other)
        assert parse_step(step).agrees_with(meaning)
        assert 4 <= len(re.findall(r"\w+|[^\w\s]", step)) + 1 < pair.MAX_STEP_TOKENS
    assert not any(pair.same_meaning(a, b) for a, b in pairwise(steps))
    assert pair.answer_is_correct(problem.question, pair.STEP_SEPARATOR.join(steps))
    assert pair.split_steps(pair.STEP_SEPARATOR.join(steps)) == steps
    assert all(0 <= int(n) <= LAST_NUMBER for n in re.findall(r"\d+", problem.question + " ".join(steps)))


QUESTION = (
    "Mia has 10 apples in January. February brings 7. March doubles them. How many apples does Mia have after March?"
)
START, BROUGHT, DOUBLED = (
    "In January: Start at 10.",
    "So February brings: Add 7 to get 17.",
    "So March doubles: Twice that is 34.",
)


def test_the_arithmetic_is_done_right() -> None:
    question = QUESTION.replace("them. ", "them. April takes 5. ").replace("after March", "after April") + " Be brief."
    problem = parse_question(question)
    assert problem.totals == (10, 17, 34, 29)
    right = (START, BROUGHT, DOUBLED, "So April takes: Minus 5 is 29.")
    for i, step in enumerate(right):
        assert pair.step_is_correct(question, right[:i], step)
    assert pair.answer_is_correct(question, (*right, "All told, the answer is 29."))
    assert not pair.answer_is_correct(question, (*right, "All told, the answer is 28."))
    assert not pair.answer_is_correct(question, right)
    assert not pair.answer_is_correct(question, "")


@pytest.mark.parametrize(
    ("done", "step"),
    [
        (0, "In January: Start at 11."),  # wrong number
        (0, "In February: Start at 10."),  # wrong month
        (0, BROUGHT),  # no first number yet
        (1, "So February brings: Add 7 to get 18."),  # wrong sum
        (1, "So February brings: Then 11 plus 7 is 17."),  # states a total that nobody said
        (1, "So February takes: Minus 7 is 3."),  # wrong operation
        (1, "So March brings: Add 7 to get 17."),  # wrong month
        (1, "So March doubles: Twice that is 20."),  # skips one
        (2, "So February brings: Add 7 to get 24."),  # repeats one
        (1, "All told, the answer is 10."),  # too early
        (1, BROUGHT.replace("brings", "takes")),  # contradicts itself
        (1, START),  # again
        (1, f"{BROUGHT} {BROUGHT}"),  # two steps in one
        (1, f"{BROUGHT} Note that February ends with 18."),  # says another total
        (1, f"{BROUGHT} Note that March ends with 17."),  # and another month
        (1, "Note that February ends with 17."),  # no core
        (1, "So February brings: Add seven to get 17."),  # not of the language
        (1, ""),
    ],
)
def test_wrong_steps_are_wrong(done: int, step: str) -> None:
    assert not pair.step_is_correct(QUESTION, (START, BROUGHT)[:done], step)


def test_a_step_after_a_mistake_is_judged_from_the_stated_total() -> None:
    wrong = (START, "So February brings: Add 7 to get 18.")
    doubled = "So March doubles: Doubling 18 gives 36."
    assert pair.step_is_correct(QUESTION, wrong, doubled)
    assert not pair.step_is_correct(QUESTION, wrong, "So March doubles: Doubling 17 gives 34.")
    assert not pair.answer_is_correct(QUESTION, (*wrong, doubled, "All told, the answer is 36."))


def test_same_meaning_is_about_content() -> None:
    adding = "So May brings: Adding 7 to 10 gives 17."
    assert pair.same_meaning("So May brings: Plus 7 is 17.", f"Now we go on. {adding} Note that May ends with 17.")
    assert not pair.same_meaning("So May brings: Plus 7 is 17.", "So May brings: Plus 7 is 18.")
    assert not pair.same_meaning("So May brings: Plus 7 is 17.", "So June brings: Plus 7 is 17.")
    assert not pair.same_meaning(adding, "So May brings: Adding 7 to 11 gives 17.")
    assert not pair.same_meaning("All in all it is 17.", adding)
    assert not pair.same_meaning("Nonsense.", "Nonsense.")


@FEW
@given(SEEDS)
def test_splits_are_disjoint_whatever_the_seed(seed: int) -> None:
    for split in ("training", "calibration", "validation"):
        for problem in pair.problems(3, seed, split):
            assert split_of(problem.start, problem.operations) == split


def test_problems_are_reproducible_and_differ_by_seed() -> None:
    assert pair.problems(5, 3) == pair.problems(5, 3)
    assert pair.problems(5, 3) != pair.problems(5, 4)
    assert pair.problems(5, 3) == pair.problems(9, 3)[:5]
    assert pair.problems(0, 3) == ()


@FEW
@given(SEEDS, st.integers(1, 80))
def test_any_run_of_problems_has_nearly_the_shares_of_the_task(seed: int, n: int) -> None:
    """Drawn independently, 80 problems would often miss by more (standard deviation 4.4 for the brief ones)."""
    found = pair.problems(n, seed)
    for verbosity, share in (("brief", 0.45), ("normal", 0.25), ("careful", 0.30)):
        assert abs(sum(problem.verbosity == verbosity for problem in found) - n * share) <= 3.0
    for n_operations in range(4, 9):
        assert abs(sum(len(problem.operations) == n_operations for problem in found) - n / 5) <= 4.0


def test_the_shares_of_verbosity_are_those_of_the_quantiles() -> None:
    quantiles = [verbosity_at((i + 0.5) / 100) for i in range(100)]
    assert [quantiles.count(name) for name in ("brief", "normal", "careful")] == [45, 25, 30]
    assert quantiles == sorted(quantiles, key=("brief", "normal", "careful").index)


test_bad_requests_for_problems_are_refused = refused(
    pair.problems,
    (-1, 0, "training", "n=-1 must be >= 0"),
    (1, -1, "training", "seed=-1 must be >= 0"),
    (1, 0, "test", "split='test' must be one of training"),
)


test_a_foreign_question_is_refused = refused(
    lambda question: pair.step_is_correct(question, (), START),
    ("What is love?", "question"),
    (QUESTION.replace("after March", "after April"), "question"),
)


@FEW
@given(SEEDS)
def test_a_corrupted_meaning_is_another_one_and_grades_lower(seed: int) -> None:
    problem, rng = _case(seed)
    state = State()
    for meaning in answer_meanings(problem):
        wrong = corrupt(problem, meaning, rng)
        assert wrong != meaning
        assert quality(problem, state, meaning) == MAX_QUALITY
        assert (quality(problem, state, wrong) == MAX_QUALITY) == meaning_is_correct(problem, state, wrong)
        state = state.then(problem, meaning)
    assert quality(problem, state, None) == 0


def test_grades_are_graded() -> None:
    problem = parse_question(QUESTION)
    assert problem is not None
    state = state_after(problem, (START,))
    right = parse_step(BROUGHT)
    assert right is not None
    grades = [quality(problem, state, replace(right, result=result)) for result in (17, 18, 22, 77)]
    assert grades == [9, 4, 3, 2]
    assert quality(problem, state, parse_step("So February brings: Add 8 to get 18.")) == 1


@FEW
@given(SEEDS)
def test_training_labels_agree_with_ground_truth(seed: int) -> None:
    problem, rng = _case(seed)
    example = writing_example(problem, rng, "")
    question, *steps = example.text.split(pair.STEP_SEPARATOR)
    assert question == problem.question
    for i, step in enumerate(steps):
        assert pair.step_is_correct(question, steps[:i], step) == (i + 1 not in example.worded)
    for branch in example.branches:
        text = pair.STEP_SEPARATOR.join([question, *steps[: branch.after]]) + pair.STEP_SEPARATOR + branch.text
        _, *seen, asked, request = text.split(pair.STEP_SEPARATOR)
        assert text == pair.score_prompt(question, seen, asked)
        assert request
        assert (int(branch.reply) == MAX_QUALITY) == pair.step_is_correct(question, seen, asked)


@FEW
@given(SEEDS)
def test_judge_labels_agree_with_ground_truth(seed: int) -> None:
    problem, rng = _case(seed)
    example = judge_example(problem, rng)
    _, a, _, b, _ = example.text.split(pair.STEP_SEPARATOR)
    assert example.text == pair.judge_prompt(a, b)
    assert example.reply == (JUDGE_YES if pair.same_meaning(a, b) else JUDGE_NO)


def test_judge_labels_are_balanced() -> None:
    """Over 600 pairs the share of Yes lies within 0.4..0.65; a fair coin leaves 0.4..0.6 once in a million times."""
    rng = np.random.default_rng(5)
    yes = [judge_example(problem, rng).reply == JUDGE_YES for problem in pair.problems(600, 5)]
    assert 0.4 < np.mean(yes) < 0.65
