"""A small OpenAI-compatible server with planted latencies, step lengths, acceptance and faults, on 127.0.0.1.

It batches as engines do: an iteration gives every running request one token (or up to ``k2`` of them, if it
speculates), and takes as long as planted for that many. Iterations end at fixed moments, so that a late wake-up does
not add up, and their mean is what was planted.
"""

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from connections import ConnectionServer, in_thread
from planted_answers import GOLDEN, HALVES, Answer, Planted, answer_to, ids_of, split, text_of

CUT = {
    "truncate": '{"choices": [{"text": "al',
    "error": '{"error": {"message": "planted", "code": 500}}',
    "abort": '{"choices": [{"text": "", "finish_reason": "abort"}]}',  # as vLLM does when it is stopped
    "quiet": '{"choices": [{"text": ""}]}',
    "short": "",
}
"""Last event of an answer that is cut off; a stream without more after it."""
ENDINGS = ("die", "cut", *CUT)

KNOWN = {
    "model", "prompt", "max_tokens", "temperature", "top_p", "seed", "stop", "stream", "stream_options", "logprobs",
}  # fmt: skip

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

Plan = Callable[[int], str]
"""Number of a request, counted from 0, to its fault (`OpenAIServer.fail`) if it is for a completion; empty: none."""


def without_faults(number: int) -> str:
    """The plan of a server that does nothing wrong."""
    return ""


@dataclass
class Sequence:
    """A request being decoded."""

    planted: Planted
    left: int
    passes: random.Random
    turn: float = -1.0
    tokens: asyncio.Queue[int] = field(default_factory=asyncio.Queue)
    """Tokens of each iteration."""
    n_prompt: int = 0
    """Tokens of the prompt, which is to be read in an iteration of others."""
    is_read: asyncio.Event = field(default_factory=asyncio.Event)

    def committed(self) -> int:
        """Tokens that the next iteration gives it."""
        planted = self.planted
        if not planted.accepted:
            return min(self.passes.randint(1, planted.k2), self.left)
        self.turn = self.passes.random() if self.turn < 0.0 else (self.turn + GOLDEN) % 1.0
        return min(1 + planted.right(self.turn), self.left)


class Died(Exception):  # noqa: N818 (a signal)
    """The connection is to be cut."""


class OpenAIServer(ConnectionServer):
    """The server.

    Attributes
    ----------
    seen : faults that happened, and how often.
    """

    def __init__(self, planted: Planted) -> None:
        super().__init__()
        self.planted = planted
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.aborted = 0
        self.faults: dict[int, str] = {}
        """Number of a completion request, counted from 0: what happens to it."""
        self.plan: Plan = without_faults
        self.seen = Counter[str]()
        self._later: list[asyncio.Task[None]] = []
        self._running: list[Sequence] = []
        self._joining: list[Sequence] = []
        self._waiting = 0
        self._in_flight = self.most_in_flight = 0
        self.counted = dict.fromkeys(("tokens", "drafts", "accepted"), 0)
        self._processor = Counter[object]() if planted.processor is None else planted.processor
        self._work = asyncio.Event()
        self._free = asyncio.Semaphore(planted.max_running)
        self._decoding: asyncio.Task[None]

    def fail(self, fault: str, *, after: int = 0, times: int = 1) -> None:
        """Plant a fault in requests that come later.

        ``STATUS`` or ``STATUS:S``: an error with Retry-After 0 or S. ``delay:S``: it waits S seconds; ``stall``: for
        ever. ``reset``: the connection breaks. ``gone:S``: all do, and the server is gone for S seconds. After N tokens
        of an answer, ``die:N``: the connection breaks; ``cut:N``: so it does in the middle of the next event;
        ``short:N``, ``truncate:N``, ``error:N``, ``abort:N``, ``quiet:N``: the body ends as if it were whole (`CUT`).
        """
        start = len(self.bodies) + after
        self.faults.update(dict.fromkeys(range(start, start + times), fault))

    async def start(self) -> None:
        await super().start()
        self._decoding = asyncio.create_task(self._decode())

    async def stop(self) -> None:
        tasks = (self._decoding, *self._later)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().stop()

    def _leave(self, seconds: float) -> None:
        """Be gone for a while: connections break, and new ones are refused."""

        async def gone() -> None:
            await ConnectionServer.stop(self)
            await asyncio.sleep(seconds)
            await ConnectionServer.start(self)

        self._later.append(self.loop.create_task(gone()))

    async def _decode(self) -> None:
        """Iterations, for ever."""
        while True:
            await self._work.wait()
            with self._busy():
                await self._iterate()
            self._work.clear()

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Count as working on the processor."""
        self._processor[self] += 1
        try:
            yield
        finally:
            self._processor[self] -= 1

    async def _iterate(self) -> None:
        """Iterations until nothing is left to do."""
        planted, moment = self.planted, time.monotonic()
        while self._running or self._joining:
            batch, joining = list(self._running), list(self._joining)
            n_read = sum(prompt.n_prompt for prompt in joining)
            moment += len(+self._processor) * planted.pass_s(len(batch), len(joining), n_read)
            await asyncio.sleep(max(moment - time.monotonic(), 0.0))
            for sequence in batch:
                n = self._count(sequence.committed())
                sequence.tokens.put_nowait(n)
                sequence.left -= n
                if sequence.left <= 0 and sequence in self._running:
                    self._running.remove(sequence)
            for sequence in joining:
                self._joining.remove(sequence)
                sequence.is_read.set()
                if sequence.left:
                    self._running.append(sequence)

    def _count(self, n: int) -> int:
        self.counted["tokens"] += n
        self.counted["drafts"] += self.planted.k2 > 1
        self.counted["accepted"] += n - 1
        return n

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(Died):
            while True:
                await self._request(reader, writer)

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        self.headers.append(headers)
        if self.planted.key and headers.get("authorization") != f"Bearer {self.planted.key}":
            self._send(writer, 401, {"error": {"message": f"bad key {headers.get('authorization')}"}})
        elif path == "/v1/completions" and method == "POST":
            await self._completion(reader, writer, body)
        else:
            self._page(writer, path, body)
        await writer.drain()

    def _page(self, writer: asyncio.StreamWriter, path: str, body: dict[str, Any]) -> None:
        planted = self.planted
        if path == "/v1/models":
            card = {"id": planted.model, "owned_by": "test", "max_model_len": planted.max_context}
            self._send(writer, 200, {"object": "list", "data": [card]})
        elif path == "/version":
            self._send(writer, 200, {"version": "1.2.3"})
        elif path == "/tokenize" and planted.chats and "messages" in body:
            end = "" if body.get("chat_template_kwargs", {}).get("enable_thinking", True) else " hence"
            said = " so" + "".join(f" {message['content']}" for message in body["messages"]) + " thus" + end
            self._send(writer, 200, {"tokens": ids_of(said)})
        elif path == "/detokenize" and planted.chats:
            self._send(writer, 200, {"prompt": text_of(body["tokens"])})
        elif path == "/tokenize" and planted.tokenizes and "prompt" in body:
            ids = ids_of(body["prompt"])
            self._send(writer, 200, {"count": len(ids), "tokens": ids})
        elif path == "/metrics":
            self._send(writer, 200, self._metrics())
        else:
            self._send(writer, 404, {"detail": "Not Found"})

    def _metrics(self) -> str:
        planted, counted = self.planted, self.counted
        values = {'num_requests_running{engine="0"}': planted.foreign_requests}
        if planted.counts:
            values |= {"num_requests_waiting": self._waiting, "generation_tokens_total": counted["tokens"]}
        if planted.counts and planted.k2 > 1:
            spec = "spec_decode_num_"
            values |= {f"{spec}drafts_total": counted["drafts"], f"{spec}accepted_tokens_total": counted["accepted"]}
            values[f"{spec}draft_tokens_total"] = counted["drafts"] * (planted.k2 - 1)
        return "".join(f"vllm:{name} {value}.0\n" for name, value in values.items())

    def _send(self, writer: asyncio.StreamWriter, status: int, body: Any, extra: str = "") -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n{extra}\r\n".encode() + data)

    async def _completion(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: dict[str, Any]
    ) -> None:
        self.bodies.append(body)
        fault = self.faults.get(len(self.bodies) - 1, "") or self.plan(len(self.headers) - 1)
        kind, _, value = fault.partition(":")
        self.seen[fault] += kind not in ("", *ENDINGS)
        if kind in ("delay", "stall"):
            await asyncio.sleep(float(value or 3600))
        elif kind == "gone":
            self._leave(float(value))
        elif kind.isdigit():
            error = {"error": {"message": "planted"}}
            self._send(writer, int(kind), error, f"Retry-After: {value or 0}\r\n")
            return
        if kind in ("reset", "gone"):
            raise Died
        if isinstance(body["prompt"], list):
            body = {**body, "prompt": text_of(body["prompt"])}
        refusal = self._refusal(body)
        if refusal:
            self._send(writer, 400, {"error": {"message": refusal, "type": "BadRequestError"}})
            return
        answer = answer_to(body, self.planted)
        if body.get("structured_outputs"):
            self._send(writer, 200, answer.whole())
            return
        if self._in_flight >= self.planted.most_accepted:
            self._send(writer, 429, {"error": {"message": "too many requests"}}, "Retry-After: 0\r\n")
            return
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        self._waiting += 1
        try:
            async with self._free:
                self._waiting -= 1
                sequence = Sequence(self.planted, len(answer.tokens) - 1, random.Random("".join(answer.tokens)))
                try:
                    await self._prefill(sequence, len(split(body["prompt"])))
                    self._count(1)
                    if body.get("stream"):
                        writer.write(STREAM)
                    await self._write(reader, writer, answer, sequence, fault)
                finally:
                    self._drop(sequence)
        finally:
            self._in_flight -= 1

    async def _prefill(self, sequence: Sequence, n_prompt: int) -> None:
        """Read a prompt, in iterations of others if there are any; then its request decodes."""
        planted = self.planted
        if (planted.joining_s, planted.reading_s) != (None, None) and self._running:
            sequence.n_prompt = n_prompt
            self._joining.append(sequence)
            await sequence.is_read.wait()
            return
        with self._busy():
            await asyncio.sleep(len(+self._processor) * (planted.prefill_s + planted.prefill_token_s * n_prompt))
        if sequence.left:
            self._running.append(sequence)
            self._work.set()

    def _refusal(self, body: dict[str, Any]) -> str:
        if body["prompt"].endswith(HALVES[0]):
            return "The prompt ends within a character"  # of which vLLM writes the whole prompt again
        n = len(split(body["prompt"])) + body.get("max_tokens", 16)
        if n > self.planted.max_context:
            return f"This model's maximum context length is {self.planted.max_context} tokens, you asked for {n}"
        unknown = sorted(body.keys() - KNOWN)
        if self.planted.refuses_unknown and unknown:
            return f"Unrecognized request argument supplied: {unknown[0]}"
        if (body.get("logprobs") or 0) > self.planted.logprobs > 0:
            return f"Requested logprobs of {body['logprobs']}, more than max_logprobs {self.planted.logprobs}"
        return ""

    async def _write(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer, sequence: Sequence, fault: str
    ) -> None:
        """Write an answer as its tokens are there, or at their end."""
        kind, _, at = fault.partition(":")
        streams = bool(answer.body.get("stream"))
        position = n = 0
        while position + n < len(answer.tokens):
            position += n
            n = await sequence.tokens.get() if position else 1
            if kind in ENDINGS and position == int(at):
                self.seen[fault] += 1
                await self._end_early(writer, answer, kind, answer.chunk(position, n) if streams else answer.whole())
                return
            if reader.at_eof():
                self.aborted += 1
                raise Died
            if streams:
                self._event(writer, answer.chunk(position, n))
                await writer.drain()
        if not streams:
            self._send(writer, 200, answer.whole())
            return
        if answer.body.get("stream_options", {}).get("include_usage"):
            self._event(writer, {"choices": [], "usage": answer.usage()})
        self._chunk(writer, b"data: [DONE]\n\n")
        self._chunk(writer, b"")

    async def _end_early(self, writer: asyncio.StreamWriter, answer: Answer, kind: str, said: dict[str, Any]) -> None:
        """End an answer by a fault in place of ``said``, an event or the whole answer."""
        streams = bool(answer.body.get("stream"))
        if kind in ("die", "cut"):
            if kind == "cut":
                writer.write(b"" if streams else STREAM)
                self._chunk(writer, json.dumps(said).encode()[:20])
            await writer.drain()
            raise Died
        if not streams:
            self._send(writer, 200, CUT[kind])
            return
        if CUT[kind]:
            self._chunk(writer, b"data: " + CUT[kind].encode() + b"\n\n" * (kind != "truncate"))
        if kind == "abort":
            self._event(writer, {"choices": [], "usage": answer.usage()})
        self._chunk(writer, b"")

    def _drop(self, sequence: Sequence) -> None:
        if sequence in self._running:
            self._running.remove(sequence)

    def _event(self, writer: asyncio.StreamWriter, said: dict[str, Any]) -> None:
        self._chunk(writer, b"data: " + json.dumps(said).encode() + b"\n\n")

    @staticmethod
    def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


@contextmanager
def serving(planted: Planted | None = None) -> Iterator[OpenAIServer]:
    """Run a server in a thread with an event loop of its own."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # else a token waits up to 5 ms for the other thread
    try:
        with in_thread(OpenAIServer(planted or Planted())) as server:
            yield server
    finally:
        sys.setswitchinterval(before)


@asynccontextmanager
async def served(*planted: Planted) -> AsyncIterator[list[OpenAIServer]]:
    """Run servers in this event loop, as programs in virtual time do."""
    servers = [OpenAIServer(one) for one in planted]
    for server in servers:
        await server.start()
    try:
        yield servers
    finally:
        for server in servers:
            await server.stop()
