"""Laws that simulated passes and candidates must have, from textbook formulas: oracles for the simulator."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def tokens_of_a_pass(conditional: Sequence[float]) -> Array:
    """P(tau = 1), ..., P(tau = k2), given P(position i is right | those before it are)."""
    a = np.array(conditional)
    return np.append(1.0 - a, 1.0) * np.cumprod(np.append(1.0, a))


def tokens_of_guesses(alpha: float, steps_per_hit: float, window: int, ngram: int) -> Array:
    """P(1), ..., P(ngram) tokens of a step of Lookahead Decoding: Equations 5 and 7 of Fu et al. 2024."""
    beyond = (1.0 - (1.0 - alpha ** np.arange(1.0, ngram)) ** window) / steps_per_hit
    return -np.diff(np.concatenate([[1.0], beyond, [0.0]]))


def mean_passes(n_tokens: int, law: Sequence[float] | Array) -> float:
    """Passes until so many tokens are committed, the last one cut: the renewal equation (Feller I, XIII)."""
    passes = [0.0]
    for n in range(1, n_tokens + 1):
        passes.append(1.0 + sum(p * passes[n - j] for j, p in enumerate(law, 1) if j <= n))
    return passes[-1]


def batch_seconds(lengths: Sequence[float], iteration_s: Sequence[float]) -> float:
    """Mean time of candidates that leave a batch as they end; P(0), P(1), ... tokens, the first of the prefill."""
    n, going = len(iteration_s), 1.0 - np.cumsum(lengths)[1:, None]
    alive = np.arange(n + 1)
    ways = np.cumprod(np.append(1.0, (n - alive[:-1]) / alive[1:]))
    return float((ways * going**alive * (1.0 - going) ** (n - alive) @ np.append(0.0, iteration_s)).sum())


def best_of(law: ArrayLike, n: int) -> Array:
    """The law of the best of ``n`` draws, of letters in the order of their rewards."""
    upto = np.cumsum(law) ** n
    return np.diff(upto, prepend=0.0)
