"""The EAGLE head's training: drafts after all positions at once are those made one by one, and learning happens."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from bundled_pair import brief_problems

from calibrate.engines.torch.token_methods.eagle import build_head, read_head
from calibrate.pair import head_path, problems, target_path
from workshop.training.head import Recipe, Text, acceptance, drafts, main, read_texts, train_head, written_texts
from workshop.training.inference import LanguageModel, load


@pytest.fixture(scope="module")
def target() -> LanguageModel:
    return load(target_path())


@pytest.fixture(scope="module")
def texts(target: LanguageModel) -> list[Text]:
    return read_texts(target, written_texts(target, brief_problems(2, 3, "training"), 3))


@pytest.fixture(scope="module")
def head() -> Any:
    return read_head(head_path())


def one_by_one(head: Any, network: Any, text: Text, i: int, depth: int) -> list[torch.Tensor]:
    """Logits of the drafted tokens after position ``i``, the head reading the whole line each time."""
    embed = network.model.embed_tokens
    features, found = text.hidden[: i + 1], []
    for d in range(depth):
        ids = text.ids[1 : i + 2 + d]
        inputs = head.fc(torch.cat((embed(ids), features), -1))
        out = head(inputs_embeds=inputs[None]).last_hidden_state[0]
        found.append(network.lm_head(out[-1]))
        features = torch.cat((features, out[-1:]))
    return found


def test_drafts_after_all_positions_are_those_made_one_by_one(
    target: LanguageModel, texts: list[Text], head: Any
) -> None:
    """Also beside a longer text; float32 rounding is below 1e-3 on logits of some tens."""
    short, long = sorted(texts, key=lambda text: len(text.ids))[:: len(texts) - 1]
    with torch.inference_mode():
        found = list(drafts(head, target.network, [short, long], 3))
        for i in (0, short.n_prompt - 1, len(short.ids) - 5):
            for d, logits in enumerate(one_by_one(head, target.network, short, i, 3)):
                assert (found[d].logits[0, i] - logits).abs().max() < 1e-3


def test_only_drafted_tokens_of_the_answer_count(target: LanguageModel, texts: list[Text], head: Any) -> None:
    """After position i comes token i + 1, drawn by the target, and then the drafted ones."""
    text = texts[0]
    n_answer = len(text.ids) - text.n_prompt
    for d, one in enumerate(drafts(head, target.network, [text], 4)):
        assert int(one.counts.sum()) == n_answer - 1 - d
        places = one.counts[0].nonzero()[:, 0]
        assert int(places[0]) == text.n_prompt - 1
        with torch.inference_mode():
            true = target.network(input_ids=text.ids[None]).logits[0]
        there = places + 1 + d  # the target's logits after these say what was drafted
        assert torch.allclose(one.wanted[0, places], true[there], atol=1e-3)


@pytest.mark.slow
def test_training_makes_drafts_come_true(target: LanguageModel) -> None:
    """Untrained, a head and the target have next to nothing in common; 40 steps on 16 texts change that."""
    texts = read_texts(target, written_texts(target, problems(16, 3, "training"), 3))
    recipe = Recipe(n_steps=40, rows=8, depth=2, warm_up=10)
    untrained = build_head(json.loads((head_path() / "config.json").read_text()))
    before = acceptance(untrained, target.network, texts, 2, 0.6)
    after = acceptance(train_head(target, texts, recipe), target.network, texts, 2, 0.6)
    assert before[0].value < 0.1
    assert after[0].value > 0.3
    assert after[0].n == len(texts)


@pytest.mark.slow
def test_the_head_of_the_repository_drafts_well(target: LanguageModel, head: Any) -> None:
    """On held-out questions; the card says how well, and the interval of so few is within it or overlaps."""
    card = json.loads((head_path().parent / "card.json").read_text())["eagle"]
    held_out = read_texts(target, written_texts(target, problems(12, 11), 11))
    for found, known in zip(acceptance(head, target.network, held_out, 3, 0.6), card["accepted_at"], strict=False):
        assert found.low - 0.02 < known["high"]
        assert found.high + 0.02 > known["low"]
        assert known["value"] > 0.5


@pytest.mark.slow
def test_the_command_trains_saves_and_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "weights" / "eagle"
    shutil.copytree(head_path(), folder)  # another head and its note, whose place it takes
    shutil.copy(head_path().parent / "training.json", folder.parent)
    assert main(["--texts", "16", "--steps", "16", "--out", str(folder)]) == 0
    weights = "model.safetensors"
    assert (folder / weights).read_bytes() != (head_path() / weights).read_bytes()
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors"}
    assert json.loads((folder.parent / "training.json").read_text())["eagle"]["steps"] == 16
    assert read_head(folder).config.num_hidden_layers == 1
    with pytest.raises(SystemExit):
        main(["--steps", "3"])
    assert "--steps=3 must be >= 16" in capsys.readouterr().err
