"""Verification of several guessed continuations: Lookahead Decoding's Algorithms 3 and 4, and a coupled variant.

All guesses start at the current token. At every depth a token is drawn from the target's distribution, and the guesses
that have it are kept; so the output has the target's distribution for any guesses. Algorithm 4 tries the guesses one
after the other with a uniform number each. `by_draw` draws the token first, with the uniform number of its position,
and keeps the guesses that have it: the distributions of tokens and of accepted lengths are the same (a test enumerates
both), but the text is also, token for token, that of plain decoding with this seed. With the likeliest token in place
of a draw it is Algorithm 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrate.engines.torch.token_methods.ngram_pool import Gram

__all__ = ["Accepted", "Chance", "by_draw", "by_rejection"]

Accepted: TypeAlias = tuple[tuple[int, ...], int]
"""Tokens, and the index of the guess that has all of them but the last (0 if no guess was accepted)."""


class Chance(Protocol):
    """The random decisions of Algorithm 4."""

    def accept(self, probability: Any) -> bool:
        """Return True with probability ``p``."""

    def pick(self, weights: NDArray[Any]) -> int:
        """Return an index with probability in proportion to its weight."""


def by_draw(guesses: Sequence[Gram], token: Callable[[int, int], int]) -> Accepted:
    """Draw each token, and keep the guesses that have it.

    Parameters
    ----------
    guesses : continuations of the current token, all of one length; may be none.
    token : (guess, depth) -> the token drawn from the target's distribution after the first ``depth`` tokens of that
        guess; at depth 0 the same for every guess.

    References
    ----------
    Fu et al. 2024, arXiv:2402.02057, Algorithm 3. Without guesses the printed algorithm indexes an empty list; here a
    token is drawn from the current token's distribution.
    """
    alive: Sequence[int] = range(len(guesses))
    drawn: list[int] = []
    leader = 0
    while True:
        depth = len(drawn)
        next_token = token(leader, depth)
        drawn.append(next_token)
        if not guesses or depth == len(guesses[0]):
            return tuple(drawn), leader
        alive = [g for g in alive if guesses[g][depth] == next_token]
        if not alive:
            return tuple(drawn), leader
        leader = alive[0]


def by_rejection(
    guesses: Sequence[Gram], probabilities: Callable[[int, int], NDArray[Any]], chance: Chance
) -> Accepted:
    """Try the guesses one after the other, each with its probability in the remaining distribution.

    Parameters
    ----------
    guesses : continuations of the current token, all of one length; may be none.
    probabilities : (guess, depth) -> weights of the target's next token after the first ``depth`` tokens of that
        guess; need not sum to one.
    chance : source of random decisions.

    References
    ----------
    Fu et al. 2024, arXiv:2402.02057, Algorithm 4. A rejected token's weight is removed, and the rest is not rescaled
    (line 33); each decision divides by its sum instead, so that rounding never gives a quotient above 1.
    """
    alive: Sequence[int] = range(len(guesses))
    drawn: list[int] = []
    leader = 0
    size = len(guesses[0]) if guesses else 0
    while len(drawn) < size:
        depth = len(drawn)
        weights = np.array(probabilities(leader, depth))
        chosen = None
        for g in alive:
            token = guesses[g][depth]
            if chance.accept(weights[token] / weights.sum()):
                chosen = g
                break
            weights[token] = 0
        if chosen is None:
            return (*drawn, chance.pick(weights)), leader
        token = guesses[chosen][depth]
        drawn.append(token)
        alive = [g for g in alive if g >= chosen and guesses[g][depth] == token]
        leader = chosen
    return (*drawn, chance.pick(np.array(probabilities(leader, size)))), leader
