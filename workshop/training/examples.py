"""Training examples of the bundled pair: answers to continue, steps to score and pairs of steps to judge.

Wrong steps are made from right ones by the mistakes that a small model makes: a result that is slightly off, a number
taken from the wrong place of the question, the wrong operation, a skipped or repeated step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from calibrate.pair.task import (
    JUDGE_NO,
    JUDGE_YES,
    MAX_OPERAND,
    MIN_OPERAND,
    SCORE_REQUEST,
    SCORE_TOKENS,
    STEP_SEPARATOR,
    Problem,
    State,
    apply_operation,
    is_next_move,
    judge_prompt,
    meaning_is_correct,
    word_question,
)
from calibrate.pair.wording import (
    LAST_NUMBER,
    MONTHS,
    NAMES,
    OBJECTS,
    Meaning,
    Operation,
    Verbosity,
    parse_step,
)
from workshop.training.rendering import (
    answer_meanings,
    render_beginning,
    render_move,
    render_step,
    word_step,
)

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "MAX_QUALITY",
    "Branch",
    "Example",
    "corrupt",
    "drill_example",
    "drilling_examples",
    "judge_example",
    "judging_examples",
    "quality",
    "recall_example",
    "recalling_examples",
    "thinned",
    "writing_example",
    "writing_examples",
]

MAX_QUALITY: Final = len(SCORE_TOKENS) - 1
SLIP_PROBABILITY: Final = 0.15
"""Share of answers that contain one undetected mistake, after which the rest is consistent with the wrong total."""
SUMS_PER_DRILL: Final = 24
WORDY_SUMS_PER_DRILL: Final = 8
WRONG_PER_SUM: Final = 0.5
"""Share of a drill's sums that are wrong: read, scored, not learned."""
_NEAR: Final = (-10, -3, -2, -1, -1, 1, 1, 2, 3, 10)
_FAR: Final = 60
_MIN_RECALLED: Final = 4
"""Months of a story to recall, at least; at most all but January."""
_NOTES_PER_MOVE: Final = 0.3
"""Probability of one more note after a move to recall, again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A question on the side: read after some steps, answered by one token, unseen by the rest of the text."""

    after: int
    """How many steps of the main text come before it."""
    text: str
    reply: str
    right: int | None = None
    """The total that belongs into the step to be scored, where it makes the right move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One training text. Segments are counted by separators: the question is segment 0, then one per step."""

    text: str
    silent: frozenset[int] = frozenset({0})
    """Segments that the model reads but does not learn to write: the question and wrong steps."""
    worded: frozenset[int] = frozenset()
    """Wrong steps of which the words are learned, without the numbers: what follows a mistake shall be language."""
    branches: tuple[Branch, ...] = ()
    """Steps to score; one pass over the answer serves them all."""
    reply: str | None = None
    """The one token that answers `text`, where it is a question as a whole."""
    learned: Literal["all", "totals", "first moves", "last moves"] = "all"
    """What is learned where the rest is drawn at random: the last number of each step, or its verb with its first or
    its last number."""


def quality(problem: Problem, state: State, meaning: Meaning | None) -> int:
    """The grade of a step, 0..9: 9 right, 2..4 wrong number, 1 wrong move, 0 malformed."""
    if meaning is None:
        return 0
    if meaning_is_correct(problem, state, meaning):
        return MAX_QUALITY
    wanted = _right_result(problem, state, meaning)
    if wanted is None or meaning.result is None or meaning.result == wanted:
        return 1
    return _grade(meaning.result - wanted)


def _grade(off: int) -> int:
    """The grade of a step that makes the right move, by how far its number is off."""
    return MAX_QUALITY if off == 0 else 4 if abs(off) <= 2 else 3 if abs(off) <= 10 else 2


def _near(rng: np.random.Generator) -> int:
    """By how much a sum is off that is wrong."""
    return _NEAR[int(rng.integers(len(_NEAR)))]


def _right_result(problem: Problem, state: State, meaning: Meaning) -> int | None:
    """The number that belongs in a step which makes the right move, or None where the move itself is wrong."""
    if state.finished or (state.total is None) != (meaning.kind == "start"):
        return None
    if meaning.kind == "start":
        return problem.start
    at_end = state.n_done == len(problem.operations)
    if meaning.kind == "final" and at_end:
        return state.total
    if meaning.kind != "operation" or at_end or state.total is None:
        return None
    right_move = is_next_move(problem, state, meaning)
    return apply_operation(meaning.operation, meaning.operand, state.total) if right_move else None


def _off_result(problem: Problem, meaning: Meaning, rng: np.random.Generator) -> Meaning:
    shift = _near(rng) if rng.random() < 0.85 else int(rng.integers(-30, 31))
    return meaning if meaning.result is None else replace(meaning, result=meaning.result + shift)


def _off_before(problem: Problem, meaning: Meaning, rng: np.random.Generator) -> Meaning:
    if meaning.before is None or meaning.result is None:
        return meaning
    shift = _near(rng)
    return replace(meaning, before=meaning.before + shift, result=meaning.result + shift)


def _other_operand(problem: Problem, meaning: Meaning, rng: np.random.Generator) -> Meaning:
    if meaning.operand is None:
        return meaning
    others = [n for _, n in problem.operations if n not in (None, meaning.operand)] or [meaning.operand + 1]
    operand = (
        others[int(rng.integers(len(others)))]
        if rng.random() < 0.7
        else int(rng.integers(MIN_OPERAND, MAX_OPERAND + 1))
    )
    return _recompute(replace(meaning, operand=operand))


def _other_operation(problem: Problem, meaning: Meaning, rng: np.random.Generator) -> Meaning:
    if meaning.operation not in ("add", "subtract"):
        return meaning
    return _recompute(replace(meaning, operation="subtract" if meaning.operation == "add" else "add"))


def _other_move(problem: Problem, meaning: Meaning, rng: np.random.Generator) -> Meaning:
    """Another operation of the question instead of this one (skipped or repeated), or an early end."""
    number = meaning.result if meaning.before is None else meaning.before
    if number is not None and (meaning.kind != "operation" or rng.random() < 0.15):
        return Meaning(kind="final", result=number)
    month = int(rng.integers(len(problem.operations)))
    operation, operand = problem.operations[month]
    return _recompute(replace(meaning, operation=operation, operand=operand, month=month + 1))


def _recompute(meaning: Meaning) -> Meaning:
    """The same step with the result that its total, operation and operand give."""
    if meaning.before is None or meaning.kind != "operation":
        return meaning
    return replace(meaning, result=apply_operation(meaning.operation, meaning.operand, meaning.before))


_Corruption = Callable[[Problem, Meaning, "np.random.Generator"], Meaning]
_CORRUPTIONS: Final[tuple[_Corruption, ...]] = (
    *(_off_result,) * 5,
    _off_before,
    *(_other_operand,) * 2,
    _other_operation,
    _other_move,
)


def _in_language(meaning: Meaning) -> bool:
    return all(n is None or 0 <= n <= LAST_NUMBER for n in (meaning.before, meaning.operand, meaning.result))


def corrupt(problem: Problem, meaning: Meaning, rng: np.random.Generator) -> Meaning:
    """A different meaning that a mistake would make of this one; every number stays in the language."""
    while True:
        wrong = _CORRUPTIONS[int(rng.integers(len(_CORRUPTIONS)))](problem, meaning, rng)
        if wrong != meaning and _in_language(wrong):
            return wrong


def _totals_with_slip(problem: Problem, rng: np.random.Generator) -> tuple[tuple[int, ...], int]:
    """Running totals with one wrong result, and where (0: none); the rest follows from the wrong number."""
    totals = list(problem.totals)
    at = int(rng.integers(1, len(totals))) if rng.random() < SLIP_PROBABILITY else 0
    if at:
        totals[at] += _near(rng)
        for i, (operation, operand) in enumerate(problem.operations[at:], start=at):
            totals[i + 1] = apply_operation(operation, operand, totals[i])
    if at and all(0 <= total <= LAST_NUMBER for total in totals):
        return tuple(totals), at
    return problem.totals, 0


def _answer(problem: Problem, rng: np.random.Generator) -> tuple[list[Meaning], frozenset[int]]:
    """The meanings of an answer, perhaps with a slip, and the segments that are wrong."""
    totals, _ = _totals_with_slip(problem, rng)
    meanings = answer_meanings(problem, totals)
    state, silent = State(), {0}
    for segment, meaning in enumerate(meanings, start=1):
        if not meaning_is_correct(problem, state, meaning):
            silent.add(segment)
        state = state.then(problem, meaning)
    return list(meanings), frozenset(silent)


def writing_example(problem: Problem, rng: np.random.Generator, eos: str, candidates: float = 0.8) -> Example:
    """A whole answer to learn to write, and on the side steps of it, right and wrong, to score.

    Each step is scored, and so many other `candidates` for its place, mostly wrong ones.
    """
    meanings, silent = _answer(problem, rng)
    steps = [word_step(problem, meaning, rng) for meaning in meanings]
    state, branches = State(), []
    for at, meaning in enumerate(meanings):
        if at < len(meanings) - 1:
            grade = quality(problem, state, meaning)
            right = _right_result(problem, state, meaning)
            branches.append(Branch(after=at + 1, text=SCORE_REQUEST, reply=SCORE_TOKENS[grade], right=right))
        if rng.random() < candidates:
            branches.append(_candidate(problem, state, meaning, at, rng))
        state = state.then(problem, meaning)
    return Example(
        text=STEP_SEPARATOR.join([problem.question, *steps]) + eos,
        worded=silent - {0},
        branches=tuple(branches),
    )


def _candidate(problem: Problem, state: State, meaning: Meaning, at: int, rng: np.random.Generator) -> Branch:
    """Another step in place of this one, mostly a wrong one, to score."""
    said = corrupt(problem, meaning, rng) if rng.random() < 0.85 else meaning
    step = word_step(problem, said, rng)
    if rng.random() < 0.05:
        step = _garbled(step, rng)
    parsed = parse_step(step)
    grade, right = quality(problem, state, parsed), None if parsed is None else _right_result(problem, state, parsed)
    return Branch(after=at, text=step + STEP_SEPARATOR + SCORE_REQUEST, reply=SCORE_TOKENS[grade], right=right)


def _garbled(step: str, rng: np.random.Generator) -> str:
    """A malformed step: some of its words are missing or in another order."""
    words = step.split(" ")
    return " ".join(words[i] for i in rng.permutation(len(words))[: max(2, len(words) - 2)])


def judge_example(problem: Problem, rng: np.random.Generator) -> Example:
    """Two steps and whether they say the same; both answers are equally likely up to chance agreement."""
    meanings = answer_meanings(problem)
    at = int(rng.integers(len(meanings)))
    a = meanings[at] if rng.random() < 0.7 else corrupt(problem, meanings[at], rng)
    b = a
    if rng.random() < 0.5:
        other = meanings[int(rng.integers(len(meanings)))]
        b = other if rng.random() < 0.4 else corrupt(problem, a, rng)
    first, second = (word_step(problem, m, rng) for m in ((a, b) if rng.random() < 0.5 else (b, a)))
    said_a, said_b = parse_step(first), parse_step(second)
    same = said_a is not None and said_b is not None and said_a.agrees_with(said_b)
    # Learning to write the second step after the first builds the comparison that the verdict then reads off: with the
    # verdict as the only signal, a small model does not get beyond chance in the time that it has.
    return Example(text=judge_prompt(first, second), silent=frozenset({0, 1, 2}), reply=JUDGE_YES if same else JUDGE_NO)


def _off(rng: np.random.Generator, far: float) -> int:
    if far and rng.random() < far:
        return int(rng.integers(1, _FAR + 1)) * (1 if rng.random() < 0.5 else -1)
    return _near(rng)


def drill_example(rng: np.random.Generator, far: float = 0.0, *, wordy: bool = False) -> Example:
    """A long chain of sums without a story, each to score: ten times as many per token as an answer has.

    Of the wrong sums the share `far` is off by anything up to 60: that is told apart first. A wordy chain is shorter:
    it tells its sums in any wording, with notes.
    """
    n_sums = WORDY_SUMS_PER_DRILL if wordy else SUMS_PER_DRILL
    total = int(rng.integers(0, LAST_NUMBER + 1))
    meanings, silent, branches = [Meaning(kind="start", result=total, month=0)], {0}, []
    while len(meanings) <= n_sums:
        operand = int(rng.integers(MIN_OPERAND, MAX_OPERAND + 1))
        operation: Operation = "add" if rng.random() < 0.5 else "subtract"
        right = apply_operation(operation, operand, total)
        result = right + (_off(rng, far) if rng.random() < WRONG_PER_SUM else 0)
        if 0 <= right <= LAST_NUMBER and 0 <= result <= LAST_NUMBER:
            if result != right:
                silent.add(len(meanings))
            if len(meanings) < n_sums:  # a branch leaves the text at a separator, and the last step has none
                grade = _grade(result - right)
                reply = SCORE_TOKENS[grade]
                branches.append(Branch(after=len(meanings), text=SCORE_REQUEST, reply=reply, right=right))
            meanings.append(
                Meaning(
                    kind="operation",
                    operation=operation,
                    operand=operand,
                    before=total,
                    result=result,
                    month=len(meanings) % len(MONTHS),
                )
            )
            total = result
    noun, name = OBJECTS[int(rng.integers(len(OBJECTS)))], NAMES[int(rng.integers(len(NAMES)))]
    verbosity: Verbosity = "normal" if wordy else "brief"
    steps = [render_step(meaning, rng, name=name, noun=noun, verbosity=verbosity) for meaning in meanings]
    return Example(
        text=STEP_SEPARATOR.join(steps), learned="totals", silent=frozenset(silent), branches=tuple(branches)
    )


def drilling_examples(rng: np.random.Generator, far: float = 0.0, wordy: float = 0.0) -> Iterator[Example]:
    """Drills without end, the share `wordy` of them so."""
    while True:
        yield drill_example(rng, far, wordy=wordy > 0 and bool(rng.random() < wordy))


def recall_example(rng: np.random.Generator, any_wording: bool = False) -> Example:
    """A story and what its months do, in any order: what to look up, without what to compute.

    In the shortest wording, or in any one, cut after its operand.

    Answers ask for so little of it per token that a small model does not begin to look things up within a thousand
    steps; from these it does within a few hundred.
    """
    months = rng.permutation(int(rng.integers(_MIN_RECALLED, len(MONTHS)))).tolist()
    operands = iter(rng.permutation(range(MIN_OPERAND, MAX_OPERAND + 1)).tolist())
    moves: list[tuple[Operation, int | None]] = []
    for roll in rng.random(len(months)).tolist():
        operation: Operation = "double" if roll < 0.12 else "add" if roll < 0.56 else "subtract"
        moves.append((operation, None if operation == "double" else next(operands)))
    problem = word_question(rng, int(rng.integers(LAST_NUMBER)), moves)
    steps = []
    for i in months:
        operation, operand = moves[i]
        told = int(rng.integers(LAST_NUMBER + 1))
        move = Meaning(kind="operation", operation=operation, operand=operand, result=told, month=i + 1)
        words = {"name": problem.name, "noun": problem.noun, "verb": problem.verbs[i]}
        if any_wording:
            steps.append(render_beginning(replace(move, before=told), rng, **words))
        else:
            steps.append(render_move(move, rng, **words, more=_NOTES_PER_MOVE))
    learned: Literal["first moves", "last moves"] = "last moves" if any_wording else "first moves"
    return Example(text=STEP_SEPARATOR.join([problem.question, *steps]), learned=learned)


def recalling_examples(rng: np.random.Generator, any_wording: bool = False) -> Iterator[Example]:
    """Stories to recall without end."""
    while True:
        yield recall_example(rng, any_wording)


def thinned(stream: Iterator[Problem], rng: np.random.Generator, keep_long: float) -> Iterator[Problem]:
    """Pass every problem that asks for a brief answer, and of the others the share `keep_long`."""
    return (p for p in stream if p.verbosity == "brief" or keep_long >= 1 or rng.random() < keep_long)


def writing_examples(
    stream: Iterator[Problem], rng: np.random.Generator, eos: str, candidates: float = 0.8
) -> Iterator[Example]:
    """Answers with steps to score, without end."""
    for problem in stream:
        yield writing_example(problem, rng, eos, candidates)


def judging_examples(stream: Iterator[Problem], rng: np.random.Generator) -> Iterator[Example]:
    """Pairs of steps without end."""
    for problem in stream:
        yield judge_example(problem, rng)
