"""Claims of Lookahead Decoding about Equations 1 to 3: greedy decoding, guess and verify, the system of Jacobi."""

from __future__ import annotations

import itertools
from functools import partial

from ledger.ledger import Claim
from ledger.lookahead_decoding.exact import Gram, greedy_models, greedy_run
from ledger.proving.cases import Cases, grid, searched
from ledger.proving.records import corrected, verified

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


_SYSTEM, _PREFIX = _system(), _prefix()
_PROGRESS = Cases(
    text="a step adds at least one token (the target's next token is 0)",
    test=lambda draft: bool(_accepted(0, (draft,), correct=False)),
    cases=grid(draft=(0, 1)),
    where="a target that answers 0 first, drafts of one token",
)
_ANSWER_TOO = Cases(
    text="with the answer at the first mismatch each step advances",
    test=_advances,
    cases=_EVERY_DRAFT,
    where=_REACH,
    partial=True,
)


CLAIMS: tuple[Claim, ...] = (
    verified("LD-E1", formula=_SYSTEM, mutants={"one token": _system(1)}),
    verified("LD-E2", formula=_PREFIX, mutants={"shifted": _prefix(1)}),
    corrected(
        "LD-E2-progress",
        formula=_PROGRESS,
        verify=partial(
            searched,
            _PROGRESS,
            explain=lambda draft: "no token matches, and none is added; a draft of the same token again never ends",
        ),
        correction_formula=_ANSWER_TOO,
        holds={"answer too": _ANSWER_TOO},
    ),
)
