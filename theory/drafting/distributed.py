r"""Distributed speculative inference (DSI): the target's passes run while the drafter drafts, on servers of their own.

The drafter never waits. After every k drafted tokens (the lookahead) one of s target servers is given a pass over all
that is drafted; a first pass starts with the drafter, on the text without drafts. A pass takes a target pass's time t,
and determines the target's tokens at the k positions that it adds and the token after them. At the first wrong draft
all is dropped, the target's own token is kept, and drafting starts anew after it.

Derivation. Count passes from 0 and let d = k c t be the time of drafting a block. Pass i can start when i blocks are
drafted and pass i - s has ended, so with constant times it starts at

.. math:: start(i) = (i \bmod s) d + \lfloor i / s \rfloor \max(t, s d).

Let A be the drafts accepted before the first wrong one, P(A >= n) = a**n. The target's token that replaces it is that
of pass J = ceil(A / k), so that P(J > j) = a * a**(k j). The run commits A + 1 tokens, 1 / (1 - a) on average, in
start(J) + t. By renewal-reward, with q = a**k and c the time of a drafted token in target passes,

.. math::
    S = \frac{1}{(1 - a)(1 + k c E[J \bmod s] + \max(1, s k c) E\lfloor J / s \rfloor)}, \quad
    E\lfloor J / s \rfloor = \frac{a q^{s - 1}}{1 - q^s}, \quad
    E[J \bmod s] = \frac{a}{1 - q} - s E\lfloor J / s \rfloor.

At k = 1 the schedule is that of asynchronous Lookahead Reasoning over steps of one token, and S is
`theory.speedup.f_async` with k1 = s. From `servers_needed` servers on nothing waits, and s drops out.

Source: Timor et al. 2025, "Distributed Speculative Inference (DSI): Speculation Parallelism for Provably Faster
Lossless Language Model Inference", arXiv:2405.14105, Algorithm 1 and Equation 1. The closed form for any number of
servers is this project's. The authors' offline simulator asks for enough servers, has a draft that is the first of its
block refused one block later, and takes the lesser of each run's time and that of plain decoding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from theory import checks
from theory.checks import FloatArray
from theory.kernels import geometric_sum, reciprocal_ceiling

__all__ = ["dsi_speedup", "servers_needed"]


def dsi_speedup(alpha2: ArrayLike, c2: ArrayLike, lookahead: ArrayLike, servers: ArrayLike) -> FloatArray:
    """Speedup of distributed speculative inference over plain decoding, on a long text.

    Parameters
    ----------
    alpha2 : probability that a drafted token is accepted given that those before it were, [-], in [0, 1].
    c2 : time of a drafted token / of a target pass, [-], in [0, 1].
    lookahead : k, tokens drafted between passes, integer >= 1.
    servers : s, target passes in flight at most, integer >= 1; the drafter has a server of its own.

    Returns
    -------
    Speedup, [-], at most ``min(1 / c2, k s, 1 / (1 - alpha2))``.

    Raises
    ------
    ParameterError : an argument outside its domain, or shapes that do not broadcast.

    References
    ----------
    Module docstring.

    >>> float(dsi_speedup(0.5, 0.25, 1, 2)), dsi_speedup(0.8, 0.1, [1, 2, 5, 10], 2).round(2).tolist()
    (1.411764705882353, [1.77, 2.54, 3.13, 2.64])
    """
    a, c = checks.probability("alpha2", alpha2), checks.ratio("c2", c2)
    k, s = (checks.count(name, n).astype(np.float64) for name, n in (("lookahead", lookahead), ("servers", servers)))
    checks.broadcast_shape(alpha2=a, c2=c, lookahead=k, servers=s)
    # Multiplied by 1 - a, which keeps all terms finite at a = 1: geometric_sum is (1 - a**n) / (1 - a).
    rounds = a ** (1.0 + k * (s - 1.0)) / geometric_sum(a, k * s)
    within = np.maximum(a / geometric_sum(a, k) - s * rounds, 0.0)
    return checks.unwrap(1.0 / ((1.0 - a) + k * c * within + np.maximum(1.0, s * k * c) * rounds))


def servers_needed(c2: ArrayLike, lookahead: ArrayLike) -> FloatArray:
    """Target servers from which on no pass waits for one: ceil(1 / (k c2)), [-]; inf at c2 = 0.

    Raises
    ------
    ParameterError : an argument outside its domain, or shapes that do not broadcast.

    References
    ----------
    DSI, Equation 1; the float k c2 counts as 1 / n where it is nearest to it (`theory.parallelism.saturation_depth`).

    >>> servers_needed(0.1, [1, 3, 5, 20]).tolist()
    [10.0, 4.0, 2.0, 1.0]
    """
    c, k = checks.ratio("c2", c2), checks.count("lookahead", lookahead)
    checks.broadcast_shape(c2=c, lookahead=k)
    return checks.unwrap(reciprocal_ceiling(np.minimum(c * k, 1.0)))
