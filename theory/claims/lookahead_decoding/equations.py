"""Claims of Lookahead Decoding about Equations 1 to 3: greedy decoding, guess and verify, the system of Jacobi."""

from __future__ import annotations

import itertools

from theory.claims.ledger import Claim, Evidence
from theory.claims.lookahead_decoding.exact import Gram, greedy_models, greedy_run
from theory.claims.proving.records import corrected, mutant, verified
from theory.claims.proving.tools import exhaustive, refute

__all__ = ["CLAIMS"]

_TOKENS = 3
"""Positions of the exhaustive runs, on two tokens: 128 greedy targets."""
_REACH = "outputs of three tokens of two letters"


def _verify_system(most_context: int = _TOKENS) -> Evidence:
    """Sequences that solve Equation 3; each equation sees the last `most_context` tokens before its own."""
    targets = list(greedy_models(_TOKENS))
    sequences = list(itertools.product((0, 1), repeat=_TOKENS))

    def holds(target: int) -> bool:
        choose = targets[target]
        solutions = [
            y for y in sequences if all(y[i] == choose(y[:i][max(0, i - most_context) :]) for i in range(_TOKENS))
        ]
        return solutions == [greedy_run(choose, _TOKENS)]

    what = "the system has one solution, the greedy output"
    return exhaustive(holds, {"target": range(len(targets))}, what=what, reach=_REACH)


def _accepted(target: int, draft: Gram, *, correct: bool) -> Gram:
    """Draft tokens that match the answers of Equation 2; with the answer at the first mismatch (`correct`)."""
    choose = list(greedy_models(_TOKENS))[target]
    out: Gram = ()
    for token in draft:
        answer = choose(out)
        if answer != token:
            return (*out, answer) if correct else out
        out = (*out, token)
    return out


def _verify_prefix(shift: int = 0) -> Evidence:
    """Accepted tokens begin the greedy output, for drafts of three tokens; a mutant compares `shift` positions on."""
    drafts = list(itertools.product((0, 1), repeat=_TOKENS))
    targets = list(greedy_models(_TOKENS))

    def holds(target: int, draft: int) -> bool:
        out = _accepted(target, drafts[draft], correct=False)
        return out[: len(out) - shift] == greedy_run(targets[target], _TOKENS)[shift : len(out)]

    ranges = {"target": range(len(targets)), "draft": range(len(drafts))}
    return exhaustive(holds, ranges, what="accepted tokens begin the greedy output", reach=_REACH)


def _verify_progress(*, correct: bool = False) -> Evidence:
    """Every target that answers token 0 first against every draft of one token."""
    return refute(
        lambda draft: bool(_accepted(0, (int(draft),), correct=correct)),
        [{"draft": 0}, {"draft": 1}],
        what="a step adds at least one token (the target's next token is 0)",
        explain=lambda draft: "no token matches, and none is added; a draft of the same token again never ends",
    )


def _fix_progress() -> Evidence:
    drafts = list(itertools.product((0, 1), repeat=_TOKENS))
    targets = list(greedy_models(_TOKENS))

    def holds(target: int, draft: int) -> bool:
        out = _accepted(target, drafts[draft], correct=True)
        return len(out) > 0 and out == greedy_run(targets[target], len(out))

    ranges = {"target": range(len(targets)), "draft": range(len(drafts))}
    return exhaustive(holds, ranges, what="with the answer at the first mismatch each step advances", reach=_REACH)


CLAIMS: tuple[Claim, ...] = (
    verified(
        id="LD-E1",
        source="Lookahead Decoding, Equations 1 and 3, section 2",
        statement="The equations f(y_i, y_1..y_(i-1), x) = 0 have one common solution, the greedy output.",
        assumptions="greedy target with one largest probability in every context",
        reach=_REACH,
        verify=_verify_system,
        mutants=(mutant("one token", "each equation sees one token of context", _verify_system, 1),),
        notes="In general by induction: y_1 is fixed by the prompt, y_i by the tokens before it.",
    ),
    verified(
        id="LD-E2",
        source="Lookahead Decoding, Equation 2, section 2",
        statement="Draft tokens that match the answers of Equation 2, up to the first that does not, begin the greedy "
        "output.",
        assumptions="greedy target",
        reach=_REACH,
        verify=_verify_prefix,
        mutants=(mutant("shifted", "each compared with the next answer", _verify_prefix, 1),),
    ),
    corrected(
        id="LD-E2-progress",
        source="Lookahead Decoding, guess and verify after Equation 2, section 2",
        statement="A step that adds the matching draft tokens, and no other, decodes the sequence.",
        assumptions="greedy target, any draft; read as: every step adds a token",
        verify=_verify_progress,
        correction="The answer of the target at the first mismatch must be added as well (Algorithm 3 does so); then "
        "every step adds at least one greedy token.",
        holds=mutant("answer too", "with the answer at the first mismatch", _fix_progress),
        notes="Equation 2 prints n + 1 answers, so the answer is at hand.",
    ),
)
