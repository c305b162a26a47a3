"""Passes captured as CUDA graphs, by shape: a replay starts all kernels of a pass at once.

Started one by one, the kernels of a pass through 36 layers take the CPU 12 ms, whatever the model; a GPU reads the
weights of an 8B model in 5 ms. A graph has fixed shapes and addresses, so a pass is padded to one of a grid of shapes:
of sequences, of tokens of each, and of columns that attention reads. All shapes of the grid are captured when the
engine starts, so that none costs more when it is first needed. On a CPU the same padded passes are plain calls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from calibrate.engines.sampling import sent

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["CapturedPasses", "PassShape", "Runs", "columns_up_to", "padded_columns"]

MULTIPLE: Final = 64
"""Columns are a multiple of this: kernels of attention need aligned rows of masks."""
_TOKENS: Final = (1, 2, 4, 8, 16)
"""Tokens of each sequence in a captured pass."""
_TOKENS_OF_ONE: Final = (*_TOKENS, 32, 64, 128, 256, 512)
"""Tokens in a captured pass of one sequence: prompts are read by such."""


def padded_columns(columns: int, most: int) -> int:
    """Return the multiple of 64 that ``columns`` fit into, but at most ``most``."""
    return min(-(-columns // MULTIPLE) * MULTIPLE, most)


def columns_up_to(most: int) -> tuple[int, ...]:
    """Return the numbers of columns of captured passes, each at most 1.5 times the one before from 128 on.

    >>> columns_up_to(800)
    (64, 128, 192, 256, 384, 512, 768, 800)
    """
    steps = [MULTIPLE]
    while steps[-1] < most:
        power = 1 << (steps[-1].bit_length() - 1)
        steps.append(power * 3 // 2 if steps[-1] == power and power > MULTIPLE else 2 * power)
    return (*steps[:-1], most)


@dataclass(frozen=True, slots=True)
class PassShape:
    """Shape of a captured pass."""

    batch: int
    """Sequences, in rows 0, 1, ... of the cache."""
    tokens: int
    """New tokens of each sequence."""
    columns: int
    anywhere: bool
    """Whether the pass is of one sequence in any row of the cache, of which its keys and values are copied."""


Runs: TypeAlias = "Callable[[Tensor, Tensor, Tensor, Tensor | None, int, Tensor | None], Tensor]"
"""A forward pass without choices that depend on data; `Decoder.forward_at` on a cache has the parameters."""


@dataclass(slots=True)
class _Capture:
    """The input of a pass at fixed addresses, and the function that runs it on them."""

    numbers: Tensor
    """Ids, positions and slots, (3, B, m)."""
    row: Tensor | None
    features: Tensor | None
    run: Callable[[], Tensor]


class CapturedPasses:
    """Padded passes of a model on one cache.

    Parameters
    ----------
    captured : whether passes are graphs; else plain calls.
    max_batch : most sequences of a pass.
    max_columns : slots of a sequence in the cache; the last one is written by sequences that pad a pass.
    features : size of the further inputs of each token; 0: none.
    dtype : of these inputs.

    Attributes
    ----------
    known : the passes that are captured.
    """

    def __init__(
        self,
        run: Runs,
        device: torch.device,
        *,
        captured: bool,
        max_batch: int,
        max_columns: int,
        features: int,
        dtype: torch.dtype,
    ) -> None:
        self._run = run
        self._device = device
        self._captured = captured
        self._batches = tuple(sorted({min(1 << n, max_batch) for n in range(max_batch.bit_length() + 1)}))
        self._columns = columns_up_to(max_columns)
        self._features = features
        self._dtype = dtype
        self.known: dict[PassShape, _Capture] = {}
        self._pool: Any = None

    def grid(self) -> Iterator[PassShape]:
        """Yield the shapes that passes are padded to."""
        for columns in self._columns:
            for batch in self._batches:
                yield from (PassShape(batch, tokens, columns, False) for tokens in _TOKENS)
            yield from (PassShape(1, tokens, columns, True) for tokens in _TOKENS_OF_ONE)

    def warm(self) -> None:
        """Capture all shapes of the grid; their memory is shared."""
        for shape in self.grid():
            self._capture(shape)

    def shape(self, first_row: int, batch: int, tokens: int, columns: int) -> PassShape | None:
        """Return the shape of the grid for a pass; None: it is larger than all of them."""
        anywhere = batch == 1 and (first_row > 0 or tokens > _TOKENS[-1])
        sizes = _TOKENS_OF_ONE if anywhere else _TOKENS
        if (first_row > 0 and not anywhere) or tokens > sizes[-1] or batch > self._batches[-1]:
            return None
        batches, columns_of = self._batches, self._columns
        return PassShape(
            batches[bisect_left(batches, batch)],
            sizes[bisect_left(sizes, tokens)],
            columns_of[bisect_left(columns_of, columns)],
            anywhere,
        )

    def hidden(
        self,
        shape: PassShape,
        first_row: int,
        numbers: Sequence[Sequence[Sequence[int]]],
        features: Tensor | None,
    ) -> Tensor:
        """Run a pass; return its final hidden states (B, m, size), which the next pass overwrites.

        Parameters
        ----------
        shape : of `shape`.
        first_row : row of the first sequence in the cache.
        numbers : ids, positions and slots of the tokens, each (sequences, tokens), tokens as many as the shape has.
        features : further inputs, (sequences, tokens, size).
        """
        import torch

        capture = self.known.get(shape) or self._capture(shape)
        ids, positions, slots = (list(rows) for rows in numbers)
        missing = shape.batch - len(ids)
        last = self._columns[-1] - 1  # beyond the tokens of every sequence
        ids += [[0] * shape.tokens] * missing
        positions += [[0] * shape.tokens] * missing
        slots += [[last] * shape.tokens] * missing
        capture.numbers.copy_(sent((ids, positions, slots), torch.int64, self._device))
        if capture.row is not None:
            capture.row.fill_(first_row)
        if capture.features is not None:
            assert features is not None
            capture.features[: len(features)] = features
        return capture.run()

    def _capture(self, shape: PassShape) -> _Capture:
        import torch

        numbers = torch.zeros(3, shape.batch, shape.tokens, dtype=torch.int64, device=self._device)
        numbers[2] = self._columns[-1] - 1
        row = torch.zeros(1, dtype=torch.int64, device=self._device) if shape.anywhere else None
        sizes = (shape.batch, shape.tokens, self._features)
        features = torch.zeros(sizes, dtype=self._dtype, device=self._device) if self._features else None

        def run() -> Tensor:
            return self._run(numbers[0], numbers[1], numbers[2], row, shape.columns, features)

        capture = _Capture(numbers, row, features, self._graph(run) if self._captured else run)
        self.known[shape] = capture
        return capture

    def _graph(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Capture a pass after running it once, which loads its kernels and allocates what libraries keep."""
        import torch

        with torch.inference_mode():
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                run()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            if self._pool is None:
                self._pool = torch.cuda.graph_pool_handle()
            with torch.cuda.graph(graph, pool=self._pool):
                hidden = run()

        def replay() -> Tensor:
            graph.replay()
            return hidden

        return replay
