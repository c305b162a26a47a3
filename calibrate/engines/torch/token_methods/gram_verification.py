"""Verification of several guessed continuations: a draw of each token, which coupled runs of plain decoding share.

All guesses start at the current token. At every depth a token is drawn from the target's distribution, and the guesses
that have it are kept; so the output has the target's distribution for any guesses. Lookahead Decoding's Algorithm 4
tries the guesses one after the other with a uniform number each. `by_draw` draws the token first, with the uniform
number of its position: the distributions of tokens and of accepted lengths are the same (a test enumerates both), but
the text is also, token for token, that of plain decoding with this seed. With the likeliest token in place of a draw it
is Algorithm 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calibrate.engines.torch.token_methods.ngram_pool import Gram

__all__ = ["by_draw"]


def by_draw(guesses: Sequence[Gram], token: Callable[[int, int], int]) -> tuple[tuple[int, ...], int]:
    """Draw each token, and keep the guesses that have it.

    Parameters
    ----------
    guesses : continuations of the current token, all of one length; may be none.
    token : (guess, depth) -> the token drawn from the target's distribution after the first ``depth`` tokens of that
        guess; at depth 0 the same for every guess.

    Returns
    -------
    Tokens, and the index of the guess that has all of them but the last (0 if no guess was accepted).

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
