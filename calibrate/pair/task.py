"""Synthetic word problems with step-by-step answers and computable ground truth: what the bundled pair is trained on.

A problem is a first number and a few operations, as a story; its answer restates the first number, applies the
operations one step at a time and ends with the answer, steps separated by a blank line. Two auxiliary prompts are
answered with a single token: whether two steps have the same meaning, and the quality of a step.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from calibrate.pair.wording import (
    LAST_NUMBER,
    MONTHS,
    NAMES,
    OBJECTS,
    VERBS,
    Meaning,
    Operation,
    Verbosity,
    parse_step,
    verbosity_at,
)
from theory.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "JUDGE_NO",
    "JUDGE_YES",
    "MAX_OPERAND",
    "MAX_STEP_TOKENS",
    "MIN_OPERAND",
    "SCORE_REQUEST",
    "SCORE_TOKENS",
    "STEP_SEPARATOR",
    "Problem",
    "Split",
    "State",
    "answer_is_correct",
    "apply_operation",
    "draw_content",
    "is_next_move",
    "judge_prompt",
    "meaning_is_correct",
    "parse_question",
    "problems",
    "question_fragments",
    "same_meaning",
    "score_prompt",
    "split_of",
    "split_steps",
    "state_after",
    "step_is_correct",
    "word_question",
]

STEP_SEPARATOR: Final = "\n\n"
"""Between the question and the steps, and between steps; one token."""
MAX_STEP_TOKENS: Final = 100
"""A longer step is cut: no step of the language reaches this length (tokens)."""

JUDGE_YES: Final = " Yes"
"""Answer token of ``judge_prompt``: the two steps mean the same."""
JUDGE_NO: Final = " No"
"""Answer token of ``judge_prompt``: the two steps do not mean the same."""
SCORE_TOKENS: Final = tuple("0123456789")
"""Answer tokens of ``score_prompt``, worst first; these bare digits occur nowhere else in the language."""
SCORE_REQUEST: Final = "Score:"
"""Text after the step to be scored and a separator."""
_FIRST, _SECOND, _SAME = "First:", "Second:", "Same meaning?"

Split = Literal["training", "calibration", "validation"]
_VERBOSITY_WORDS: Final[dict[Verbosity, str]] = {"brief": " Be brief.", "normal": "", "careful": " Explain with care."}
_OPENING: Final = "{p} has {s} {o} in {m}."
_EVENT: Final = "{m} {v} {n}."
_DOUBLING: Final = "{m} {v} them."
_ASK: Final = "How many {o} does {p} have after {m}?"
_MIN_START, _MAX_START = 5, 60
_EASY_OPERANDS: Final = range(2, 10)
_HARD_OPERANDS: Final = range(11, 30)
"""All operands of a problem are easy or all are hard, so that a draft's verdicts depend on each other."""
MIN_OPERAND, MAX_OPERAND = _EASY_OPERANDS[0], _HARD_OPERANDS[-1]
_MIN_OPERATIONS, _MAX_OPERATIONS = 4, 8
_DOUBLE_SHARE: Final = 0.12
_EASY_SHARE: Final = 0.5
_PLASTIC: Final = 1.3247179572447460
_STRIDES: Final = (1 / _PLASTIC, 1 / _PLASTIC**2)
"""Strides of the plane's sequence of low discrepancy R2 (M. Roberts, 2018): powers of the root of x^3 = x + 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One word problem: its content and the wording of its question."""

    question: str
    """The text that a model sees; ``parse_question`` recovers everything below from it."""
    start: int
    operations: tuple[tuple[Operation, int | None], ...]
    """(operation, operand) in order; the operand of a doubling is None; operands of a problem are distinct."""
    verbs: tuple[str, ...]
    """What the question calls each operation."""
    name: str
    noun: str
    verbosity: Verbosity

    @property
    def prompt(self) -> str:
        """The text after which a model writes the first step."""
        return self.question + STEP_SEPARATOR

    @property
    def totals(self) -> tuple[int, ...]:
        """The running total: first number, then after each operation."""
        totals = [self.start]
        for operation, operand in self.operations:
            totals.append(apply_operation(operation, operand, totals[-1]))
        return tuple(totals)

    @property
    def answer(self) -> int:
        """The right answer: the last total."""
        return self.totals[-1]


def apply_operation(operation: Operation | None, operand: int | None, total: int) -> int:
    """The total after an operation."""
    return {"add": total + (operand or 0), "subtract": total - (operand or 0)}.get(operation or "", 2 * total)


def split_of(start: int, operations: Sequence[tuple[Operation, int | None]]) -> Split:
    """Which of the disjoint splits a problem belongs to, decided by a hash of its numbers and operations.

    Names and wording do not matter, so a problem in other words is in the same split.
    """
    key = f"{start}:" + ",".join(f"{operation}{operand}" for operation, operand in operations)
    bucket = hashlib.sha256(key.encode()).digest()[0]
    return "training" if bucket < 192 else "calibration" if bucket < 224 else "validation"


def draw_content(
    rng: np.random.Generator, n_operations: int | None = None
) -> tuple[int, tuple[tuple[Operation, int | None], ...]]:
    """Draw the first number and the operations of a problem, of any split."""
    start = total = int(rng.integers(_MIN_START, _MAX_START + 1))
    operands = rng.permutation(_EASY_OPERANDS if rng.random() < _EASY_SHARE else _HARD_OPERANDS)
    operations: list[tuple[Operation, int | None]] = []
    if n_operations is None:
        n_operations = int(rng.integers(_MIN_OPERATIONS, _MAX_OPERATIONS + 1))
    for n in operands[:n_operations].tolist():
        roll = rng.random()
        doubled = operations and operations[-1][0] == "double"
        if roll < _DOUBLE_SHARE and 2 * total <= LAST_NUMBER and total > 0 and not doubled:
            operations.append(("double", None))
        elif total - n < 0 or (total + n <= LAST_NUMBER and roll < (1 + _DOUBLE_SHARE) / 2):
            operations.append(("add", n))
        else:
            operations.append(("subtract", n))
        total = apply_operation(*operations[-1], total)
    return start, tuple(operations)


def word_question(
    rng: np.random.Generator,
    start: int,
    operations: Sequence[tuple[Operation, int | None]],
    verbosity: Verbosity | None = None,
) -> Problem:
    """The problem of given numbers in random words, with random verbosity of the answer unless it is given."""
    name, noun = NAMES[int(rng.integers(len(NAMES)))], OBJECTS[int(rng.integers(len(OBJECTS)))]
    verbosity = verbosity or verbosity_at(rng.random())
    verbs = tuple(VERBS[operation][int(rng.integers(len(VERBS[operation])))] for operation, _ in operations)
    sentences = [_OPENING.format(m=MONTHS[0], p=name, s=start, o=noun)]
    for month, (operation, operand), verb in zip(MONTHS[1:], operations, verbs, strict=False):
        event = _DOUBLING if operation == "double" else _EVENT
        sentences.append(event.format(m=month, v=verb, n=operand))
    sentences.append(_ASK.format(o=noun, p=name, m=MONTHS[len(operations)]) + _VERBOSITY_WORDS[verbosity])
    return Problem(
        question=" ".join(sentences),
        start=start,
        operations=tuple(operations),
        verbs=verbs,
        name=name,
        noun=noun,
        verbosity=verbosity,
    )


def problems(n: int, seed: int, split: Split = "validation") -> tuple[Problem, ...]:
    """`n` problems of a split, the same for the same seed.

    The verbosity of the answers and the number of operations explain 80 % of the variance between answers in acceptance
    and time. Both follow a low-discrepancy sequence with a random start (Roberts's R2), so that any set of problems has
    them in nearly the shares of the task, which reduces the difference between two sets.

    Parameters
    ----------
    n : number of problems, >= 0.
    seed : >= 0.
    split : ``training`` has the problems that the weights were trained on; calibrate on ``calibration``, validate on
        ``validation``.

    Raises
    ------
    ParameterError : `n` or `seed` negative, or an unknown split.
    """
    import numpy as np  # drawn on use: the package import stays light

    if n < 0 or seed < 0:
        raise ParameterError("n" if n < 0 else "seed", n if n < 0 else seed, "must be >= 0")
    if split not in get_args(Split):
        raise ParameterError("split", split, f"must be one of {', '.join(get_args(Split))}")
    index = get_args(Split).index(split)
    rng = np.random.default_rng(np.random.SeedSequence([seed, index]))
    start_at, drawn = rng.random(2), []
    for i in range(n):
        at_verbosity, at_operations = (start_at + (i + 1) * np.array(_STRIDES)) % 1.0
        n_operations = _MIN_OPERATIONS + int(at_operations * (_MAX_OPERATIONS + 1 - _MIN_OPERATIONS))
        start, operations = draw_content(rng, n_operations)
        while split_of(start, operations) != split:
            start, operations = draw_content(rng, n_operations)
        drawn.append(word_question(rng, start, operations, verbosity_at(at_verbosity)))
    return tuple(drawn)


@functools.lru_cache(maxsize=4096)
def parse_question(question: str) -> Problem | None:
    """Parse a question; None if the text is no question of the language."""
    words = "|".join(_VERBOSITY_WORDS.values())
    opening = re.match(rf"(\w+) has (\d+) (\w+) in {MONTHS[0]}\. ", question)
    ending = re.search(rf"How many (\w+) does (\w+) have after (\w+)\?({words})$", question.strip())
    if not opening or not ending or opening[1] not in NAMES or opening[3] not in OBJECTS:
        return None
    verb_of = {verb: operation for operation, verbs in VERBS.items() for verb in verbs}
    operations: list[tuple[Operation, int | None]] = []
    verbs: list[str] = []
    for month, sentence in enumerate(question.strip()[opening.end() : ending.start()].strip().split(". "), start=1):
        event = re.fullmatch(r"(\w+) (\w+) (\d+|them)\.?", sentence)
        operation = verb_of.get(event[2]) if event and event[1] in MONTHS[month : month + 1] else None
        if event is None or operation is None or (event[3] == "them") != (operation == "double"):
            return None
        operations.append((operation, None if operation == "double" else int(event[3])))
        verbs.append(event[2])
    if ending[3] != MONTHS[len(operations)]:
        return None
    verbosity = next(key for key, text in _VERBOSITY_WORDS.items() if text == ending[4])
    return Problem(
        question=question.strip(),
        start=int(opening[2]),
        operations=tuple(operations),
        verbs=tuple(verbs),
        name=opening[1],
        noun=opening[3],
        verbosity=verbosity,
    )


def split_steps(answer: str) -> tuple[str, ...]:
    """The steps of an answer's text."""
    return tuple(step.strip() for step in answer.split(STEP_SEPARATOR) if step.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """State of an answer after some steps, as stated in these steps."""

    total: int | None = None
    """The running total as stated, right or wrong; None before the first number."""
    n_done: int = 0
    """Operations of the question that are done (a wrong step may have skipped some)."""
    finished: bool = False

    def then(self, problem: Problem, meaning: Meaning | None) -> State:
        """The state after one more step; a malformed step changes nothing."""
        if meaning is None:
            return self
        total, n_done = self.total, self.n_done
        if meaning.kind == "start":
            total = meaning.result
        elif meaning.kind == "operation":
            rest = list(problem.operations[n_done:])
            wanted = (meaning.operation, meaning.operand)
            n_done += rest.index(wanted) + 1 if wanted in rest else 0
            total = meaning.result
        return State(total=total, n_done=n_done, finished=self.finished or meaning.kind == "final")


def state_after(problem: Problem, steps: Sequence[str]) -> State:
    """Fold the steps of an answer, in order."""
    state = State()
    for step in steps:
        state = state.then(problem, parse_step(step))
    return state


def meaning_is_correct(problem: Problem, state: State, meaning: Meaning | None) -> bool:
    """Whether a step is a right continuation of `state`; consistency is with the totals stated so far."""
    if meaning is None or state.finished:
        return False
    if state.total is None:
        return meaning == Meaning(kind="start", result=problem.start, month=0)
    at_end = state.n_done == len(problem.operations)
    if meaning.kind == "final":
        return at_end and meaning.result == state.total
    if at_end or meaning.kind != "operation" or not is_next_move(problem, state, meaning):
        return False
    stated = meaning.before is None or meaning.before == state.total
    return stated and meaning.result == apply_operation(meaning.operation, meaning.operand, state.total)


def is_next_move(problem: Problem, state: State, meaning: Meaning) -> bool:
    """Whether a step is about the operation that is next in the question, of which there must be one."""
    wanted = (*problem.operations[state.n_done], state.n_done + 1)
    return (meaning.operation, meaning.operand, meaning.month) == wanted


def _problem(question: str) -> Problem:
    problem = parse_question(question)
    if problem is None:
        raise ParameterError("question", question, "must be a question of the pair's task")
    return problem


def step_is_correct(question: str, previous_steps: Sequence[str], step: str) -> bool:
    """Ground truth of one step, given the question and the steps before it.

    A step is correct if it is well formed, applies the next operation of the question (or gives the final answer when
    none is left), and its arithmetic is right from the total *as stated so far*. So a step after an undetected mistake
    can be correct although the answer will be wrong.

    Raises
    ------
    ParameterError : the question is not of this task.
    """
    problem = _problem(question)
    return meaning_is_correct(problem, state_after(problem, previous_steps), parse_step(step))


def same_meaning(step_a: str, step_b: str) -> bool:
    """Whether two step texts mean the same; a malformed step means the same as no other step."""
    a, b = parse_step(step_a), parse_step(step_b)
    return a is not None and b is not None and a.agrees_with(b)


def answer_is_correct(question: str, answer: str | Sequence[str]) -> bool:
    """Whether an answer (text, or its steps) ends with the right number.

    Raises
    ------
    ParameterError : the question is not of this task.
    """
    steps = split_steps(answer) if isinstance(answer, str) else answer
    last = parse_step(steps[-1]) if steps else None
    return last is not None and last.kind == "final" and last.result == _problem(question).answer


def question_fragments() -> tuple[str, ...]:
    """Every word that a question is built from (templates and their fillings), for the tokenizer's vocabulary."""
    verbs = tuple(verb for verbs in VERBS.values() for verb in verbs)
    return (_OPENING, _EVENT, _DOUBLING, _ASK, *MONTHS, *verbs, *_VERBOSITY_WORDS.values())


def judge_prompt(step_a: str, step_b: str) -> str:
    """Prompt whether two steps mean the same; the answer is ``JUDGE_YES`` or ``JUDGE_NO``.

    The judge sees the two steps only, like the verifier of Lookahead Reasoning, not the problem.
    """
    return STEP_SEPARATOR.join((_FIRST, step_a.strip(), _SECOND, step_b.strip(), _SAME))


def score_prompt(question: str, previous_steps: Sequence[str], step: str) -> str:
    """Prompt for a grade of a step after the steps before it; the answer is one of ``SCORE_TOKENS``.

    The prompt continues the model's own text, so that it is in an engine's prefix cache.
    """
    return STEP_SEPARATOR.join((question.strip(), *(s.strip() for s in previous_steps), step.strip(), SCORE_REQUEST))
