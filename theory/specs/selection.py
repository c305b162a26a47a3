r"""SPECS on finite alphabets: what soft selection returns, how far it is from the tilted optimum, and bounds on that.

Source: *SPECS: Faster Test-Time Scaling through Speculative Drafts and Dynamic Switching*. One block draws n candidates
from a generator (target or draft model) and returns one with probability proportional to its exponentiated score
:math:`w(y) = \pi_{target}(y) / \pi_{gen}(y) \, e^{\beta r(y)}`; the optimum is
:math:`\pi^*(y) \propto \pi_{target}(y) e^{\beta r(y)}`.

The laws are integrals over the Laplace transform of the score (Lemma 4 of the paper, at a fixed width). With s = exp(x)
the integrands are analytic for abs(Im x) < pi / 2, so the trapezoidal rule converges geometrically: step 3/16 leaves
less than exp(-52) times a constant, whatever the width, the alphabet and the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import numpy as np
from numpy.typing import ArrayLike

from theory import checks
from theory.checks import FloatArray
from theory.errors import ParameterError
from theory.specs.laws import finite, kl_divergence, law_of, normalised, same_shape, scalar

__all__ = [
    "optimal_distribution",
    "selection_kl",
    "selection_weights",
    "soft_selection_distribution",
    "specs_output_distribution",
]

_STEP: Final = 0.1875
"""A dyadic step: with nodes at its multiples no rounding enters the nodes, which would shift every result alike."""
_LEFT: Final = 42.0
"""The integrand starts like exp(x): exp(-42) of the mass lies further left."""
_RIGHT: Final = 745.0
"""exp(-745) is the smallest float64."""
_MAX_RESPONSES: Final = 2**16


def selection_weights(target: ArrayLike, gen: ArrayLike, reward: ArrayLike, beta: float) -> FloatArray:
    """Exponentiated scores ``target / gen * exp(beta reward)``, scaled so that the largest is 1.

    Parameters
    ----------
    target, gen : next-block laws of the target and of the generator, [-], shape (K,), positive, each summing to 1.
    reward : reward of each block, [-], shape (K,), finite.
    beta : inverse temperature, >= 0.

    Returns
    -------
    Shape (K,), in (0, 1]. Selection and optimum do not see the scale, and without it exp(beta r) overflows at the
    paper's own settings (beta = 10,000).

    Raises
    ------
    ParameterError : not a law, shapes differ, beta negative, or scores so far apart that one underflows to 0.

    References
    ----------
    SPECS, Equation 1 and Definition 5 (ledger: SPECS-D5).
    """
    t, g = law_of("target", target, positive=True), law_of("gen", gen, positive=True)
    r = same_shape("reward", finite("reward", reward), t)
    scores = np.log(t) - np.log(same_shape("gen", g, t)) + scalar("beta", checks.nonnegative("beta", beta)) * r
    weights = np.exp(scores - scores.max())
    if not (weights > 0).all():
        raise ParameterError("beta", beta, "must keep the scores within a factor of 1e-308 of each other")
    return cast(FloatArray, weights)


def optimal_distribution(base: ArrayLike, weights: ArrayLike) -> FloatArray:
    """The law proportional to ``base * weights``: pi* from (target, exp(beta r)) or from (generator, scores).

    Parameters
    ----------
    base : a law, shape (K,).
    weights : positive factors, shape (K,); only their ratios matter.

    Returns
    -------
    Shape (K,), sums to 1.

    Raises
    ------
    ParameterError : not a law, a weight not positive, shapes differ.

    References
    ----------
    SPECS, Equations 3 and 4 (ledger: SPECS-E3, SPECS-E4).

    >>> optimal_distribution([0.5, 0.5], [1.0, 3.0]).tolist()
    [0.25, 0.75]
    """
    p = law_of("base", base)
    mass = p * _scaled(same_shape("weights", checks.positive("weights", weights), p))
    return cast(FloatArray, mass / mass.sum())


def soft_selection_distribution(gen: ArrayLike, weights: ArrayLike, n: int) -> FloatArray:
    r"""Law of the candidate that soft selection returns out of n independent draws.

    .. math:: \pi_n(y) = n \, g_y w_y \int_0^\infty \Phi(s)^{n-1} e^{-s w_y} ds, \quad \Phi(s) = \sum_y g_y e^{-s w_y}

    Parameters
    ----------
    gen : law of one draw, [-], shape (K,).
    weights : exponentiated scores, > 0, shape (K,); only their ratios matter.
    n : beam width, integer >= 1.

    Returns
    -------
    Shape (K,), relative error below 1e-13 (``test_selection_against_exact_enumeration``); the sum is left as computed.

    Raises
    ------
    ParameterError : not a law, a weight not positive, n < 1, shapes differ.

    References
    ----------
    SPECS, Algorithm 2, Definition 4, Equation 13 (ledger: SPECS-E13, SPECS-L4).

    >>> soft_selection_distribution([0.5, 0.5], [1.0, 3.0], 1).round(12).tolist()
    [0.5, 0.5]
    """
    g = law_of("gen", gen)
    w = _scaled(same_shape("weights", checks.positive("weights", weights), g))
    return _integrated(g, w, checks.scalar_count("n", n))


def selection_kl(target: ArrayLike, gen: ArrayLike, reward: ArrayLike, beta: float, n: int) -> float:
    """Divergence of the output of one SPECS block from the tilted optimum, in nats, exactly (to rounding).

    Parameters
    ----------
    target, gen : next-block laws, [-], shape (K,), positive.
    reward : reward per block, [-], shape (K,).
    beta : inverse temperature, >= 0.
    n : beam width, integer >= 1.

    Returns
    -------
    D(output | optimum) >= 0, at most ``log(1 + ((kappa - 1) / n)**2)`` with kappa the largest over the smallest weight.

    Raises
    ------
    ParameterError : see `selection_weights` and `soft_selection_distribution`.

    References
    ----------
    SPECS, Theorem 3, left side of Equation 8 (ledger: SPECS-T3).
    """
    weights = selection_weights(target, gen, reward, beta)
    return kl_divergence(soft_selection_distribution(gen, weights, n), optimal_distribution(gen, weights))


def specs_output_distribution(
    target: Sequence[ArrayLike],
    draft: Sequence[ArrayLike],
    reward: ArrayLike,
    beta: float,
    n: int,
    threshold: float,
) -> FloatArray:
    """Law of the full response of Algorithm 1 with the idealized process reward, on a small tree of blocks.

    Parameters
    ----------
    target, draft : one array per block t = 0 .. H - 1 of shape (K,) * (t + 1): the last axis is the law of block t + 1
        after the prefix that the other axes name, positive.
    reward : outcome reward per response, [-], shape (K,) * H.
    beta : inverse temperature, > 0.
    n : beam width, integer >= 1.
    threshold : tau; the draft generates all blocks after the first in which some candidate's process reward exceeds it.

    Returns
    -------
    Shape (K,) * H, sums to 1 within rounding.

    Raises
    ------
    ParameterError : shapes, laws or numbers outside their domain; more than 65,536 responses.

    References
    ----------
    SPECS, Algorithm 1, Definitions 1 and 2 (ledger: SPECS-T1, SPECS-T1b).
    """
    r = finite("reward", reward)
    models = [_tree_laws(name, laws, r.shape) for name, laws in (("target", target), ("draft", draft))]
    b = scalar("beta", checks.positive("beta", beta))
    values = _log_values(models[0], b * r)
    width, tau = checks.scalar_count("n", n), scalar("threshold", finite("threshold", threshold))
    letters = r.shape[0]
    mass = np.array([[1.0], [0.0]])  # rows: target generates, draft generates; columns: prefixes in order
    for t in range(r.ndim):
        advantage = values[t + 1].reshape(-1, letters) - values[t].reshape(-1, 1)
        laws = [model[t].reshape(-1, letters) for model in models]
        after = np.zeros((2, mass.shape[1], letters))
        for i in range(mass.shape[1]):
            stay, switch = _target_step(laws[0][i], advantage[i], width, b * tau)
            weights = np.log(laws[0][i]) - np.log(laws[1][i]) + advantage[i]
            after[0, i] = mass[0, i] * stay
            after[1, i] = mass[0, i] * switch
            after[1, i] += mass[1, i] * soft_selection_distribution(laws[1][i], np.exp(weights - weights.max()), width)
        mass = after.reshape(2, -1)
    return cast(FloatArray, mass.sum(axis=0).reshape(r.shape))


def _target_step(law: FloatArray, advantage: FloatArray, n: int, log_threshold: float) -> tuple[FloatArray, FloatArray]:
    """Law of the block that the target's candidates give, split: no candidate above the threshold, or some."""
    weights = np.exp(advantage - advantage.max())
    whole = soft_selection_distribution(law, weights, n)
    low = advantage <= log_threshold
    stay = np.zeros_like(whole)
    if low.any():
        mass = law[low].sum()
        stay[low] = mass**n * soft_selection_distribution(law[low] / mass, weights[low], n)
    return stay, np.maximum(whole - stay, 0.0)


def _log_values(target: list[FloatArray], scaled_reward: FloatArray) -> list[FloatArray]:
    """``beta V`` of every prefix, by length: log of the mean exponentiated reward of its completions."""
    values = [scaled_reward]
    for law in reversed(target):
        top = values[0].max(axis=-1, keepdims=True)
        values.insert(0, np.log(np.sum(law * np.exp(values[0] - top), axis=-1)) + top[..., 0])
    return values


def _tree_laws(name: str, laws: Sequence[ArrayLike], shape: tuple[int, ...]) -> list[FloatArray]:
    if len(laws) != len(shape) or not shape or len(set(shape)) != 1:
        rule = f"must hold one array per axis of reward, which has shape {shape}"
        raise ParameterError(name, f"{len(laws)} arrays", rule)
    if np.prod(shape) > _MAX_RESPONSES:
        raise ParameterError("reward", shape, f"must have at most {_MAX_RESPONSES} responses")
    made = []
    for t, law in enumerate(laws):
        array = checks.positive(f"{name}[{t}]", law)
        if array.shape != shape[: t + 1]:
            raise ParameterError(f"{name}[{t}]", array.shape, f"must have shape {shape[: t + 1]}")
        made.append(normalised(f"{name}[{t}]", array))
    return made


def _integrated(gen: FloatArray, weights: FloatArray, n: int) -> FloatArray:
    """``n g w integral of Phi(s)**(n - 1) exp(-s w) ds`` per letter, by the trapezoidal rule in log s."""
    drawn = gen > 0
    smallest = float(weights[drawn].min())
    left, right = -_LEFT - np.log(n), np.log(_RIGHT / smallest)
    s = np.exp(_STEP * np.arange(np.floor(left / _STEP), np.ceil(right / _STEP) + 1))
    products = np.outer(s, weights)
    gap = np.expm1(-products) @ gen
    # near s = 0 log1p keeps the small difference; far out a common factor keeps the sum from underflowing
    far = np.log(np.exp(-np.outer(s, np.maximum(weights - smallest, 0.0))) @ gen) - s * smallest
    log_phi = np.where(gap > -0.5, np.log1p(np.maximum(gap, -0.5)), far)
    values = np.exp((n - 1) * log_phi[:, None] - products)
    return cast(FloatArray, n * gen * weights * (_STEP * (s @ values)))


def _scaled(weights: FloatArray) -> FloatArray:
    """Weights with largest value 1, refused where the smallest would vanish."""
    scaled = weights / weights.max()
    if not (scaled > 0).all():
        raise ParameterError(
            "weights", float(weights.min()), "must lie within a factor of 1e-308 of the largest weight"
        )
    return cast(FloatArray, scaled)
