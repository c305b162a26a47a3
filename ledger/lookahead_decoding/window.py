"""Claims of Lookahead Decoding about Equations 1 to 3, the system of Jacobi, and its window and pool."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from ledger.ledger import Claim, Evidence
from ledger.lookahead_decoding.exact import Gram, greedy_models, greedy_run, jacobi_iterations
from ledger.lookahead_decoding.forms import step_tokens
from ledger.proving.cases import Cases, grid, walked
from ledger.proving.deferred import sp
from ledger.proving.records import proved, refuted, verified
from ledger.proving.tools import identity

__all__ = ["CLAIMS"]

_TOKENS = 3
"""Positions of the exhaustive runs, on two tokens: 128 greedy targets."""
_REACH = "outputs of three tokens of two letters"
_TARGETS = tuple(greedy_models(_TOKENS))
_SEQUENCES = tuple(itertools.product((0, 1), repeat=_TOKENS))
_EVERY_DRAFT = grid(target=range(len(_TARGETS)), draft=_SEQUENCES)


def _system(most_context: int = _TOKENS) -> Cases:
    """Sequences that solve Equation 3; each equation sees the last `most_context` tokens before its own."""

    def one_solution(target: int) -> bool:
        choose = _TARGETS[target]
        solutions = [
            y for y in _SEQUENCES if all(y[i] == choose(y[:i][max(0, i - most_context) :]) for i in range(_TOKENS))
        ]
        return solutions == [greedy_run(choose, _TOKENS)]

    what = "the system has one solution, the greedy output"
    return Cases(text=what, test=one_solution, cases=grid(target=range(len(_TARGETS))), where=_REACH, partial=True)


def _accepted(target: int, draft: Gram, *, correct: bool) -> Gram:
    """Draft tokens that match the answers of Equation 2; with the answer at the first mismatch (`correct`)."""
    choose = _TARGETS[target]
    out: Gram = ()
    for token in draft:
        answer = choose(out)
        if answer != token:
            return (*out, answer) if correct else out
        out = (*out, token)
    return out


def _prefix(shift: int = 0) -> Cases:
    """Accepted tokens begin the greedy output, for drafts of three tokens; a mutant compares `shift` positions on."""

    def begins(target: int, draft: Gram) -> bool:
        out = _accepted(target, draft, correct=False)
        return out[: len(out) - shift] == greedy_run(_TARGETS[target], _TOKENS)[shift : len(out)]

    what = "accepted tokens begin the greedy output"
    return Cases(text=what, test=begins, cases=_EVERY_DRAFT, where=_REACH, partial=True)


def _advances(target: int, draft: Gram) -> bool:
    """With the answer at the first mismatch a step adds greedy tokens, at least one."""
    out = _accepted(target, draft, correct=True)
    return len(out) > 0 and out == greedy_run(_TARGETS[target], len(out))


_PROGRESS = Cases(
    text="a step adds at least one token (the target's next token is 0)",
    test=lambda draft: bool(_accepted(0, (draft,), correct=False)),
    cases=grid(draft=(0, 1)),
    where="a target that answers 0 first, drafts of one token",
    explain=lambda draft: "no token matches, and none is added; a draft of the same token again never ends",
)
_ANSWER_TOO = Cases(
    text="with the answer at the first mismatch each step advances",
    test=_advances,
    cases=_EVERY_DRAFT,
    where=_REACH,
    partial=True,
)


def _jacobi(spare: int = 0) -> Cases:
    """All 128 greedy targets and all 8 first guesses of 3 tokens."""

    def reaches(target: int, guess: tuple[int, ...]) -> bool:
        updates, out = jacobi_iterations(_TARGETS[target], guess)
        return updates <= _TOKENS - spare and out == greedy_run(_TARGETS[target], _TOKENS)

    return Cases(
        text=f"greedy decoding of 3 tokens within {_TOKENS - spare} updates",
        test=reaches,
        cases=grid(target=range(len(_TARGETS)), guess=_SEQUENCES),
        where="m = 3 tokens of two letters",
        partial=True,
    )


def _context(step: int, column: int, size: int) -> list[tuple[Any, ...]]:
    """What line 13 of Algorithm 1 conditions a new window token on, oldest first: (kind, row, column)."""
    oldest = [("w", step + 1 - size, c) for c in range(2, column + 1)]
    own = [("w", row, column) for row in range(step + 2 - size, step)]
    return [("o", step - 1), *oldest, *own]


def _one_trajectory(N: int, i: int, j: int, *, first: bool = False) -> bool:  # noqa: N803
    """Whether the n-gram pooled from column j at iteration i ends in a token generated right after those before it."""
    gram: list[tuple[Any, ...]] = [("w", row, j) for row in range(i + 1 - N, i + 1)]
    if first and j == 1:
        gram[0] = ("o", i - 1)
    return _context(i, j, N)[-(N - 1) :] == gram[:-1]


def _trajectory(*, first: bool = False) -> Cases:
    """As printed; with the current token as its first token (`first`)."""
    return Cases(
        text="each pooled n-gram is a piece of one trajectory",
        test=partial(_one_trajectory, first=first),
        cases=grid(N=(2, 3, 4, 5), i=(1,), j=(2, 1)),
        where="N <= 5, columns 1 and 2 of the first iteration",
        explain=lambda **_: "column 1 was generated after the current token, but the n-gram holds an old guess there",
    )


_TRAJECTORY_FIXED = Cases(
    text="with the current token as its first token, column 1 fits too",
    test=partial(_one_trajectory, first=True),
    cases=grid(N=range(2, 9), i=(1, 5), j=range(1, 9)),
    where="N <= 8, columns 1 to 8",
    partial=True,
)


def _progress(sizes: tuple[int, ...]) -> list[tuple[int, int, bool]]:
    """Iterations of Algorithm 1 for given numbers of emitted tokens: (i, size of o before, skipped)."""
    size, draws, trace = 1, iter(sizes), []
    for i in range(1, len(sizes) + 1):
        skipped = size >= i + 1
        trace.append((i, size, skipped))
        size += 0 if skipped else next(draws)
    return trace


def _in_step(lag: int = 0) -> Cases:
    """All sequences of emitted counts 1 to 3 over six iterations: a step that runs starts with size(o) = i."""
    return Cases(
        text="at an iteration i that is not skipped, o holds o_0 to o_(i-1), so o_(i-1) is the current token",
        test=lambda emitted: all(skipped or size == i - lag for i, size, skipped in _progress(emitted)),
        cases=grid(emitted=itertools.product((1, 2, 3), repeat=6)),
        where="six iterations of 1 to 3 tokens",
        partial=True,
    )


def _index(last: int = 0, highest: int = 2) -> Cases:
    """Lines 14 and 22 read o_1 to o_i (`last` = 0); the highest index that exists at iteration i is i - 1."""
    name = f"o_(i{last:+d})" if last else "o_i"
    return Cases(
        text=f"o_1 to {name} exist at iteration i",
        test=lambda i: all(1 <= index <= i - 1 for index in range(1, i + last + 1)),
        cases=grid(i=range(1, highest + 1)),
        where=f"i <= {highest}",
        partial=True,
        explain=lambda i: f"o holds o_0 to o_{i - 1} then",
    )


def _inputs(window: int, size: int, guesses: int) -> int:
    """Distinct input tokens of one step: the contexts of all columns, and N - 1 tokens per n-gram."""
    seen = {token for column in range(1, window + 1) for token in _context(0, column, size)}
    return len(seen) + guesses * (size - 1)


def _step_tokens(form: Callable[[Any, Any, Any], Any] = lambda w, n, g: (w + g) * (n - 1)) -> Cases:
    """Count from line 13 against a form of W, N and G."""
    return Cases(
        text="distinct input tokens of a step, the current token included",
        test=lambda W, N, G: _inputs(W, N, G) == form(W, N, G),  # noqa: N803
        cases=grid(W=range(1, 9), N=range(2, 8), G=range(5)),
        where="W <= 8, N <= 7, G <= 4",
    )


_STEP_TOKENS = _step_tokens()


def _verify_tokens(counted: Cases = _STEP_TOKENS) -> Evidence:
    """The count, and beyond it the general sum 1 + (W - 1) + W (N - 2) + G (N - 1)."""
    w, n, g = sp.symbols("W N G", positive=True)
    total = 1 + (w - 1) + w * (n - 2) + g * (n - 1)
    return walked(counted, tail=identity(total - step_tokens(w, n, g), "1 + (W - 1) + W (N - 2) + G (N - 1) tokens"))


def _columns(shared_rows: int = 1) -> Cases:
    def apart(N: int, left: int, right: int) -> bool:  # noqa: N803
        if left >= right:
            return True
        shared = set(_context(0, left, N)) & set(_context(0, right, N))
        return all(token[0] == "o" or token[1] < 1 - N + shared_rows for token in shared)

    return Cases(
        text="columns of the window meet only in the current token and the oldest row",
        test=apart,
        cases=grid(N=range(2, 8), left=range(1, 9), right=range(1, 9)),
        where="N <= 7, columns 1 to 8",
        partial=True,
    )


CLAIMS: tuple[Claim, ...] = (
    verified("LD-E1", _system(), mutants={"one token": _system(1)}),
    verified("LD-E2", _prefix(), mutants={"shifted": _prefix(1)}),
    refuted("LD-E2-progress", _PROGRESS, instead=_ANSWER_TOO),
    verified("LD-A2", _jacobi(), mutants={"m - 1": _jacobi(spare=1)}),
    verified("LD-A1-progress", _in_step(), mutants={"one behind": _in_step(lag=1)}),
    refuted("LD-A1-index", _index(), instead=_index(last=-1, highest=19), mutants={"shorter": _index(last=-1)}),
    refuted(
        "LD-A1-ngram",
        _trajectory(),
        instead=_TRAJECTORY_FIXED,
        mutants={"current token first": _trajectory(first=True)},
    ),
    proved(
        "LD-TOKENS",
        _STEP_TOKENS,
        verify=_verify_tokens,
        mutants={
            "N": partial(_verify_tokens, _step_tokens(lambda w, n, g: (w + g) * n)),
            "current token apart": partial(_verify_tokens, _step_tokens(lambda w, n, g: (w + g) * (n - 1) + 1)),
        },
    ),
    verified("LD-LP", _columns(), mutants={"nothing shared": _columns(0)}),
)
