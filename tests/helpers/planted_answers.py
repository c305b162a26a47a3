"""What a planted server is like, and what it says: the tokens of its answers and how they are told."""

import hashlib
import math
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from operator import mul
from typing import Any

GOLDEN = (5**0.5 - 1) / 2

WORDS = ("alpha", "beta", "gamma", "delta", "one", "two", "three", "four", "so", "then", "thus", "hence")
VOCABULARY = ("", "\n\n", " Yes", " No", *(f" {word}" for word in WORDS))
HALVES = ("\ue001", "\ue002")
"""Tokens that are a character together, of servers whose text follows."""
OTHERS = list(HALVES)
"""What else has been seen in prompts: their ids are 100 and more."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """What a server is like."""

    model: str = "tiny"
    iteration_s: float = 0.0
    sequence_s: float = 0.0
    """An iteration of b requests takes ``iteration_s + b * sequence_s``."""
    prefill_s: float = 0.0
    prefill_token_s: float = 0.0
    joining_s: float | None = None
    """What a prompt adds to the iteration of others that reads it; None: prompts are read apart from iterations."""
    reading_s: float | None = None
    """Least time of an iteration that reads prompts, whatever it decodes: reading hides decoding. As `joining_s`."""
    k2: int = 1
    """Tokens that an iteration gives a request: 1 to ``k2``, equally likely."""
    row_s: float = 0.0
    """Time of a drafted token of each request in an iteration."""
    accepted: tuple[float, ...] = ()
    """In place of equal chances: the chance that a drafted token is right if those before it were, by position. Passes
    of a request take the numbers of tokens in even turns, so that few of them have the mean that is planted."""
    step_tokens: tuple[int, int] = (4, 12)
    """Least and greatest length of a step, its end included; uniform in between."""
    steps: int = 4
    """Steps of an answer."""
    follows: bool = False
    """Whether each token is a function of the text before it, so that a text goes on alike wherever it is cut. A step
    has 8 tokens on average, and some characters take two."""
    acceptance: float = 0.7
    """Share of questions to a judge that are answered with yes."""
    key: str = ""
    max_context: int = 4096
    max_running: int = 1000
    tells_ids: bool = True
    includes_stop: bool = True
    tells_stop: bool = True
    tokenizes: bool = True
    chats: bool = False
    """Whether it renders chats, and turns tokens back into text."""
    refuses_unknown: bool = False
    logprobs: int = 20
    """Most log-probabilities that may be asked for; 0: the server gives none."""
    foreign_requests: int = 0
    """Requests of others, as ``/metrics`` tells."""
    counts: bool = False
    """Whether ``/metrics`` has counters too."""
    processor: Counter[object] | None = None
    """What servers do now that share a processor equally: iterations and prefills take so many times as long as servers
    work there when they begin. None: its own."""
    most_accepted: int = 10**9
    """Requests in flight beyond which another one is refused with 429."""

    def pass_s(self, batch: int, prompts: int, prompt_tokens: int) -> float:
        """Seconds of an iteration that decodes ``batch`` requests and reads these prompts."""
        plain = self.iteration_s + (self.sequence_s + self.row_s * (self.k2 - 1)) * batch
        if not prompts:
            return plain
        read = prompts * (self.joining_s or 0.0) + self.prefill_token_s * prompt_tokens
        return plain + read if self.reading_s is None else max(plain, self.reading_s + read)

    def right(self, turn: float) -> int:
        """Right tokens of a draft, by the turn of its pass in [0, 1): those reached with a greater chance."""
        return sum(turn < chance for chance in accumulate(self.accepted, mul))

    @property
    def per_pass(self) -> float:
        """Mean tokens that an iteration gives a request whose end is far."""
        if not self.accepted:
            return (1 + self.k2) / 2
        return 1.0 + sum(accumulate(self.accepted, mul))


@dataclass
class Answer:
    """A whole answer, and how the server tells it."""

    planted: Planted
    body: dict[str, Any]
    tokens: list[str]

    @property
    def _ended(self) -> str | None:
        last = self.tokens[-1]
        if self.body.get("ignore_eos") and not self.body.get("stop"):
            return None
        return last if last in ("", *(self.body.get("stop") or ())) else None

    def chunk(self, position: int, n: int) -> dict[str, Any]:
        planted, last = self.planted, position + n == len(self.tokens)
        tokens = self.tokens[position : position + n]
        includes = planted.includes_stop and self.body.get("include_stop_str_in_output")
        stopped = last and bool(self._ended)
        said = "".join(tokens[:-1] if stopped and not includes else tokens)
        if said.startswith(HALVES[1]):
            said = HALVES[0] + said
        choice: dict[str, Any] = {"index": 0, "text": whole(said).removesuffix(HALVES[0])}
        choice["finish_reason"] = None if not last else "length" if self._ended is None else "stop"
        if planted.tells_stop:
            choice["stop_reason"] = self._ended or None if last else None
        if planted.tells_ids and self.body.get("return_token_ids"):
            choice["token_ids"] = list(map(id_of, tokens))
            choice |= {} if position else {"prompt_token_ids": ids_of(self.body["prompt"])}
        if self.body.get("logprobs") and planted.logprobs:
            choice["logprobs"] = self.logprobs(tokens[0])  # judges ask for one
        return {"object": "text_completion", "choices": [choice], "usage": None}

    def usage(self) -> dict[str, int]:
        return {"prompt_tokens": len(split(self.body["prompt"])), "completion_tokens": len(self.tokens)}

    def whole(self) -> dict[str, Any]:
        forced = (self.body.get("structured_outputs") or {}).get("choice")
        if forced:
            logs = {"token_logprobs": [-9.0], "tokens": forced, "top_logprobs": [{forced[0]: -9.0}]}
            return {"choices": [{"text": forced[0], "logprobs": logs, "finish_reason": "stop"}], "usage": self.usage()}
        return {**self.chunk(0, len(self.tokens)), "usage": self.usage()}

    def logprobs(self, token: str) -> dict[str, Any]:
        """Yes or no with 0.95 of the probability after a judge's question, else words."""
        prompt, n = self.body["prompt"], self.body["logprobs"]
        probabilities = {f" {word}": 0.05 / len(WORDS) for word in WORDS}
        if prompt.endswith("Answer (Yes or No):") or prompt.endswith("Answer:"):
            share = 0.9 if draw(prompt) < self.planted.acceptance else 0.1
            probabilities |= {" Yes": 0.95 * share, " No": 0.95 * (1 - share)}
        best = sorted(probabilities.items(), key=lambda item: -item[1])[:n]
        top = {token: math.log(p) for token, p in best}
        return {"tokens": [token], "token_logprobs": [-1.0], "top_logprobs": [top], "text_offset": [0]}


def answer_to(body: dict[str, Any], planted: Planted) -> Answer:
    """What a server says to a request."""
    prompt = str(body["prompt"])
    rng = random.Random(f"{planted.model}|{prompt}|{body.get('seed')}")
    stops, tokens = tuple(body.get("stop") or ()), list[str]()
    done = prompt.count("\n\n")
    endless = bool(body.get("ignore_eos")) and not stops
    if planted.follows:
        return Answer(planted, body, list(islice(_following(prompt, stops, planted.steps), body.get("max_tokens", 16))))
    while len(tokens) < body.get("max_tokens", 16):
        tokens += [f" {rng.choice(WORDS)}" for _ in range(rng.randint(*planted.step_tokens) - 1)]
        if endless:
            continue
        done += 1
        tokens.append("" if done > planted.steps - 1 else "\n\n")
        if tokens[-1] in ("", *stops):
            break
    return Answer(planted, body, tokens[: body.get("max_tokens", 16)])


def _following(text: str, stops: tuple[str, ...], steps: int) -> Iterator[str]:
    """The tokens after a text, to its end."""
    token: str | None = None
    while token not in ("", *stops):
        text = whole(text + (token or ""))
        at = draw(text)
        token = HALVES[0] if at < 1 / 4 else f" {WORDS[int(1e6 * at) % len(WORDS)]}"
        if text.endswith(HALVES[0]):
            token = HALVES[1]
        elif at < 1 / 8:
            token = "\n\n" if text.count("\n\n") < steps - 1 else ""
        yield token


def draw(text: str) -> float:
    """A number in [0, 1) that is a hash of the text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") / 2**56


def split(text: str) -> list[str]:
    """The tokens of a text."""
    return re.findall(r"\n\n|[\ue001\ue002]| ?[^\s\ue001\ue002]+", text)


def id_of(token: str) -> int:
    """The id of a token."""
    if token in VOCABULARY:
        return VOCABULARY.index(token)
    if token not in OTHERS:
        OTHERS.append(token)
    return 100 + OTHERS.index(token)


def ids_of(text: str) -> list[int]:
    """The ids of a text's tokens."""
    return [id_of(token) for token in split(text)]


def text_of(ids: list[int]) -> str:
    """The text of tokens, halves of characters apart."""
    return "".join(VOCABULARY[one] if one < 100 else OTHERS[one - 100] for one in ids)


def whole(text: str) -> str:
    """A text with its halves of characters joined."""
    return text.replace("".join(HALVES), "é")
