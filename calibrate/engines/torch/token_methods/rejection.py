"""Speculative rejection sampling: verified tokens have exactly the target's distribution p, drafted ones q.

Leviathan, Kalman, Matias 2023 (arXiv:2211.17192), Algorithm 1: a token x drafted from q is accepted with probability
min(1, p(x) / q(x)); the first rejected one is drawn again from max(p - q, 0), normalised; after a draft that is
accepted to its end another token is drawn from p.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from calibrate.engines.sampling import invert
from calibrate.engines.sending import picked, sent

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["verify_drafts"]


def verify_drafts(
    target: Tensor,
    draft: Tensor,
    drafts: Sequence[Sequence[int]],
    tests: Sequence[Sequence[float]],
    resamples: Sequence[Sequence[float]],
) -> list[list[int]]:
    """Return the next tokens of each of several sequences, at least one each.

    Parameters
    ----------
    target : weights of the target's distribution after each token, float64, (rows, V), need not sum to 1; a sequence
        with n drafted tokens has n + 1 rows, one sequence after the other.
    draft : weights that each drafted token was drawn from, (drafted tokens, V), need not sum to 1.
    drafts : the drafted tokens of each sequence, possibly none.
    tests : uniform numbers for acceptance, one for each drafted token.
    resamples : uniform numbers for the token after the accepted ones, one for each row.
    """
    import torch

    p = target / target.sum(-1, keepdim=True)
    q = draft / draft.sum(-1, keepdim=True)
    first_rows = [0, *accumulate(len(tokens) + 1 for tokens in drafts)]
    first_drafts = [0, *accumulate(map(len, drafts))]
    flat = [token for tokens in drafts for token in tokens]
    rows = [first_rows[i] + j for i, tokens in enumerate(drafts) for j in range(len(tokens))]
    at = sent([flat, rows, range(len(flat))], torch.int64, p.device)
    p_drafted, q_drafted = torch.stack((p[at[1], at[0]], q[at[2], at[0]])).tolist()
    accepted = []
    for tokens, first, tested in zip(drafts, first_drafts, tests, strict=False):
        n = 0
        while n < len(tokens) and tested[n] * q_drafted[first + n] < p_drafted[first + n]:
            n += 1
        accepted.append(n)
    final = picked(p, [first + n for first, n in zip(first_rows, accepted, strict=False)])
    rejected = [i for i, (n, tokens) in enumerate(zip(accepted, drafts, strict=True)) if n < len(tokens)]
    if rejected:
        theirs = picked(final, rejected)
        rest = (theirs - picked(q, [first_drafts[i] + accepted[i] for i in rejected])).clamp_(min=0.0)
        # p = q up to rounding leaves no rest: then draw from p
        rest = rest.where(rest.sum(-1, keepdim=True) > 0.0, theirs)
        final = final.index_copy(0, sent(rejected, torch.int64, p.device), rest)
    last = invert(final, [uniforms[n] for uniforms, n in zip(resamples, accepted, strict=True)])
    return [[*tokens[:n], token] for tokens, n, token in zip(drafts, accepted, last, strict=True)]
