"""Two tiny random models with a small tokenizer, and one set of real engines for the whole session."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from calibrate.engines.torch.engine import TorchEngine
    from calibrate.running.verifiers import Verifier
    from calibrate.running.wall_clock import WallClock

T = TypeVar("T")
_LANGUAGE = " add and apples are five four has he left more now one six so ten the then two"
WORDS = tuple(re.findall(r" \w+", _LANGUAGE))
# the fourth entry runs on beyond the separator: engines must cut there
TOKENS = ("<eos>", "<unk>", "\n\n", ".\n\n then", ".", " Yes", " No", *WORDS)


def write_tokenizer(folder: Path) -> None:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(vocab={text: i for i, text in enumerate(TOKENS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\n\n| ?[A-Za-z]+|\."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken("<eos>", special=True, normalized=False)])
    tokenizer.save(str(folder / "tokenizer.json"))


def write_model(folder: Path, *, seed: int, n_layers: int) -> None:
    from torch_jobs import random_model

    sizes = {"vocab_size": len(TOKENS), "intermediate_size": 64, "num_hidden_layers": n_layers}
    folder.mkdir()
    random_model(seed, tie_word_embeddings=True, initializer_range=0.4, **sizes).save_pretrained(folder)
    write_tokenizer(folder)


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of a target and a draft that share a tokenizer."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    base = tmp_path_factory.mktemp("models")
    write_model(base / "target", seed=1, n_layers=4)
    write_model(base / "draft", seed=2, n_layers=1)
    return {"target": base / "target", "draft": base / "draft"}


class Engines:
    """Running engines and the event loop that they belong to."""

    target: TorchEngine
    draft: TorchEngine

    def __init__(self, folders: dict[str, Path]) -> None:
        from calibrate.engines.speculation import Speculation
        from calibrate.engines.torch.engine import TorchConfig, TorchEngine

        self._runner = asyncio.Runner()
        drafting = (Speculation(method="draft", model=folders["draft"]),)
        configs = [
            TorchConfig(
                name="target", model=folders["target"], cores=(0,), max_batch=8, n_idle=8, speculations=drafting
            ),
            TorchConfig(name="draft", model=folders["draft"], cores=(0,), max_batch=8, n_idle=8),
        ]

        async def start() -> list[TorchEngine]:
            return list(await asyncio.gather(*map(TorchEngine.start, configs)))

        try:
            self.all = self._runner.run(start())
        except BaseException:
            self._runner.close()
            raise
        self.target, self.draft = self.all

    def clock(self, verifier: Verifier | None = None, **options: Any) -> WallClock:
        """A wall clock on them for short answers, with the target as the judge; ``draft`` may be another engine."""
        from calibrate.running.verifiers import LlmJudge
        from calibrate.running.wall_clock import StepLimits, WallClock

        judge = verifier or LlmJudge(prompt=lambda a, b: f"{a}\n\n{b}\n\n so", threshold=0.5)
        roles = {"target": self.target, "draft": options.pop("draft", self.draft), "judge": self.target}
        limits = StepLimits(max_steps=6, max_step_tokens=10, max_answer_tokens=60)
        return WallClock(roles, judge, **{"limits": limits, "seed": 3, **options})

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the engines' loop; four minutes are a hang, even on a machine with much else to do."""

        async def bounded() -> T:
            async with asyncio.timeout(240):
                return await work

        return self._runner.run(bounded())

    def close(self) -> None:
        async def close() -> None:
            await asyncio.gather(*(engine.close() for engine in self.all))

        self.run(close())
        self._runner.close()


@pytest.fixture(scope="session")
def engines(model_folders: dict[str, Path]) -> Iterator[Engines]:
    """Real engines in processes of their own."""
    started = Engines(model_folders)
    yield started
    started.close()


@pytest.fixture
def small_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command measures little, and does not wait long."""
    from small_plans import PATCHES

    for name, value in PATCHES.items():
        monkeypatch.setattr(name, value)
