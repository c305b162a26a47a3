"""Lookahead Decoding (Fu et al. 2024): guesses from the target's own Jacobi trajectories, verified in the same pass.

The lookahead branch is a window of W columns and N - 1 rows: column j, row l contains a guess for the position
``j - 1 + l`` after the current token (columns count from 1, rows from 0, the oldest; the current token takes the place
of row 0, column 1). A pass extends every column by the likeliest next token after row 0 up to that column and the
column itself (Algorithm 1, line 13); the N tokens of a column are then added to a pool of n-grams. The verification
branch computes up to G n-grams of the pool that begin with the current token, and keeps the longest accepted one.

All guesses start at the current token. At every depth a token is drawn from the target's distribution, and the guesses
that have it are kept; so the output has the target's distribution for any guesses. The paper's Algorithm 4 tries the
guesses one after the other with a uniform number each. `by_draw` draws the token first, with the uniform number of its
position: the distributions of tokens and of accepted lengths are the same (a test enumerates both), but the text is
also, token for token, that of plain decoding with this seed. With the likeliest token in place of a draw it is
Algorithm 3.

As printed, column 1 would pool a first token that its trajectory does not contain; here it is the current token (claims
LD-A1-ngram and LD-A1-index of the ledger).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from calibrate.engines.torch.token_methods.protocol import Rows, Verdict

if TYPE_CHECKING:
    import torch

    from calibrate.engines.speculation import Speculation

__all__ = ["LookaheadSequence", "NGramPool", "by_draw", "pass_layout"]

Gram: TypeAlias = tuple[int, ...]
"""An n-gram without its first token."""


class NGramPool:
    """Different n-grams, the latest first; adding one again makes it the latest.

    Parameters
    ----------
    per_token : n-grams kept per first token, >= 1. Dropping the others changes no lookup of at most ``per_token``
        n-grams: a lookup returns the latest, and an old n-gram becomes the latest only by being added again.

    >>> pool = NGramPool(per_token=2)
    >>> for gram in ((1, 2, 3), (1, 4, 5), (1, 2, 3), (1, 6, 7)):
    ...     pool.add(gram)
    >>> pool.after(1)
    [(6, 7), (2, 3)]
    """

    def __init__(self, per_token: int) -> None:
        self._per_token = per_token
        self._grams: dict[int, dict[Gram, None]] = {}

    def add(self, gram: Sequence[int]) -> None:
        """Add an n-gram, given with its first token."""
        known = self._grams.setdefault(gram[0], {})
        rest = tuple(gram[1:])
        known.pop(rest, None)
        known[rest] = None
        if len(known) > self._per_token:
            del known[next(iter(known))]

    def after(self, token: int) -> list[Gram]:
        """The n-grams that begin with ``token``, without it, the latest first."""
        return list(reversed(self._grams.get(token, {})))

    def copy(self) -> NGramPool:
        """An independent pool with the same n-grams."""
        twin = NGramPool(self._per_token)
        twin._grams = {token: dict(grams) for token, grams in self._grams.items()}
        return twin


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


@lru_cache(maxsize=256)
def pass_layout(window: int, ngram: int, guesses: int) -> tuple[list[int], torch.Tensor]:
    """Positions of the rows of a pass after the cached tokens, and the attention mask; ``(W + g) (N - 1)`` rows.

    The rows are the window, row by row, then n-grams one after the other.
    A window row attends to row 0 of the window up to its own column, and to its own column up to itself; a row of an
    n-gram to the current token and the n-gram up to itself. All attend to the cached tokens.
    """
    import torch

    n_window, size = window * (ngram - 1), ngram - 1
    m = n_window + guesses * size
    level, column = np.divmod(np.arange(n_window), window)
    offsets = [*(level + column).tolist(), *(list(range(1, ngram)) * guesses)]
    visible = np.zeros((m, m), np.bool_)
    oldest_row = (level[None, :] == 0) & (column[None, :] <= column[:, None])
    own_column = (column[None, :] == column[:, None]) & (level[None, :] <= level[:, None])
    visible[:n_window, :n_window] = oldest_row | own_column
    visible[n_window:, 0] = True
    for start in range(n_window, m, size):
        visible[start : start + size, start : start + size] = np.tri(size, dtype=np.bool_)
    return offsets, torch.from_numpy(visible)


class LookaheadSequence:
    """The window and the pool of one sequence.

    After a pass that committed k > 1 tokens the rows of k - 1 passes are missing in the window. It moves on by one row,
    so that trajectories stay complete but their positions shift, as in the released code, and so in the paper's figures
    (Algorithm 1, line 8, replaces the missing rows by random ones; then n-grams end randomly).

    Parameters
    ----------
    settings : W, N and G (``window``, ``ngram``, ``guesses``); the paper sets G = W.
    prompt : prompt of the sequence; the window's first guesses are drawn from its tokens.
    seed : seed of those guesses; it affects the number of passes of a text, never the text.
    """

    def __init__(self, settings: Speculation, prompt: Sequence[int], *, seed: int = 0) -> None:
        self.settings = settings
        self.pool = NGramPool(per_token=settings.guesses)
        random = np.random.default_rng(seed & (2**63 - 1))
        source = np.unique(np.asarray(prompt, np.int64))
        self._window = [random.choice(source, settings.window).tolist() for _ in range(settings.ngram - 1)]

    @property
    def window_rows(self) -> int:
        """Tokens that the lookahead branch computes, including the current one: W (N - 1)."""
        return self.settings.window * (self.settings.ngram - 1)

    def propose(self, current: int, space: int) -> Rows:
        """The window and the n-grams that begin with the current token, in at most ``space`` rows (>= 1).

        Without space for the window, only the current token: a plain pass.
        """
        s, size = self.settings, self.settings.ngram - 1
        if space < self.window_rows:
            return Rows(ids=[current])
        grams = self.pool.after(current)[: min(s.guesses, (space - self.window_rows) // size)]
        ids = [token for row in self._window for token in row]
        ids[0] = current
        for gram in grams:
            ids += gram
        offsets, visible = pass_layout(s.window, s.ngram, len(grams))
        return Rows(ids=ids, n_drafted=size if grams else 0, offsets=offsets, visible=visible, memo=grams)

    def verify(self, rows: Rows, likeliest: Sequence[int], token: Callable[[int, int], int]) -> Verdict:
        """Keep the longest accepted n-gram, pool the columns, move the window on.

        Parameters
        ----------
        rows : result of `propose`.
        likeliest : the likeliest next token after each row.
        token : (row, depth) -> the token drawn after a row, ``depth`` tokens after the current one.
        """
        s, size = self.settings, self.settings.ngram - 1
        first = self.window_rows

        def row_of(guess: int, depth: int) -> int:
            return first + guess * size + depth - 1 if depth else 0

        tokens, leader = by_draw(rows.memo or (), lambda guess, depth: token(row_of(guess, depth), depth))
        if len(rows.ids) >= first:
            newest = list(likeliest[first - s.window : first])
            self._window[0][0] = rows.ids[0]
            for gram in zip(*self._window, newest, strict=True):
                self.pool.add(gram)
            self._window = [*self._window[1:], newest]
        kept = [row_of(leader, depth) for depth in range(len(tokens))]
        return Verdict(tokens=list(tokens), n_accepted=len(tokens) - 1, kept=kept)

    def resumed(self, prompt: Sequence[int], *, seed: int) -> LookaheadSequence:
        """A state with the same window and pool, for a prompt that begins with this state's text."""
        twin = LookaheadSequence(self.settings, prompt, seed=seed)
        twin.pool = self.pool.copy()
        twin._window = [list(row) for row in self._window]
        return twin
