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

Sequences are independent: each has its own rows, and a pass serves all of a batch, padded to the longest. A text is
generated step by step, with a request each, so the state of a finished request is kept for requests whose prompts
extend it: the next step, and, where the draft's version of a step replaces the target's, the step after it. A request
never uses n-grams of an earlier reply to its own prompt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from calibrate.engines.sampling import draw, uniform
from calibrate.engines.torch.token_methods.protocol import Rows, TokenMethod, Verdict
from calibrate.record.prompt_lookup import common

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from calibrate.engines.speculation import Speculation
    from calibrate.engines.torch.job import Job

__all__ = ["LookaheadDecoding", "LookaheadSequence", "by_draw", "pass_layout"]

_SHELF: Final = 64
"""States of ended requests that are kept for requests whose prompts extend theirs."""

Gram: TypeAlias = tuple[int, ...]
"""An n-gram without its first token."""


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

    The pool has the latest ``guesses`` n-grams of each first token: a pass verifies no others, and an old one becomes
    the latest only by being added again.

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
        self._pool: dict[int, dict[Gram, None]] = {}
        random = np.random.default_rng(seed & (2**63 - 1))
        source = np.unique(np.asarray(prompt, np.int64))
        self._window = [random.choice(source, settings.window).tolist() for _ in range(settings.ngram - 1)]

    @property
    def window_rows(self) -> int:
        """Tokens that the lookahead branch computes, including the current one: W (N - 1)."""
        return self.settings.window * (self.settings.ngram - 1)

    def add(self, gram: Sequence[int]) -> None:
        """Add an n-gram to the pool, given with its first token; one that is there becomes the latest."""
        known = self._pool.setdefault(gram[0], {})
        rest = tuple(gram[1:])
        known.pop(rest, None)
        known[rest] = None
        if len(known) > self.settings.guesses:
            del known[next(iter(known))]

    def after(self, token: int) -> list[Gram]:
        """The n-grams that begin with ``token``, without it, the latest first."""
        return list(reversed(self._pool.get(token, {})))

    def propose(self, current: int, space: int) -> Rows:
        """The window and the n-grams that begin with the current token, in at most ``space`` rows (>= 1).

        Without space for the window, only the current token: a plain pass.
        """
        s, size = self.settings, self.settings.ngram - 1
        if space < self.window_rows:
            return Rows(ids=[current])
        grams = self.after(current)[: min(s.guesses, (space - self.window_rows) // size)]
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
                self.add(gram)
            self._window = [*self._window[1:], newest]
        kept = [row_of(leader, depth) for depth in range(len(tokens))]
        return Verdict(tokens=list(tokens), n_accepted=len(tokens) - 1, kept=kept)

    def copy(self) -> LookaheadSequence:
        """An independent state with the same window and pool."""
        twin = copy(self)
        twin._pool = {token: dict(grams) for token, grams in self._pool.items()}
        twin._window = [list(row) for row in self._window]
        return twin


class LookaheadDecoding(TokenMethod):
    """Lookahead Decoding for the sequences of an engine; tokens are those that plain decoding draws with the same seed.

    Parameters
    ----------
    max_rows : most rows of a sequence in a pass; n-grams, then the window, are left out beyond that.
    """

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._kept: OrderedDict[tuple[int, ...], tuple[tuple[int, ...], LookaheadSequence]] = OrderedDict()
        """Texts of the latest requests that have ended -> their prompts, and their states."""

    def propose(self, jobs: Sequence[Job], room: Sequence[int]) -> list[Rows]:
        """The window of each job, and the n-grams of its pool that begin with its last token."""
        return [self._state(job).propose(job.tokens[-1], self._max_rows) for job in jobs]

    def verify(self, jobs: Sequence[Job], rows: Sequence[Rows], logits: Tensor, hidden: Tensor) -> list[Verdict]:
        """The longest right n-gram of each job, and one more token."""
        likeliest: list[int] = logits.argmax(-1).tolist()
        verdicts, first = [], 0
        for job, seq in zip(jobs, rows, strict=True):
            end = first + len(seq.ids)
            own, best = logits[first:end], likeliest[first:end]
            verdicts.append(self._state(job).verify(seq, best, partial(_drawn, job, own, best)))
            first = end
        return verdicts

    def leave(self, job: Job) -> None:
        """Keep the state of a job that ended normally."""
        if job.memo is not None and job.finish:
            text = (*job.prompt, *job.tokens)
            self._kept.pop(text, None)
            self._kept[text] = tuple(job.prompt), job.memo
            if len(self._kept) > _SHELF:
                self._kept.popitem(last=False)
        job.memo = None

    def forget(self) -> None:
        """Drop the states of requests that have ended: else a run would profit from another's text."""
        self._kept.clear()

    def kept(self, prompt: Sequence[int], settings: Speculation) -> LookaheadSequence | None:
        """The kept state with the same settings whose text has the longest common prefix with the prompt.

        On a tie, the latest. Its own prompt must be a proper prefix of this prompt: then it has no text after this
        prompt, such as an earlier reply to it, and at most another version of its last step.
        """
        whole, best, most = tuple(prompt), None, -1
        for text, (own, state) in self._kept.items():
            if len(own) < len(whole) and state.settings == settings and whole[: len(own)] == own:
                shared = common(text, whole)
                if shared >= most:
                    best, most = state, shared
        return best

    def _state(self, job: Job) -> LookaheadSequence:
        if job.memo is None:
            assert job.speculation is not None
            kept = self.kept(job.prompt, job.speculation)
            job.memo = kept.copy() if kept else LookaheadSequence(job.speculation, job.prompt, seed=job.seed)
        known: LookaheadSequence = job.memo
        return known


def _drawn(job: Job, logits: Tensor, likeliest: Sequence[int], row: int, depth: int) -> int:
    """The token after a row of a pass that plain decoding draws ``depth`` tokens after the committed ones."""
    if job.sampling.temperature == 0.0:
        return likeliest[row]
    return draw(logits[row : row + 1], [job.sampling], [uniform(job.seed, len(job.tokens) + depth)])[0]
