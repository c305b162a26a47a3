"""The bundled pair behind HTTP with what ``specplan certify`` reads: passes as events, token ids, prompt_logprobs.

The engine is `ContinuousBatch` with its draft model in this process; a planted defect is a subclass of the draft model,
or what the server does to a request.
"""

from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from connections import in_thread
from openai_server import STREAM, OpenAIServer, Planted
from torch_jobs import answered, decoder_of, job
from transformers.utils.logging import disable_progress_bar

from calibrate.engines.protocol import Sampling
from calibrate.engines.sampling import invert
from calibrate.engines.speculation import Speculation
from calibrate.engines.torch.batch import ContinuousBatch
from calibrate.engines.torch.job import Job, Limits
from calibrate.engines.torch.model import load_model, load_tokenizer
from calibrate.engines.torch.token_methods import draft_model
from calibrate.engines.torch.token_methods.draft_model import DraftModel
from calibrate.engines.torch.token_methods.protocol import Rows, Verdict
from calibrate.pair import draft_path

LIMITS = Limits(max_batch=8, n_idle=8, max_context=512)
DRAFTED = Speculation(method="draft", k2=5, model=draft_path())

disable_progress_bar()  # commands of the tests print to stderr what they have to say


REAL = draft_model.verify_drafts


class Misjudged(DraftModel):
    """Judges drafts by another function than `verify_drafts`."""

    judge: Any

    def _verify_samples(self, jobs: Sequence[Job], rows: Sequence[Rows], logits: torch.Tensor) -> list[Verdict]:
        with patch.object(draft_model, "verify_drafts", self.judge):
            return super()._verify_samples(jobs, rows, logits)


class Relaxed(Misjudged):
    """Accepts with 1.5 p / q."""

    @staticmethod
    def judge(*given: Any) -> list[list[int]]:
        return REAL(*given[:3], [[u / 1.5 for u in line] for line in given[3]], given[4])


class Unjudged(Misjudged):
    """Takes every tenth draft without judging it."""

    @staticmethod
    def judge(*given: Any) -> list[list[int]]:
        tests = [[-1.0 if u < 0.1 else (u - 0.1) / 0.9 for u in line] for line in given[3]]
        return REAL(*given[:3], tests, given[4])


class ResidualFromTarget(Misjudged):
    """Draws from p after a rejection."""

    @staticmethod
    def judge(*given: Any) -> list[list[int]]:
        target, _, drafts, _, resamples = given
        lines, first = REAL(*given), 0
        for line, tokens, uniforms in zip(lines, drafts, resamples, strict=True):
            n = len(line) - 1
            if n < len(tokens):
                line[-1] = invert(target[first + n][None], [uniforms[n]])[0]
            first += len(tokens) + 1
        return lines


class Tempered(DraftModel):
    """Draws drafts at another temperature than that of the weights by which they are judged."""

    temperature = 0.5

    def _draw(self, logits: torch.Tensor, step: int) -> tuple[list[int], torch.Tensor | None]:
        return super()._draw(logits / self.temperature, step)[0], super()._draw(logits, step)[1]


class Greedy(Tempered):
    """Drafts the likeliest token and judges it as if it were sampled."""

    temperature = 1e-4


class DraftBonus(DraftModel):
    """Drafts a token more, which it takes when all others were accepted."""

    def propose(self, jobs: Sequence[Job], room: Sequence[int]) -> list[Rows]:
        proposed = super().propose(jobs, room)
        for seq in proposed:
            seq.n_drafted = max(seq.n_drafted - 1, 0)
        self._spare = [seq.ids.pop() if seq.memo and len(seq.memo) > 1 else None for seq in proposed]
        for seq, spare in zip(proposed, self._spare, strict=True):
            seq.memo = seq.memo[:-1] if spare is not None else seq.memo
        return proposed

    def verify(
        self, jobs: Sequence[Job], rows: Sequence[Rows], logits: torch.Tensor, hidden: torch.Tensor
    ) -> list[Verdict]:
        verdicts = super().verify(jobs, rows, logits, hidden)
        for seq, verdict, spare in zip(rows, verdicts, self._spare, strict=True):
            if spare is not None and len(verdict.tokens) == len(seq.ids):
                verdict.tokens[-1] = spare
        return verdicts


class StaleCache(DraftModel):
    """After a rejection the last kept keys and values are those of the last rejected token."""

    def verify(
        self, jobs: Sequence[Job], rows: Sequence[Rows], logits: torch.Tensor, hidden: torch.Tensor
    ) -> list[Verdict]:
        verdicts = super().verify(jobs, rows, logits, hidden)
        for seq, verdict in zip(rows, verdicts, strict=True):
            verdict.kept = [*range(len(verdict.tokens) - 1), len(seq.ids) - 1]
        return verdicts


PLANTED: dict[str, tuple[Any, ...]] = {
    "residual from p": (ResidualFromTarget,),
    "relaxed acceptance": (Relaxed,),
    "bonus from draft": (DraftBonus,),
    "draft's temperature": (Tempered,),
    "greedy draft": (Greedy,),
    "draft's tokens": (Unjudged,),
    "stale cache": (StaleCache,),
    "truncated top-p": (DraftModel, Sampling(temperature=1.0, top_p=0.9)),
    "target's temperature": (DraftModel, Sampling(temperature=0.8)),
}
"""Draft model of a server with each defect, and the sampling in place of the requested one, temperature 1."""


class CertifiedServer(OpenAIServer):
    """A model as a server; with ``drafting``, it speculates."""

    def __init__(
        self,
        folder: Path,
        drafting: type[DraftModel] | None = None,
        sampling: Sampling | None = None,
        *,
        shows_passes: bool = True,
        lists: bool = True,
    ) -> None:
        super().__init__(Planted(model=folder.name, max_context=LIMITS.max_context))
        self.shows_passes = shows_passes
        self.lists = lists
        """Whether it gives prompt_logprobs."""
        self._sampling = sampling
        self._model, self.tokenizer = model(folder), load_tokenizer(folder)
        self._seeds = count(1)
        methods = {}
        if drafting is not None:
            methods["draft", str(draft_path())] = drafting(decoder_of(draft_path()), LIMITS, LIMITS.max_context)
        self._speculation = None if drafting is None else DRAFTED
        self._batch = ContinuousBatch(decoder_of(folder), None, frozenset(), LIMITS, methods)

    def _page(self, writer: StreamWriter, path: str, body: dict[str, Any]) -> None:
        if path == "/tokenize":
            self._send(writer, 200, {"tokens": self.tokenizer.encode(body["prompt"]).ids})
        else:
            super()._page(writer, path if path == "/v1/models" else "", body)

    async def _completion(self, reader: StreamReader, writer: StreamWriter, body: dict[str, Any]) -> None:
        self.bodies.append(body)
        prompt, top = body["prompt"], body.get("prompt_logprobs")
        ids = self.tokenizer.encode(prompt).ids if isinstance(prompt, str) else prompt
        if top is not None:
            if top > self.planted.logprobs:
                message = f"Requested prompt logprobs of {top}, more than {self.planted.logprobs}"
                self._send(writer, 400, {"error": {"message": message}})
                return
            listed = listed_logprobs(self._model, ids, top) if self.lists else None
            choice = {"text": "", "finish_reason": "length", "prompt_logprobs": listed}
            self._send(writer, 200, {"choices": [choice]})
            return
        passes = self._written(ids, body)
        writer.write(STREAM)
        for number, tokens in enumerate(passes, 1):
            reason = "length" if number == len(passes) else None
            choice = {"text": "x" * len(tokens), "token_ids": tokens, "finish_reason": reason}
            self._event(writer, {"choices": [choice]})
        self._event(writer, {"choices": [], "usage": {"completion_tokens": sum(map(len, passes))}})
        self._chunk(writer, b"")

    def _written(self, ids: list[int], body: dict[str, Any]) -> list[list[int]]:
        """The tokens of an answer by pass."""
        asked = Sampling(temperature=body.get("temperature", 1.0), top_p=body.get("top_p", 1.0))
        sampling, seed = self._sampling or asked, body.get("seed", next(self._seeds))
        told: dict[str, Any] = {"sampling": sampling, "seed": seed, "speculation": self._speculation}
        (done,) = answered(self._batch, job(ids, body["max_tokens"], **told))
        if not self.shows_passes:
            return [list(done.tokens)]
        sizes = [1, *(accepted + 1 for _, accepted in done.passes)] if done.passes else [1] * len(done.tokens)
        left = iter(done.tokens)
        lines = [[token for _, token in zip(range(size), left, strict=False)] for size in sizes]
        return [line for line in lines if line]


@cache
def model(folder: Path) -> Any:
    """The whole network, which a decoder takes apart."""
    return load_model(folder, dtype=torch.float32, device=torch.device("cpu"))


@torch.inference_mode()
def listed_logprobs(network: Any, ids: list[int], top: int) -> list[dict[str, Any] | None]:
    """As vLLM lists them: the likeliest tokens at each position of a prompt, and the prompt's own token."""
    logs = network(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    entries: list[dict[str, Any] | None] = [None]
    for row, token in zip(logs, ids[1:], strict=False):
        values, likeliest = row.topk(min(top, len(row)))
        listed = dict(zip(likeliest.tolist(), values.tolist(), strict=True))
        listed.setdefault(token, float(row[token]))
        entries.append({str(one): {"logprob": value} for one, value in listed.items()})
    return entries


@contextmanager
def served(server: CertifiedServer) -> Iterator[str]:
    """Serve in a thread of its own; yield the URL."""
    with in_thread(server):
        yield server.url
