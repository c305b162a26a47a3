"""Steps in the text of one request: plain decoding writes an answer as a whole, and its steps are marks in it."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import accumulate, pairwise

from calibrate.engines.protocol import Backend, Generation
from calibrate.running.verifiers import StepText
from sim.operations import Step, steps_after

__all__ = ["StepMarks"]


class StepMarks:
    """Cuts a text into steps while it arrives.

    The tokens of a piece belong to the step that ends in it, but for one for each part after it. Of an engine that
    hands over its text as a whole (`calibrate.engines.protocol.Progress`), the tokenizer tells the tokens of each step,
    and its moment is that of its last token, tokens being evenly spaced between the first and the last.

    Attributes
    ----------
    last : the step that ended last; ``prefix`` at first.
    n_tokens : tokens of the steps that have ended.
    """

    def __init__(self, prefix: Step, role: str, separator: str) -> None:
        self.last = self._prefix = prefix
        self.n_tokens = 0
        self._role = role
        self._separator = separator
        self._text = ""
        self._n_new = 0

    @property
    def n_seen(self) -> int:
        """Tokens that have arrived."""
        return self.n_tokens + self._n_new

    def take(self, text: str, n_tokens: int) -> bool:
        """Take a piece of text and its tokens; return whether a step ends in it."""
        n_before = len(self._text) - len(self._separator) + 1
        self._text += text
        self._n_new += n_tokens
        if self._text.find(self._separator, n_before if n_before > 0 else 0) < 0:  # what came before holds none
            return False
        *steps, rest = self._text.split(self._separator)
        n_parts = len(steps) + bool(rest)
        for i, step in enumerate(steps, 1):
            self._text, n_arrived = step + self._separator, self._n_new
            self._n_new = max(n_arrived - (n_parts - i), min(n_arrived, 1))  # a token is left for each part after it
            n_left = n_arrived - self._n_new
            self.cut()
            self._n_new = n_left
        self._text = rest
        return True

    def cut(self, *, final: bool = False, truncated: bool = False) -> None:
        """End a step with what has arrived since the last end."""
        text = StepText(text=self._text, token_ids=None, tokenizer_id=None, written_s=time.monotonic())
        self._add(text, self._n_new, final=final, truncated=truncated)

    def end(self, written: Generation) -> None:
        """End the last step with its request, whose text has arrived in pieces; the engine's count of tokens holds."""
        self._n_new = max(written.n_generated - self.n_tokens, 0)
        self.end_here(truncated=written.finish == "length")
        self._share(written.token_ids)

    def end_here(self, *, final: bool = True, truncated: bool = False) -> None:
        """End the last step with what has arrived: finally, perhaps by the limit of tokens, or in its midst."""
        if self._n_new or not self.n_tokens:
            self.cut(final=final, truncated=truncated)
        else:  # a token that ended the step before held the rest too
            text = self.last.payload.text + self._text
            self.last.payload, self._text = replace(self.last.payload, text=text), ""
            self.last.final, self.last.truncated = final, truncated

    def _share(self, ids: tuple[int, ...]) -> None:
        """Give each step its tokens, where the engine reports them."""
        if not ids:
            return
        steps = steps_after(self._prefix, self.last)
        ends = list(accumulate((step.n_tokens for step in steps[:-1]), initial=0))
        for step, (begin, end) in zip(steps, pairwise([*ends, None]), strict=True):
            step.payload = replace(step.payload, token_ids=ids[begin:end])

    def whole(self, written: Generation, backend: Backend) -> None:
        """Cut a text that did not arrive in pieces."""
        texts = _split(written.text, self._separator)
        known = [len(backend.encode(text) or ()) for text in texts[:-1]]
        if not all(known):  # no tokenizer: all characters count alike
            each = written.n_generated / max(len(written.text), 1)
            known = [max(round(each * len(text)), 1) for text in texts[:-1]]
        ends = [0]
        for n_left, n in reversed(list(enumerate(reversed(known), 1))):
            ends.append(max(min(ends[-1] + n, written.n_generated - n_left), ends[-1]))
        first, last = written.times.first_token, written.times.end
        for n_left, text, (begin, end) in zip(
            reversed(range(len(texts))), texts, pairwise([*ends, written.n_generated]), strict=True
        ):
            share = (end - 1) / (written.n_generated - 1) if written.n_generated > 1 else 1.0
            ids = written.token_ids[begin : end if n_left else None]
            payload = StepText(
                text=text, token_ids=ids, tokenizer_id=backend.tokenizer_id, written_s=first + share * (last - first)
            )
            self._add(payload, end - begin, final=not n_left, truncated=not n_left and written.finish == "length")

    def _add(self, text: StepText, n_tokens: int, *, final: bool, truncated: bool) -> None:
        self.last = Step(self.last, self._role, n_tokens, final, truncated, text)
        self.n_tokens += n_tokens
        self._text, self._n_new = "", 0


def _split(text: str, separator: str) -> list[str]:
    """Return a text as steps that end with the separator, except the last; an empty end belongs to the step before.

    >>> _split("one, two, ", ", ")
    ['one, ', 'two, ']
    """
    parts = text.split(separator)
    steps = [part + separator for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
    return steps or [text]
