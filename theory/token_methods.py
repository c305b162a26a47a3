r"""Closed forms of token-level speculation: tokens per target pass, their distribution, passes of a finite text.

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

from theory.checks import FloatArray, at_least_one, broadcast_shape, count, nonnegative, positive, probability, unwrap
from theory.errors import ParameterError
from theory.kernels import geometric_sum
from theory.lookahead_decoding.speedup import MAX_DRAFT

__all__ = [
    "conditional_of",
    "expected_passes",
    "lookup_pmf",
    "lookup_tokens",
    "token_speedup",
    "tokens_pmf",
    "vector_tokens",
]


def conditional_of(unconditional: ArrayLike) -> FloatArray:
    """P(position i is right | those before it are), from what engines count; 0 where the position is never reached.

    Parameters
    ----------
    unconditional : P(positions 1 to i are all right), [-], in [0, 1], non-increasing along the last axis.

    Raises
    ------
    ParameterError : no probabilities, or increasing ones.

    >>> conditional_of([0.5, 0.25, 0.0]).tolist()
    [0.5, 0.5, 0.0]
    """
    given = _positions("unconditional", unconditional)
    before = np.concatenate([np.ones_like(given[..., :1]), given[..., :-1]], axis=-1)
    if np.any(given > before):
        raise ParameterError("unconditional", unconditional, "must not increase from position to position")
    return np.asarray(np.divide(given, before, out=np.zeros_like(given), where=before > 0.0))


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


def tokens_pmf(conditional: ArrayLike) -> FloatArray:
    r"""Distribution of the tokens of a pass: P(tau = 1), ..., P(tau = k2) along the last axis.

    .. math:: P(\tau = j) = (1 - a_j) \prod_{i < j} a_i, \qquad P(\tau = k_2) = \prod_i a_i

    Parameters
    ----------
    conditional : a_j, [-], in [0, 1]; the k2 - 1 drafted positions along the last axis.

    Raises
    ------
    ParameterError : no probabilities, or none per position.

    >>> tokens_pmf([0.5, 0.5]).tolist()
    [0.5, 0.25, 0.25]
    """
    a = _positions("conditional", conditional)
    reached = np.concatenate([np.ones_like(a[..., :1]), np.cumprod(a, axis=-1)], axis=-1)
    missed = np.concatenate([1.0 - a, np.ones_like(a[..., :1])], axis=-1)
    return np.asarray(reached * missed)


def lookup_pmf(hit: ArrayLike, first: ArrayLike, continuation: ArrayLike, lengths: ArrayLike) -> FloatArray:
    """Distribution of the tokens of a pass of prompt lookup: P(tau = 1), ..., P(tau = k2) along the last axis.

    A lookup finds a draft with probability ``hit``; its first token is right with probability ``first``, each later one
    with ``continuation`` once those before it are; it has d tokens with probability ``lengths[d - 1]``, at most k2 - 1
    (a match near the end of the text has fewer tokens after it).

    Parameters
    ----------
    hit, first, continuation : [-], in [0, 1]; scalars or arrays that broadcast.
    lengths : P(the draft has 1, 2, ..., k2 - 1 tokens | hit), [-], one row that sums to 1 (to rounding).

    Raises
    ------
    ParameterError : a value outside its range, lengths that do not sum to 1, or shapes that do not broadcast.

    References
    ----------
    Saxena 2023 (prompt lookup decoding) for the method; the model of hit and continuation is this project's.

    >>> lookup_pmf(0.5, 0.5, 1.0, [0.5, 0.5]).tolist()
    [0.75, 0.125, 0.125]
    """
    h, q1, q, share = _lookup(hit, first, continuation, lengths)
    longer = np.append(np.cumsum(share[::-1])[-2::-1], 0.0)  # P(the draft goes on after this position | hit)
    right = (h * q1)[..., None] * q[..., None] ** np.arange(share.size)  # all right so far, if the draft is that long
    ends = right * (longer * (1.0 - q[..., None]) + share)
    return np.concatenate([(1.0 - h * q1)[..., None], ends], axis=-1)


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
    ParameterError : as `lookup_pmf`.

    References
    ----------
    As `lookup_pmf`.

    >>> float(lookup_tokens(0.5, 0.5, 0.5, [0.0, 1.0]))
    1.375
    """
    h, q1, q, share = _lookup(hit, first, continuation, lengths)
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


def expected_passes(n_tokens: ArrayLike, pmf: ArrayLike) -> FloatArray:
    r"""Passes until ``n_tokens`` tokens are committed; the last pass is cut at the end.

    .. math:: N(n) = 1 + \sum_{j=1}^{k_2} P(\tau = j) N(n - j), \qquad N(n \le 0) = 0

    Parameters
    ----------
    n_tokens : tokens to commit, in [0, MAX_DRAFT], any shape.
    pmf : P(tau = 1), ..., P(tau = k2), [-], one row that sums to 1 (to rounding); passes are independent.

    Returns
    -------
    Passes, the shape of ``n_tokens``: between n / k2 and n, and at least n / E[tau]. Sums of positive terms: the
    relative error stays below about n units in the last place.

    Raises
    ------
    ParameterError : a value outside its range, or a row that does not sum to 1.

    References
    ----------
    Renewal equation, e.g. Feller, An Introduction to Probability Theory I, XIII.

    >>> expected_passes([0, 1, 2], [0.5, 0.5]).tolist()
    [0.0, 1.0, 1.5]
    """
    n = count("n_tokens", n_tokens, minimum=0, maximum=MAX_DRAFT)
    p = _row("pmf", pmf)
    table = _renewals(int(n.max()), p)
    return unwrap(table[n])


def _renewals(most: int, p: FloatArray) -> FloatArray:
    """N(0), ..., N(most)."""
    table = np.zeros(most + 1)
    for n in range(1, most + 1):
        reach = min(p.size, n)
        table[n] = 1.0 + float(p[:reach] @ table[n - 1 :: -1][:reach])
    return table


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


def _lookup(
    hit: ArrayLike, first: ArrayLike, continuation: ArrayLike, lengths: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    h, q1, q = probability("hit", hit), probability("first", first), probability("continuation", continuation)
    shape = broadcast_shape(hit=h, first=q1, continuation=q)
    return np.broadcast_to(h, shape), np.broadcast_to(q1, shape), np.broadcast_to(q, shape), _row("lengths", lengths)
