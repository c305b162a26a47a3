"""From training examples to tensors: one pass over an answer also serves the steps to be scored on its side.

A row holds the main text and then its branches. A branch continues from some separator of the main text: its tokens
take the positions that they would have there, see the main text up to there and themselves, and nobody else sees them.
So a reply is trained on exactly what the plain prompt would show, at the price of the branch's own tokens.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from calibrate.pair.task import SCORE_TOKENS, STEP_SEPARATOR
from calibrate.pair.wording import LAST_NUMBER, MONTHS, VERBS
from workshop.training.examples import Example
from workshop.training.rendering import STEP_WORDS
from workshop.training.tokenizer import PAD, vocabulary

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

__all__ = ["TASK_WEIGHT", "Batch", "Encoded", "batches", "collate", "encode"]

TASK_WEIGHT: Final = 4.0
"""Weight of a number, month or verb of the story, or of how a step begins: other words are a free choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Tensors of shape (rows, length); `mask` is (rows, 1, length, length), added to attention scores."""

    ids: torch.Tensor
    targets: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    writing: torch.Tensor
    """Weight of each target as text to write."""
    replies: torch.Tensor
    """1 where the target answers a question."""
    numbers: torch.Tensor
    """True where the target is a number to write."""
    hints: torch.Tensor
    """The reply that will be wanted about the step that a token belongs to, from the step's total on; -1 elsewhere."""
    rights: torch.Tensor
    """The total that such a step should have, as a token; -1 where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """An example in tokens; the last token of a branch is its reply."""

    example: Example
    main: list[int]
    branches: list[tuple[int, list[int]]]

    @property
    def length(self) -> int:
        """Columns of its row."""
        return len(self.main) + sum(len(ids) - 1 for _, ids in self.branches)


def encode(examples: Sequence[Example], tokenizer: Tokenizer) -> list[Encoded]:
    """Tokenize examples with their branches and replies."""
    texts = [
        text
        for example in examples
        for text in (example.text + (example.reply or ""), *(b.text + b.reply for b in example.branches))
    ]
    ids = iter([encoding.ids for encoding in tokenizer.encode_batch(texts)])
    return [
        Encoded(example=example, main=next(ids), branches=[(b.after, next(ids)) for b in example.branches])
        for example in examples
    ]


def batches(
    examples: Iterator[Example],
    tokenizer: Tokenizer,
    *,
    rows: int,
    seed: int,
    pool: int = 32,
) -> Iterator[Batch]:
    """Batches of rows of similar length, in random order; `pool` batches are sorted together."""
    import numpy as np

    order = np.random.default_rng(seed)
    while True:
        encoded = encode(list(itertools.islice(examples, rows * pool)), tokenizer)
        encoded.sort(key=lambda row: row.length)
        for i in order.permutation(pool).tolist():
            yield collate(encoded[i * rows : (i + 1) * rows])


def collate(rows: Sequence[Encoded]) -> Batch:
    """Lay out encoded examples as tensors."""
    import numpy as np
    import torch

    ids = vocabulary()
    first, last = ids[" 0"], ids[f" {LAST_NUMBER}"]
    shape = (len(rows), max(row.length for row in rows))
    tokens, targets = (np.full(shape, ids[PAD], np.int64) for _ in range(2))
    positions, replies = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    writing = np.zeros(shape, np.float32)
    hints, rights = (np.full(shape, -1, np.int64) for _ in range(2))
    scores = {ids[token] for token in SCORE_TOKENS}
    owner, seen = (np.full(shape, -1, np.int64) for _ in range(2))  # branch number; last main column that is visible
    for i, row in enumerate(rows):
        main, n = np.array(row.main), len(row.main)
        tokens[i, :n], targets[i, : n - 1] = main, main[1:]
        positions[i, :n] = seen[i, :n] = np.arange(n)
        owner[i, :n] = 0
        writing[i, : n - 1], replies[i, n - 2] = _main_weights(main, row.example, ids[STEP_SEPARATOR])
        separators = np.flatnonzero(main == ids[STEP_SEPARATOR])
        column = n
        for number, (after, branch) in enumerate(row.branches, start=1):
            size, parent = len(branch) - 1, separators[after]
            if branch[-1] in scores:  # its step is the branch's own, or else the one that the main text ends with there
                own = branch.index(ids[STEP_SEPARATOR]) if ids[STEP_SEPARATOR] in branch else 0
                step = slice(column, column + own) if own else slice(separators[after - 1] + 1 if after else 0, parent)
                text = np.array(branch[:own]) if own else main[step]
                told = _tells_total(text, first, last)
                hints[i, step] = np.where(told, branch[-1], -1)
                right = row.example.branches[number - 1].right
                if right is not None and 0 <= right <= LAST_NUMBER:
                    rights[i, step] = np.where(told, first + right, -1)
            here = slice(column, column + size)
            tokens[i, here], positions[i, here] = branch[:-1], parent + 1 + np.arange(size)
            owner[i, here], seen[i, here] = number, parent
            column += size
            targets[i, column - 1], replies[i, column - 1] = branch[-1], 1
        if row.example.reply is not None:  # two steps to compare: the second one should have the first one's total
            first_step, second = (main[separators[k] + 1 : separators[k + 1]] for k in (0, 2))
            numbers = first_step[(first_step >= first) & (first_step <= last)]
            step, told = slice(separators[2] + 1, separators[3]), _tells_total(second, first, last)
            hints[i, step] = np.where(told, main[-1], -1)
            rights[i, step] = np.where(told, numbers[-1], -1) if len(numbers) else -1
        if row.example.worded:
            in_wrong = np.isin(np.cumsum(tokens[i] == ids[STEP_SEPARATOR]), list(row.example.worded))
            writing[i] *= ~(in_wrong & (targets[i] >= first) & (targets[i] <= last))
        if row.example.learned != "all":
            writing[i] *= _learned(row.example, targets[i])
    is_number = (targets >= first) & (targets <= last) & (writing > 0)
    writing *= np.array(_token_weights(), np.float32)[targets]
    mask = np.where(_visible(owner, seen), np.float32(0), np.float32(-1e9))[:, None]
    arrays = (tokens, targets, positions, mask, writing, replies, is_number, hints, rights)
    names = ("ids", "targets", "positions", "mask", "writing", "replies", "numbers", "hints", "rights")
    return Batch(**{name: torch.from_numpy(array) for name, array in zip(names, arrays, strict=True)})


def _main_weights(main: NDArray[np.int64], example: Example, separator: int) -> tuple[NDArray[np.bool_], bool]:
    """Which targets of a main text are written (its silent segments are not), and whether its last one is a reply."""
    import numpy as np

    segment = np.cumsum(main[:-1] == separator)
    learned = ~np.isin(segment, list(example.silent))
    if example.reply is not None:
        learned &= segment != segment[-1]
    return learned, example.reply is not None


@functools.cache
def _token_weights() -> tuple[float, ...]:
    """Weight of each token as text to write, by its id."""
    words = {*MONTHS, *STEP_WORDS, *(verb for those in VERBS.values() for verb in those)}

    def weight(text: str) -> float:
        word = text.strip()
        return TASK_WEIGHT if (text.startswith(" ") and word.isdigit()) or word in words else 1.0

    return tuple(weight(text) for text in vocabulary())


def _tells_total(step: NDArray[np.int64], first: int, last: int) -> NDArray[np.bool_]:
    """Which tokens of a step come at or after its total is said: all numbers from there on are the same."""
    import numpy as np

    numbers = np.flatnonzero((step >= first) & (step <= last))
    others = numbers[step[numbers] != step[numbers[-1]]] if len(numbers) else numbers
    start = numbers[len(others)] if len(numbers) else len(step)
    told: NDArray[np.bool_] = np.arange(len(step)) >= start
    return told


def _learned(example: Example, targets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which targets are learned where not all are."""
    import numpy as np

    ids = vocabulary()
    bounds = ids[" 0"], ids[f" {LAST_NUMBER}"], ids[STEP_SEPARATOR]
    numbers = _numbers(targets, *bounds, at=0 if example.learned == "first moves" else -1)
    if example.learned == "totals":
        return numbers
    verbs: NDArray[np.bool_] = np.isin(targets, [ids[f" {verb}"] for those in VERBS.values() for verb in those])
    return verbs | numbers


def _numbers(targets: NDArray[np.int64], first: int, last: int, separator: int, *, at: int) -> NDArray[np.bool_]:
    """Which targets are the first (`at` = 0) or the last (-1) number of a step other than the first step."""
    import numpy as np

    segment = np.cumsum(targets == separator)
    where = np.flatnonzero((targets >= first) & (targets <= last))
    ends = np.diff(segment[where], prepend=-1) > 0 if at == 0 else np.diff(segment[where], append=segment[-1] + 1) > 0
    chosen = np.zeros(targets.shape, np.bool_)
    chosen[where[ends]] = True
    return chosen & (segment > 0)


def _visible(owner: NDArray[np.int64], seen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Who attends to whom: the own past of the same branch, and the main text up to where the branch leaves it."""
    import numpy as np

    column = np.arange(owner.shape[1])
    own = (owner[:, :, None] == owner[:, None, :]) & (column[:, None] >= column)
    main = (owner[:, None, :] == 0) & (column <= seen[:, :, None])
    visible: NDArray[np.bool_] = own | main
    return visible
