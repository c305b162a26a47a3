r"""Closed forms of token-level speculation: tokens per target pass, their distribution, and the cost of ends of texts.

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

from theory.checks import FloatArray, broadcast_shape, count, nonnegative, positive, probability, unwrap
from theory.errors import ParameterError
from theory.kernels import geometric_sum
from theory.lookahead_decoding.speedup import MAX_DRAFT, expected_tokens_multi

__all__ = [
    "answer_speedup",
    "conditional_of",
    "end_loss",
    "expected_passes",
    "lookup_pmf",
    "lookup_tokens",
    "multi_draft_speedup",
    "token_speedup",
    "tokens_pmf",
    "unconditional_of",
    "vector_tokens",
]


def unconditional_of(conditional: ArrayLike) -> FloatArray:
    """P(positions 1 to i are all right), from the conditional probabilities.

    Parameters
    ----------
    conditional : P(position i is right | those before it are), [-], in [0, 1], positions along the last axis.

    Raises
    ------
    ParameterError : no probabilities, or none per position.

    >>> unconditional_of([0.5, 0.8]).tolist()
    [0.5, 0.4]
    """
    return np.asarray(np.cumprod(_positions("conditional", conditional), axis=-1))


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
    return unwrap(1.0 + unconditional_of(conditional).sum(axis=-1))


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
    e, wide, draft = _tokens(tokens), positive("pass_cost", pass_cost), nonnegative("draft_cost", draft_cost)
    broadcast_shape(tokens=e, pass_cost=wide, draft_cost=draft)
    return unwrap(e / (wide + draft))


def multi_draft_speedup(
    alpha2: ArrayLike, gamma: ArrayLike, n_sequences: ArrayLike, pass_cost: ArrayLike = 1.0, draft_cost: ArrayLike = 0.0
) -> FloatArray:
    """Speedup with several drafted sequences per pass, the longest right prefix counting (batched speculation).

    Parameters
    ----------
    alpha2, gamma, n_sequences : as `theory.lookahead_decoding.speedup.expected_tokens_multi` (independent sequences).
    pass_cost : time of a pass over ``n_sequences * gamma + 1`` positions / over one, [-], > 0.
    draft_cost : time of drafting for a pass / of a plain pass, [-], >= 0.

    Raises
    ------
    ParameterError : a value outside its range, or shapes that do not broadcast.

    References
    ----------
    Fu et al. 2024, arXiv:2402.02057, Equation 5, divided by what a pass costs.

    >>> float(multi_draft_speedup(0.5, 2, 2, 1.25))
    1.75
    """
    return token_speedup(expected_tokens_multi(alpha2, gamma, n_sequences), pass_cost, draft_cost)


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


def end_loss(pmf: ArrayLike) -> float:
    r"""Additional passes of a long text beyond ``n / E[tau]``, because the last pass is cut at its end.

    .. math:: \lim_{n \to \infty} N(n) - \frac{n}{E[\tau]} = \frac{E[\tau (\tau - 1)]}{2 E[\tau]^2}

    Parameters
    ----------
    pmf : P(tau = 1), ..., P(tau = k2), [-], one row that sums to 1; P(tau = 1) > 0, else the limit does not exist.

    Returns
    -------
    Passes, in [0, 1/2): the price of every step of a step-level method, which ends a text.

    Raises
    ------
    ParameterError : a row that does not sum to 1, or P(tau = 1) = 0.

    >>> end_loss([0.5, 0.5])
    0.2222222222222222
    """
    p = _row("pmf", pmf)
    if p[0] == 0.0:
        raise ParameterError("pmf", p.tolist(), "must have P(tau = 1) > 0 for a limit")
    tau = np.arange(1.0, p.size + 1.0)
    mean = float(p @ tau)
    return float(p @ (tau * (tau - 1.0))) / (2.0 * mean * mean)


def answer_speedup(
    step_tokens: ArrayLike,
    pmf: ArrayLike,
    *,
    pass_cost: float = 1.0,
    draft_cost: float = 0.0,
    first_cost: float = 1.0,
    first_cost_speculative: float | None = None,
) -> float:
    """Speedup on a finite answer that is generated in requests: first tokens are not sped up, last passes are cut.

    Parameters
    ----------
    step_tokens : tokens of each request (step) of the answer, >= 1, one row.
    pmf : P(tau = 1), ..., P(tau = k2), [-], one row.
    pass_cost, draft_cost : as `token_speedup`.
    first_cost : time of a request up to its first token (prefill and overhead) / of a plain pass, [-], >= 0.
    first_cost_speculative : the same with speculation, where it differs (a draft model reads the prompt too).

    Returns
    -------
    Time of plain decoding / time of speculative decoding, [-]; the ratio of expectations over independent passes.

    Raises
    ------
    ParameterError : a value outside its range.

    References
    ----------
    `expected_passes` per request; tends to `token_speedup` for one long request.

    >>> round(answer_speedup([3, 3], [0.5, 0.5], first_cost=1.0), 12)
    1.2
    """
    n = np.atleast_1d(count("step_tokens", step_tokens, maximum=MAX_DRAFT))
    wide, draft = float(positive("pass_cost", pass_cost)), float(nonnegative("draft_cost", draft_cost))
    first = float(nonnegative("first_cost", first_cost))
    other = first if first_cost_speculative is None else float(nonnegative("first_cost", first_cost_speculative))
    passes = float(np.sum(expected_passes(n - 1, pmf)))
    plain = first * n.size + float(np.sum(n - 1))
    return plain / (other * n.size + passes * (wide + draft))


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


def _tokens(value: ArrayLike) -> FloatArray:
    array = positive("tokens", value)
    if (array < 1.0).any():
        raise ParameterError("tokens", float(array.min()), "must be >= 1")
    return array
