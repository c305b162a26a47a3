"""Training: what a batch asks is what a plain prompt asks, deepening keeps the function, and learning happens."""

import re
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from calibrate import pair
from calibrate.pair.task import apply_operation, parse_question
from calibrate.pair.wording import MONTHS, parse_step
from workshop.training.batches import collate, encode
from workshop.training.examples import drill_example, recall_example, writing_examples
from workshop.training.model import Shape, build_network, deepen, save_network
from workshop.training.recipes import TARGET, Phase, Recipe
from workshop.training.rendering import problem_stream
from workshop.training.tokenizer import EOS, build_tokenizer
from workshop.training.train import main, phases_done, train

SMALL = Shape(layers=2, hidden=32, intermediate=32, heads=1)
TINY = Recipe(
    name="tiny",
    shape=replace(SMALL, layers=1),
    phases=(
        Phase(layers=1, n_steps=8, peak_rate=1e-2, n_answers=4, n_pairs=14, n_drills=1, n_recalls=1, keep_long=0.0),
        Phase(layers=2, n_steps=4, peak_rate=1e-2, n_answers=4, n_pairs=14, keep_long=0.0),
    ),
    warm_up=4,
)


def test_a_branch_asks_exactly_what_the_plain_prompt_asks() -> None:
    """Reply logits of the packed row equal those of the prompt alone; float32 rounding is below 1e-4 here."""
    rng = np.random.default_rng(0)
    examples = list(islice(writing_examples(problem_stream(rng, "training"), rng, EOS), 3))
    tokenizer, network = build_tokenizer(), build_network(SMALL, 0).eval()
    batch = collate(encode(examples, tokenizer))
    with torch.inference_mode():
        packed = network(input_ids=batch.ids, position_ids=batch.positions, attention_mask=batch.mask).logits
    for i, example in enumerate(examples):
        columns = torch.nonzero(batch.replies[i])[:, 0].tolist()
        segments = example.text.removesuffix(EOS).split(pair.STEP_SEPARATOR)
        for column, branch in zip(columns, example.branches, strict=True):
            prompt = pair.STEP_SEPARATOR.join([*segments[: branch.after + 1], branch.text])
            with torch.inference_mode():
                plain = network(input_ids=torch.tensor([tokenizer.encode(prompt).ids])).logits[0, -1]
            assert (plain - packed[i, column]).abs().max() < 1e-4
            assert tokenizer.id_to_token(int(batch.targets[i, column])) == branch.reply


def test_of_wrong_steps_the_words_are_written_and_numbers_weigh_more() -> None:
    rng = np.random.default_rng(3)
    examples = list(islice(writing_examples(problem_stream(rng, "training"), rng, EOS), 8))
    tokenizer = build_tokenizer()
    batch = collate(encode(examples, tokenizer))
    for i, example in enumerate(examples):
        segments = example.text.split(pair.STEP_SEPARATOR)
        worded = [re.sub(r" \d+", "", s) if k in example.worded else s for k, s in enumerate(segments)]
        wanted = pair.STEP_SEPARATOR.join(s for k, s in enumerate(worded) if k not in example.silent)
        written = tokenizer.decode(batch.targets[i][batch.writing[i] > 0].tolist(), skip_special_tokens=False)
        assert written.rstrip("\n") == wanted.rstrip("\n")
    assert set(batch.writing.unique().tolist()) == {0.0, 1.0, 4.0}


@pytest.mark.parametrize("wordy", [False, True])
def test_a_drill_teaches_right_results_only_and_grades_all(wordy: bool) -> None:
    rng = np.random.default_rng(2)
    example = drill_example(rng, wordy=wordy)
    tokenizer = build_tokenizer()
    batch = collate(encode([example], tokenizer))
    learned = tokenizer.decode(batch.targets[batch.writing > 0].tolist()).split()
    said = [parse_step(step) for step in pair.split_steps(example.text)]
    right, grades = [], []
    for before, after in pairwise(said):
        assert before is not None
        assert after is not None
        assert before.result is not None
        assert after.result is not None
        off = after.result - apply_operation(after.operation, after.operand, before.result)
        right += [] if off else [str(after.result)]
        grades.append("9" if off == 0 else "4" if abs(off) <= 2 else "3")
    assert learned == right
    assert 0 < len(right) < len(grades)
    assert [branch.reply for branch in example.branches] == grades[:-1]
    assert [branch.after for branch in example.branches] == list(range(1, len(grades)))


@pytest.mark.parametrize("any_wording", [False, True])
def test_a_story_to_recall_teaches_what_its_months_do_and_nothing_else(any_wording: bool) -> None:
    tokenizer = build_tokenizer()
    for seed in range(20):
        example = recall_example(np.random.default_rng(seed), any_wording)
        problem = parse_question(example.text.split(pair.STEP_SEPARATOR)[0])
        assert problem is not None
        batch = collate(encode([example], tokenizer))
        learned = tokenizer.decode(batch.targets[batch.writing > 0].tolist()).split()
        moves = {
            month: [verb, *([] if operand is None else [str(operand)])]
            for month, verb, (_, operand) in zip(MONTHS[1:], problem.verbs, problem.operations, strict=False)
        }
        told = [
            next(word for word in step.split() if word in moves) for step in example.text.split(pair.STEP_SEPARATOR)[1:]
        ]
        assert learned == [word for month in told for word in moves[month]]
        assert sorted(told) == sorted(moves)


def test_deepening_keeps_the_function_and_new_layers_learn() -> None:
    network = build_network(SMALL, 0)
    grown = deepen(network, SMALL, 5, 1)
    ids = torch.arange(4, 24)[None]
    assert torch.equal(network(input_ids=ids).logits, grown(input_ids=ids).logits)
    grown(input_ids=ids, labels=ids).loss.backward()
    assert all(bool(layer.mlp.down_proj.weight.grad.abs().sum() > 0) for layer in grown.model.layers)


@pytest.mark.slow
def test_a_few_steps_reduce_the_loss_and_a_resumed_run_repeats_them_bit_by_bit(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole" / "tiny", tmp_path / "parts" / "tiny"
    losses = train(TINY, whole)
    assert losses[-1].writing < 0.9 * losses[0].writing
    assert losses[-1].judge < 0.8 * losses[0].judge
    assert phases_done(TINY, parts) == 0
    again = train(replace(TINY, phases=TINY.phases[:1]), parts)
    assert phases_done(TINY, parts) == 1
    again += train(TINY, parts, first=1)
    # a phase says NaN of what it does not learn from, which equals nothing
    assert list(map(repr, again)) == list(map(repr, losses))
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert phases_done(TINY, parts) == len(TINY.phases)
    assert phases_done(TARGET, parts) is None


def test_saving_replaces_the_folder_and_loads_as_standard_qwen3(tmp_path: Path) -> None:
    from workshop.training.inference import load

    folder = tmp_path / "model"
    for seed in (0, 1):
        save_network(build_network(SMALL, seed), folder)
    model = load(folder)
    assert type(model.network).__name__ == "Qwen3ForCausalLM"
    fresh = build_network(SMALL, 1).state_dict()
    assert all(torch.equal(fresh[name], value) for name, value in model.network.state_dict().items())
    assert sorted(path.name for path in folder.parent.iterdir()) == ["model"]


def test_bad_arguments_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--steps", "0"])
    assert stop.value.code == 2
    assert "--steps=0 must be >= 1" in capsys.readouterr().err
