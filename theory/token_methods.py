r"""Closed forms of token-level speculation: tokens per target pass, and what they bring.

A pass over k2 positions commits the drafted tokens up to the first wrong one, and one token of the target's own:
between 1 and k2 tokens (tau). Two countings of acceptance per position are in use and never mixed here:

- *conditional*: P(position i is right | those before it in the pass are), one factor per position;
- *unconditional*: P(positions 1 to i are all right), what engines count; the running product of the others.

A pass without a draft counts as one whose first position is wrong. Costs are in plain passes: ``pass_cost`` is the
time of a pass over k2 positions / over one, ``draft_cost`` the time of drafting for it / of a plain pass. Where one
acceptance probability holds at every position, `theory.speedup.g` is the speedup; several drafted sequences at a time
are Equation 5 of Lookahead Decoding, `theory.lookahead_decoding.speedup.expected_tokens_multi`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from theory.checks import FloatArray, at_least_one, broadcast_shape, nonnegative, positive, probability, unwrap
from theory.errors import ParameterError
from theory.kernels import geometric_sum

__all__ = [
    "lookup_tokens",
    "token_speedup",
    "vector_tokens",
]


def vector_tokens(conditional: ArrayLike) -> FloatArray:
    r"""Tokens per pass of a drafter with an acceptance probability per position (EAGLE-like heads, draft models).

    .. math:: E[\tau] = 1 + \sum_{i=1}^{k_2 - 1} \prod_{j=1}^{i} a_j

    Parameters
    ----------
    conditional : a_j, [-], in [0, 1]; the k2 - 1 drafted positions along the last axis.

    Returns
    -------
    Tokens per pass, in [1, k2]; a sum of positive terms, each of them a product.

    Raises
    ------
    ParameterError : no probabilities, or none per position.

    References
    ----------
    Li et al. 2024 (EAGLE), arXiv:2401.15077, section 4 (its n-alpha are conditional); Leviathan et al. 2023, Eq. (1)
    where all are equal.

    >>> float(vector_tokens([0.8, 0.5]))
    2.2
    """
    return unwrap(1.0 + np.cumprod(_positions("conditional", conditional), axis=-1).sum(axis=-1))


def lookup_tokens(hit: ArrayLike, first: ArrayLike, continuation: ArrayLike, lengths: ArrayLike) -> FloatArray:
    r"""Tokens per pass of prompt lookup.

    .. math:: E[\tau] = 1 + h q_1 \sum_d P(D = d) \frac{1 - q^d}{1 - q}

    Parameters
    ----------
    hit, first, continuation : h, q_1, q, [-], in [0, 1]; scalars or arrays that broadcast.
    lengths : P(D = 1), ..., P(D = k2 - 1) given a hit, [-], one row that sums to 1 (to rounding).

    Returns
    -------
    Tokens per pass, in [1, k2]. At h q_1 = q and full drafts it is Leviathan's Eq. (1).

    Raises
    ------
    ParameterError : a value outside its range, lengths that do not sum to 1, or shapes that do not broadcast.

    References
    ----------
    Saxena 2023 (prompt lookup decoding) for the method; the model of hit and continuation is this project's.

    >>> float(lookup_tokens(0.5, 0.5, 0.5, [0.0, 1.0]))
    1.375
    """
    h, q1, q = probability("hit", hit), probability("first", first), probability("continuation", continuation)
    broadcast_shape(hit=h, first=q1, continuation=q)
    share = _row("lengths", lengths)
    depths = np.arange(1.0, share.size + 1.0)
    return unwrap(1.0 + h * q1 * (geometric_sum(q[..., None], depths) * share).sum(axis=-1))


def token_speedup(tokens: ArrayLike, pass_cost: ArrayLike = 1.0, draft_cost: ArrayLike = 0.0) -> FloatArray:
    r"""Speedup of token-level speculation on a long text, and the inverse of the time per token in plain passes.

    .. math:: S = \frac{E[\tau]}{c_{pass} + c_{draft}}

    Parameters
    ----------
    tokens : E[tau], tokens per pass, >= 1.
    pass_cost : time of a pass over k2 positions / over one, [-], > 0.
    draft_cost : time of drafting for a pass / of a plain pass, [-], >= 0; (k2 - 1) c2 for a draft model.

    Returns
    -------
    Speedup over plain decoding, [-].

    Raises
    ------
    ParameterError : a value outside its range, or shapes that do not broadcast.

    References
    ----------
    Leviathan et al. 2023, Theorem 3.8, with the cost of a wide pass kept: theirs is ``pass_cost = 1``.

    >>> float(token_speedup(1.5, 1.0, 0.25))
    1.2
    """
    e, wide = at_least_one("tokens", tokens), positive("pass_cost", pass_cost)
    draft = nonnegative("draft_cost", draft_cost)
    broadcast_shape(tokens=e, pass_cost=wide, draft_cost=draft)
    return unwrap(e / (wide + draft))


def _positions(name: str, value: ArrayLike) -> FloatArray:
    array = probability(name, value)
    if array.ndim == 0:
        raise ParameterError(name, value, "must have one entry per drafted position")
    return array


def _row(name: str, value: ArrayLike) -> FloatArray:
    array = _positions(name, value)
    if array.ndim != 1 or abs(float(array.sum()) - 1.0) > 1e-9:
        raise ParameterError(name, value, "must be one row of probabilities that sum to 1")
    return array
