"""What scripted engines reply: a text or a choice whose times, where none are given, are those of its end."""

from collections.abc import Sequence

from calibrate.engines.protocol import Choice, Finish, Generation, Times


def times(
    end: float = 0.0, *, queued: float | None = None, start: float | None = None, first: float | None = None
) -> Times:
    """Times of a request, s: queued, its prefill from ``start`` to its first token, and its end."""
    queued, start, first = (end if moment is None else moment for moment in (queued, start, first))
    return Times(queued=queued, prefill_start=start, first_token=first, end=end)


def generated(
    n: int,
    at: Times | None = None,
    *,
    text: str = "x",
    ids: tuple[int, ...] = (),
    finish: Finish = "eos",
    n_prompt: int = 1,
) -> Generation:
    """A text of ``n`` generated tokens, the first of them by its prefill."""
    return Generation(
        text=text,
        token_ids=ids,
        n_generated=n,
        finish=finish,
        n_prompt_tokens=n_prompt,
        n_cached_tokens=0,
        times=at or times(),
    )


def chosen(choices: Sequence[str], probabilities: tuple[float, ...], at: Times | None = None) -> Choice:
    """A choice whose replies have all the probability."""
    return Choice(
        choices=tuple(choices),
        probabilities=probabilities,
        mass=1.0,
        n_prompt_tokens=3,
        n_cached_tokens=0,
        times=at or times(),
    )


class Scripted:
    """What scripted engines share: tokens are characters, unless their tokenizer is not known here."""

    def __init__(self, name: str = "scripted", tokenizer_id: str | None = "letters") -> None:
        self.name = name
        self.tokenizer_id = tokenizer_id

    def encode(self, text: str) -> tuple[int, ...] | None:
        return tuple(map(ord, text)) if self.tokenizer_id else None

    async def count_tokens(self, text: str) -> int:
        return len(text)

    def describe(self) -> dict[str, object]:
        return {}

    async def close(self) -> None:
        return None
