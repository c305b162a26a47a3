"""Claims of Lookahead Decoding about Algorithms 1 and 2: the window, its indices, tokens per step, parallel columns."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from theory.claims.ledger import Claim, Evidence, statement
from theory.claims.lookahead_decoding.exact import greedy_models, greedy_run, jacobi_iterations
from theory.claims.proving.records import mutant, proved, refuted, verified
from theory.claims.proving.tools import all_of, exhaustive, identity, refute

__all__ = ["CLAIMS"]

_SIZE = 3
"""Tokens of the exhaustive Jacobi runs."""


def _verify_jacobi(spare: int = 0) -> Evidence:
    """All 128 greedy targets and all 8 first guesses of 3 tokens."""
    targets, guesses = list(greedy_models(_SIZE)), list(itertools.product((0, 1), repeat=_SIZE))

    def holds(target: int, guess: int) -> bool:
        updates, out = jacobi_iterations(targets[target], guesses[guess])
        return updates <= _SIZE - spare and out == greedy_run(targets[target], _SIZE)

    ranges = {"target": range(len(targets)), "guess": range(len(guesses))}
    return exhaustive(holds, ranges, what=f"greedy decoding of 3 tokens within {_SIZE - spare} updates", reach="m = 3")


def _context(step: int, column: int, size: int) -> list[tuple[Any, ...]]:
    """What line 13 of Algorithm 1 conditions a new window token on, oldest first: (kind, row, column)."""
    oldest = [("w", step + 1 - size, c) for c in range(2, column + 1)]
    own = [("w", row, column) for row in range(step + 2 - size, step)]
    return [("o", step - 1), *oldest, *own]


def _trajectory(first: bool) -> Callable[[Fraction, Fraction, Fraction], bool]:
    """Whether the pooled n-gram of a column ends in a token generated right after the N - 1 tokens before it."""

    def holds(N: Fraction, i: Fraction, j: Fraction) -> bool:  # noqa: N803
        size, step, column = int(N), int(i), int(j)
        gram: list[tuple[Any, ...]] = [("w", row, column) for row in range(step + 1 - size, step + 1)]
        if first and column == 1:
            gram[0] = ("o", step - 1)
        return _context(step, column, size)[-(size - 1) :] == gram[:-1]

    return holds


def _verify_trajectory(first: bool = False) -> Evidence:
    points = [{"N": n, "i": 1, "j": j} for n in (2, 3, 4, 5) for j in (2, 1)]
    return refute(
        _trajectory(first),
        points,
        what="each pooled n-gram is a piece of one trajectory",
        explain=lambda **_point: (
            "column 1 was generated after the current token, but the n-gram holds an old guess there"
        ),
    )


def _verify_trajectory_fixed() -> Evidence:
    holds = _trajectory(first=True)
    ranges = {"N": range(2, 9), "i": (1, 5), "j": range(1, 9)}
    return exhaustive(
        lambda N, i, j: holds(Fraction(N), Fraction(i), Fraction(j)),  # noqa: N803
        ranges,
        what="with the current token as its first token, column 1 fits too",
        reach="N <= 8, columns 1 to 8",
    )


def _progress(sizes: tuple[int, ...]) -> list[tuple[int, int, bool]]:
    """Iterations of Algorithm 1 for given numbers of emitted tokens: (i, size of o before, skipped)."""
    size, draws, trace = 1, iter(sizes), []
    for i in range(1, len(sizes) + 1):
        skipped = size >= i + 1
        trace.append((i, size, skipped))
        size += 0 if skipped else next(draws)
    return trace


def _verify_progress(lag: int = 0) -> Evidence:
    """All sequences of emitted counts 1 to 3 over six iterations: a step that runs starts with size(o) = i."""

    def holds(code: int) -> bool:
        counts = tuple(1 + code // 3**k % 3 for k in range(6))
        return all(skipped or size == i - lag for i, size, skipped in _progress(counts))

    what = "at an iteration i that is not skipped, o holds o_0 to o_(i-1), so o_(i-1) is the current token"
    return exhaustive(holds, {"code": range(3**6)}, what=what, reach="six iterations")


def _verify_index(last: int = 0) -> Evidence:
    """Lines 14 and 22 read o_1 to o_i (`last` = 0); the highest index that exists at iteration i is i - 1."""
    return refute(
        lambda i: all(1 <= index <= int(i) - 1 for index in range(1, int(i) + last + 1)),
        [{"i": 1}, {"i": 2}],
        what=f"o_1 to o_(i{last:+d}) exist at iteration i" if last else "o_1 to o_i exist at iteration i",
        explain=lambda i: f"o holds o_0 to o_{i - 1} then",
    )


def _inputs(window: int, size: int, guesses: int) -> int:
    """Distinct input tokens of one step: the contexts of all columns, and N - 1 tokens per n-gram."""
    seen = {token for column in range(1, window + 1) for token in _context(0, column, size)}
    return len(seen) + guesses * (size - 1)


def _verify_tokens(printed: Callable[[Any, Any, Any], Any] | None = None) -> Evidence:
    """Count from line 13, and the general sum 1 + (W - 1) + W (N - 2) + G (N - 1)."""
    from theory.claims.lookahead_decoding.statements import G, N, W, step_tokens

    form = printed or (lambda w, n, g: (w + g) * (n - 1))
    difference = 1 + (W - 1) + W * (N - 2) + G * (N - 1) - form(W, N, G)
    return all_of(
        lambda: exhaustive(
            lambda W, N, G: _inputs(W, N, G) == form(W, N, G),  # noqa: N803
            {"W": range(1, 9), "N": range(2, 8), "G": range(5)},
            what="distinct input tokens of a step, the current token included",
        ),
        identity(difference, "1 + (W - 1) + W (N - 2) + G (N - 1) tokens"),
        identity(form(W, N, G) - step_tokens(), "this form is the ledger's statement"),
    )


def _verify_parallel(shared_rows: int = 1) -> Evidence:
    """Two columns share the current token and window tokens of the oldest row only."""

    def holds(N: int, left: int, right: int) -> bool:  # noqa: N803
        if left >= right:
            return True
        shared = set(_context(0, left, N)) & set(_context(0, right, N))
        return all(token[0] == "o" or token[1] < 1 - N + shared_rows for token in shared)

    ranges = {"N": range(2, 8), "left": range(1, 9), "right": range(1, 9)}
    what = "columns of the window meet only in the current token and the oldest row"
    return exhaustive(holds, ranges, what=what, reach="N <= 7 and columns 1 to 8")


CLAIMS: tuple[Claim, ...] = (
    verified(
        id="LD-A2",
        source="Lookahead Decoding, section 2 and Algorithm 2",
        statement="Jacobi decoding reaches the greedy output of m tokens in at most m updates from any first guess.",
        assumptions="greedy target, exact arithmetic",
        reach="m = 3 tokens of two letters",
        verify=_verify_jacobi,
        mutants=(mutant("m - 1", "at most m - 1 updates", _verify_jacobi, spare=1),),
        notes="Exhaustive for m = 3 on two tokens; in general the first t tokens are right after t updates, since "
        "token t + 1 depends on the first t only.",
    ),
    verified(
        id="LD-A1-progress",
        source="Lookahead Decoding, Algorithm 1, lines 5 to 10 and 20",
        statement="An iteration i that is not skipped starts with exactly i entries of o, so o_(i-1) is the current "
        "token.",
        assumptions="each verification emits at least one token",
        reach="six iterations of 1 to 3 tokens",
        verify=_verify_progress,
        mutants=(mutant("one behind", "i - 1 entries", _verify_progress, lag=1),),
        notes="size(o) >= i + 1 after iteration i, by induction; so o_1 to o_m exist at the end.",
    ),
    refuted(
        id="LD-A1-index",
        source="Lookahead Decoding, Algorithm 1, lines 14 and 22",
        statement="The context of iteration i is o_1 to o_i.",
        assumptions="o_0 is the last prompt token, as in line 5",
        verify=_verify_index,
        correction="The context is o_1 to o_(i-1) after the prompt (which already contains o_0): o_i is what the "
        "iteration is to find.",
        correction_verify=lambda: exhaustive(
            lambda i: all(0 <= index <= i - 1 for index in range(1, i)),
            {"i": range(1, 20)},
            what="o_1 to o_(i-1) exist",
            reach="i < 20",
        ),
        mutants=(mutant("shorter", "o_1 to o_(i-1)", _verify_index, last=-1),),
        notes="Line 20 has a second slip of the same kind: it assigns g^i where the loop variable is j.",
    ),
    refuted(
        id="LD-A1-ngram",
        source="Lookahead Decoding, Algorithm 1, lines 13 and 26",
        statement="Each n-gram put into the pool is a piece of one trajectory: its last token was generated after its "
        "first N - 1.",
        assumptions="N >= 2, every column j of the window",
        verify=_verify_trajectory,
        correction="True for j >= 2. Column 1 was generated after the current token, so its n-gram must start with "
        "o_(i-1), not with the old guess w_1^(i+1-N).",
        correction_verify=_verify_trajectory_fixed,
        mutants=(mutant("current token first", "column 1 starts with o_(i-1)", _verify_trajectory, True),),
        notes="Costs acceptance, not correctness: Theorem A holds for any n-grams.",
    ),
    proved(
        id="LD-TOKENS",
        source="Lookahead Decoding, section 4.2 and section 5.5",
        statement="A decoding step feeds (W + G) (N - 1) tokens to the model.",
        expression=statement("lookahead_decoding", "step_tokens"),
        assumptions="N >= 2, W >= 1, all G guesses found; tokens as in line 13 of Algorithm 1",
        verify=_verify_tokens,
        mutants=(
            mutant("N", "(W + G) N", _verify_tokens, lambda w, n, g: (w + g) * n),
            mutant("current token apart", "one token more", _verify_tokens, lambda w, n, g: (w + g) * (n - 1) + 1),
        ),
        notes="Exact, not only roughly: the current token takes the place of the first window token. Fig. 2 (W = 5, N "
        "= 4, G = 2): 21.",
    ),
    verified(
        id="LD-LP",
        source="Lookahead Decoding, section 3.4",
        statement="Columns of the window can run on different devices without communication if the current token and "
        "the oldest row are computed on each.",
        assumptions="contexts as in line 13 of Algorithm 1",
        reach="N <= 7, columns 1 to 8",
        verify=_verify_parallel,
        mutants=(mutant("nothing shared", "columns share no window token", _verify_parallel, 0),),
        notes="The device of column W holds all W tokens of that row, so work per device never falls below W: with G = "
        "W at most a factor 2 (N - 1) is gained, however many devices there are.",
    ),
)
