r"""Closed forms of Lookahead Decoding (Fu et al. 2024): tokens per step, step compression, cost of a step.

The paper's alpha is ``alpha2`` here (acceptance of one drafted token), its gamma stays ``gamma``, b is ``n_sequences``,
f is ``steps_per_hit``, and W, N, G are ``window``, ``ngram`` and ``guesses``; the paper sets ``G = W = b`` and
``gamma = N - 1``. Equation 4, one sequence, is `theory.speedup.expected_tokens`. Equation 5 takes the sequences as
independent: sequences that repeat each other give less, different ones give more (claims LD-E5-dependence and
LD-A4-mean of the ledger).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from theory.checks import FloatArray, IntArray, at_least_one, broadcast_shape, count, probability, unwrap

__all__ = [
    "MAX_DRAFT",
    "expected_tokens_multi",
    "lookahead_compression",
    "step_tokens",
]

MAX_DRAFT: Final = 2**20
"""Longest draft accepted, tokens: Equation 5 is summed term by term."""

_CHUNK: Final = 256
_NEGLIGIBLE: Final = 2.0**-60


def expected_tokens_multi(alpha2: ArrayLike, gamma: ArrayLike, n_sequences: ArrayLike) -> FloatArray:
    r"""Tokens per step with several independent drafted sequences, the longest accepted prefix counting.

    .. math:: E = (\gamma + 1) - \sum_{i=1}^{\gamma} (1 - \alpha^i)^b = 1 + \sum_{i=1}^{\gamma} [1 - (1 - \alpha^i)^b]

    Parameters
    ----------
    alpha2 : probability that a drafted token passes, [-], in [0, 1].
    gamma : tokens drafted per sequence, in [0, MAX_DRAFT].
    n_sequences : sequences per step (the paper's b), >= 1.

    Returns
    -------
    Tokens per step, in [1, gamma + 1], the broadcast shape. The second form is used: a sum of positive terms, so no
    digit is lost at small acceptance or many sequences.

    Raises
    ------
    ParameterError : a value outside its range, or shapes that do not broadcast.

    References
    ----------
    Fu et al. 2024, arXiv:2402.02057, Equation 5.

    >>> float(expected_tokens_multi(0.5, 2, 2))
    2.1875
    """
    alpha = probability("alpha2", alpha2)
    n = count("gamma", gamma, minimum=0, maximum=MAX_DRAFT)
    b = count("n_sequences", n_sequences)
    shape = broadcast_shape(alpha2=alpha, gamma=n, n_sequences=b)
    total = np.zeros(shape)
    for start in range(1, int(n.max()) + 1, _CHUNK):
        index = np.arange(start, min(start + _CHUNK, int(n.max()) + 1))
        total += _some_pass(alpha[..., None], index, b[..., None], n[..., None])
        if np.all((b * alpha ** float(index[-1]) < _NEGLIGIBLE * (1.0 - alpha)) | (n <= index[-1])):
            break
    return unwrap(1.0 + total)


def _some_pass(alpha: FloatArray, index: IntArray, b: IntArray, n: IntArray) -> FloatArray:
    """Sum over a chunk of prefix lengths of the probability that some sequence passes that far (lengths <= n only)."""
    with np.errstate(divide="ignore", under="ignore"):
        terms = -np.expm1(b * np.log1p(-(alpha ** index.astype(np.float64))))
    return np.asarray(np.where(index <= n, terms, 0.0).sum(axis=-1))


def lookahead_compression(
    alpha2: ArrayLike, steps_per_hit: ArrayLike, *, window: ArrayLike, ngram: ArrayLike
) -> FloatArray:
    r"""Compression S, autoregressive steps per lookahead step, where one step in f emits E tokens and the others one.

    .. math:: S = (f - 1 + E) / f

    E is `expected_tokens_multi` in the paper's convention ``G = W = b``, ``gamma = N - 1``.

    Parameters
    ----------
    alpha2 : probability that a token of an n-gram passes, [-], in [0, 1].
    steps_per_hit : steps per useful step (the paper's f), >= 1; total steps over useful steps, not a mean of ratios.
    window : W, and as many guesses, >= 1.
    ngram : N, >= 1 (1 drafts nothing).

    Returns
    -------
    Compression [-], in [1, N].

    Raises
    ------
    ParameterError : a value outside its range, or shapes that do not broadcast.

    References
    ----------
    Fu et al. 2024, arXiv:2402.02057, Equations 5 to 7.

    >>> round(float(lookahead_compression(0.425, 3.106, window=15, ngram=5)), 3)
    1.979
    """
    size = count("ngram", ngram, maximum=MAX_DRAFT)
    width = count("window", window)
    f = at_least_one("steps_per_hit", steps_per_hit)
    e = np.asarray(expected_tokens_multi(alpha2, size - 1, width))
    broadcast_shape(tokens=e, steps_per_hit=f)
    return unwrap(1.0 + (e - 1.0) / f)


def step_tokens(window: ArrayLike, ngram: ArrayLike, guesses: ArrayLike) -> IntArray:
    """Input tokens of one decoding step, ``(W + G)(N - 1)``, the current token included.

    Parameters
    ----------
    window : W, >= 1.
    ngram : N, >= 2.
    guesses : G, n-grams verified, >= 0.

    Returns
    -------
    Tokens, exact.

    Raises
    ------
    ParameterError : a value outside its range (each at most MAX_DRAFT), or shapes that do not broadcast.

    References
    ----------
    Fu et al. 2024, arXiv:2402.02057, section 5.5; exact for the contexts of Algorithm 1 (claim LD-TOKENS).

    >>> int(step_tokens(15, 5, 15))
    120
    """
    w = count("window", window, maximum=MAX_DRAFT)
    n = count("ngram", ngram, minimum=2, maximum=MAX_DRAFT)
    g = count("guesses", guesses, minimum=0, maximum=MAX_DRAFT)
    broadcast_shape(window=w, ngram=n, guesses=g)
    tokens: IntArray = ((w + g) * (n - 1))[()]
    return tokens
