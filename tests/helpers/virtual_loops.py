"""A planted server (`openai_server.Planted`) in virtual time: closed loops of whole answers, and profiles made of them.

No request is sent and nothing waits, so that what is measured and planned is exact whatever else the machine does.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from openai_server import GOLDEN, Planted
from replies import generated, times

from calibrate.engines.http.activity import activity
from calibrate.engines.http.stream import Streamed
from calibrate.engines.protocol import Generation
from calibrate.engines.work import EngineStatistics
from calibrate.loads.closed_loop import Loop, Reading
from calibrate.loads.sums import record_of
from calibrate.measuring.engine_work import _in_use
from calibrate.record.answer_records import Generated, RecordedAnswer
from calibrate.record.engine_records import DecodeSample, EngineRecord, LoadRecord, PrefillSample, PrefillSums
from calibrate.record.profile import ModelRecord, Profile, Provenance
from calibrate.record.token_records import TokenAnswer, TokenRecord, TokenRequest

TRIP_S = 0.001
"""A request on its way to the server."""
PROMPT = 9
"""Tokens of a prompt."""
METHOD = "draft-model"


@dataclass
class Asked:
    """A request on the server."""

    streamed: Streamed
    left: int
    n_prompt: int
    turn: float
    passes: list[tuple[int, int]] = field(default_factory=list)
    """Drafted and right tokens of each pass."""


class VirtualServer:
    """Decodes and reads prompts by planted passes; the moment is ``now``, s."""

    def __init__(self, planted: Planted, seed: int = 0) -> None:
        self.planted = planted
        self.now = 0.0
        self.running: list[Asked] = []
        self.coming: list[Asked] = []
        self.streams: list[Streamed] = []
        self._rng = random.Random(seed)

    def ask(self, n_tokens: int, sent: float, n_prompt: int = PROMPT) -> Asked:
        """Send a request for so many tokens."""
        streamed = Streamed(sent=sent, usage={"prompt_tokens": n_prompt, "prompt_tokens_details": {}}, ids=[])
        asked = Asked(streamed, n_tokens, n_prompt, self._rng.random())
        self.coming.append(asked)
        self.streams.append(streamed)
        return asked

    def iterate(self) -> list[Asked]:
        """Run a pass; return the requests that ended with it."""
        planted = self.planted
        if not self.running:
            self.now = max(self.now, min(asked.streamed.sent for asked in self.coming) + TRIP_S)
        here = [asked for asked in self.coming if asked.streamed.sent + TRIP_S <= self.now + 1e-12]
        reading = here[: max(int(planted.max_running) - len(self.running), 0)]
        n_read = sum(asked.n_prompt for asked in reading)
        decoding = list(self.running)
        if decoding or not reading:
            self.now += planted.pass_s(len(decoding), len(reading), n_read)
        else:
            self.now += planted.prefill_s + planted.prefill_token_s * n_read
        for asked in decoding:
            self._give(asked, self._committed(asked))
        for asked in reading:
            self.coming.remove(asked)
            self.running.append(asked)
            self._give(asked, 1)
        ended = [asked for asked in self.running if not asked.left]
        self.running = [asked for asked in self.running if asked.left]
        for asked in ended:
            asked.streamed.reason, asked.streamed.end = "stop", self.now
        return ended

    def _committed(self, asked: Asked) -> int:
        planted = self.planted
        if planted.k2 == 1:
            return 1
        asked.turn = (asked.turn + GOLDEN) % 1.0
        right = planted.right(asked.turn)
        asked.passes.append((planted.k2 - 1, right))
        return min(1 + right, asked.left)

    def _give(self, asked: Asked, n: int) -> None:
        asked.left -= n
        asked.streamed.ids += [0] * n
        asked.streamed.arrivals.append((self.now, n))

    def work(self) -> EngineStatistics:
        """What is told of it from its streams."""
        return activity(self.streams, trip_s=TRIP_S, k2=self.planted.k2)


def generation(asked: Asked) -> Generation:
    """The result of a request that has ended."""
    first = asked.streamed.arrivals[0][0]
    sent, end = asked.streamed.sent, asked.streamed.end
    told = times(end, queued=sent, start=sent + TRIP_S, first=first)
    return generated(len(asked.streamed.ids), told, n_prompt=PROMPT)


def loaded(planted: Planted, at_once: int, seconds: float, lengths: Sequence[int]) -> LoadRecord:
    """The record of a closed loop with answers of these lengths, in random order."""
    server, ended, rng = VirtualServer(planted), list[Asked](), random.Random(at_once)
    for _ in range(at_once):
        server.ask(rng.choice(lengths), 0.0)
    while server.now < seconds:
        for asked in server.iterate():
            ended.append(asked)
            server.ask(rng.choice(lengths), server.now)
    start, opened, closed = (Reading(None, moment, moment) for moment in (0.0, 0.2 * seconds, server.now))
    loop = Loop(
        at_once=at_once,
        ended=tuple(map(generation, ended)),
        work=server.work(),
        begun=start,
        opened=opened,
        closed=closed,
    )
    method, settings = ("", {}) if planted.k2 == 1 else (METHOD, {"k2": planted.k2})
    record = record_of(loop, method, settings)
    assert record is not None
    return record


def gain(plain: Planted, fast: Planted, at_once: int, lengths: Sequence[int], seconds: float = 60.0) -> float:
    """Tokens per second of a server over those of another, in long closed loops."""
    own, base = (loaded(one, at_once, seconds, lengths) for one in (fast, plain))
    return (own.tokens / own.seconds) / (base.tokens / base.seconds)


def profile_of(
    plain: Planted, fast: Planted, answers: Sequence[Sequence[int]], levels: Sequence[int], seconds: float = 6.0
) -> Profile:
    """What a calibration of both servers records: answers with steps of these tokens, and loads."""
    lengths = [sum(steps) for steps in answers]
    in_use, recorded, by_method = [], [], []
    for number, steps in enumerate(answers):
        base, own = (_alone(planted, sum(steps), number) for planted in (plain, fast))
        in_use.append(_in_use(base[0].work(), (), (TRIP_S,)))
        ends = [base[1].streamed.arrivals[n - 1][0] for n in accumulate(steps)]
        baseline = [
            Generated(tokens=n, seconds=end - begin, final=i == len(steps) - 1)
            for i, (n, end, begin) in enumerate(zip(steps, ends, [0.0, *ends], strict=False))
        ]
        recorded.append(RecordedAnswer(problem=str(number), prompt_tokens=PROMPT, steps=[], baseline=baseline))
        by_method.append(_token_answer(str(number), *own, list(accumulate(steps))))
    loads = [loaded(planted, n, seconds, lengths) for n in levels for planted in (plain, fast)]
    prefills = [plain.prefill_s + plain.prefill_token_s * n for n in (4, 32)]
    engine = EngineRecord(
        device="gpu",
        decode=[DecodeSample(batch=n, context=10 * n, seconds=plain.pass_s(n, 0, 0)) for n in (1, 2) for _ in range(4)],
        prefill=[PrefillSample(tokens=n, seconds=s) for n, s in zip((4, 32), prefills, strict=True) for _ in range(2)],
        request_s=[TRIP_S] * 4,
        plain_in_use=in_use,
        by_load=loads,
    )
    return Profile(
        name="virtual",
        source="measured",
        provenance=Provenance(created="2026-01-01", engine="vllm"),
        models={"target": ModelRecord(name="big")},
        placement=dict.fromkeys(("target", "draft", "judge"), "target"),
        engines={"target": engine},
        answers=recorded,
        token=[TokenRecord.counted(METHOD, {"k2": fast.k2}, by_method)],
    )


def _alone(planted: Planted, n_tokens: int, seed: int) -> tuple[VirtualServer, Asked]:
    """A server that has answered a single request."""
    server = VirtualServer(planted, seed)
    asked = server.ask(n_tokens, 0.0)
    while asked.left:
        server.iterate()
    return server, asked


def _token_answer(problem: str, server: VirtualServer, asked: Asked, steps: list[int]) -> TokenAnswer:
    work = server.work()
    n, seconds = len(work.passes), sum(one.seconds for one in work.passes)
    (read,) = work.prefills
    return TokenAnswer(
        problem=problem,
        requests=[TokenRequest(tokens=len(asked.streamed.ids), passes=asked.passes, steps=steps)],
        decode=[(1, server.planted.k2, n, sum(one.context for one in work.passes), seconds, 0.0)],
        prefill=PrefillSums(1, read.tokens, read.seconds),
        request=(1, TRIP_S),
    )
