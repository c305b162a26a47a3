"""The weights in the repository: small, loadable offline, right on plain problems, and those that the card is about."""

import json
from typing import Any

import pytest

from calibrate import pair
from calibrate.pair.task import JUDGE_NO, JUDGE_YES
from workshop.training.evaluate import area_under_curve, weights_hash
from workshop.training.inference import LanguageModel, load

PATHS = {"target": pair.target_path, "draft": pair.draft_path, "judge": pair.judge_path}
FOLDERS = {**PATHS, "eagle": pair.head_path}
CARD = pair.target_path().with_name("card.json")


@pytest.fixture(scope="module")
def card() -> Any:
    return json.loads(CARD.read_text())


@pytest.fixture(scope="module")
def target() -> LanguageModel:
    return load(pair.target_path())


def test_all_weights_together_are_small() -> None:
    files = [path for path in CARD.parent.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 25e6


@pytest.mark.parametrize("name", FOLDERS)
def test_the_card_is_about_these_files(name: str, card: Any) -> None:
    assert card[name]["sha256"] == weights_hash(FOLDERS[name]())


@pytest.mark.parametrize("name", PATHS)
def test_configuration_suits_common_engines(name: str) -> None:
    config = json.loads((PATHS[name]() / "config.json").read_text())
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    assert config["head_dim"] == 32
    assert config["max_position_embeddings"] >= 1024


@pytest.mark.slow
def test_greedy_answers_are_right(target: LanguageModel) -> None:
    """At the card's greedy accuracy of 0.95, 24 or fewer of 30 come by chance once in 300 draws; half-trained: 0.43."""
    asked = pair.problems(30, 1)
    answers = target.write([p.prompt for p in asked], temperature=0.0, max_tokens=1000, seed=0)
    assert sum(pair.answer_is_correct(p.question, a) for p, a in zip(asked, answers, strict=True)) >= 25


@pytest.mark.parametrize("role", ["target", "judge"])
def test_the_judge_tells_plain_cases_apart(role: str) -> None:
    prompts = [
        pair.judge_prompt(
            "So May brings: Plus 7 is 17.", f"So May brings: Add 7 to get {n}. Note that May ends with {n}."
        )
        for n in (17, 18)
    ]
    same, other = load(PATHS[role]()).reply(prompts, (JUDGE_YES, JUDGE_NO))
    assert same[0] > 0.5 > other[0]


def test_a_right_step_scores_above_a_wrong_one(target: LanguageModel) -> None:
    (problem,) = pair.problems(1, 2)
    prompts = [
        pair.score_prompt(problem.question, (), f"In January: Start at {n}.")
        for n in (problem.start, problem.start + 10)
    ]
    right, wrong = (sum(i * p for i, p in enumerate(row)) for row in target.reply(prompts, pair.SCORE_TOKENS))
    assert right > wrong + 2


@pytest.mark.parametrize(
    ("path", "least"),
    [
        (("target", "sampled", "answers_correct", "value"), 0.8),
        (("pair", "target_step_correct", "value"), 0.95),
        (("judge", "judge", "balanced_accuracy"), 0.9),
        (("target", "score", "auc_by_writer", "draft", "value"), 0.9),
        (("target", "score", "auc", "value"), 0.85),
        (("pair", "draft_step_correct", "value"), 0.6),
        (("pair", "target_step_tokens", "mean"), 25),
        (("pair", "target_step_tokens", "cv"), 0.8),
    ],
)
def test_the_card_reaches_what_the_pair_is_for(path: tuple[str, ...], least: float, card: Any) -> None:
    value = card
    for key in path:
        value = value[key]
    assert value >= least


def test_area_under_curve_counts_ordered_pairs() -> None:
    assert area_under_curve([3, 2, 1, 2], [True, True, False, False]) == pytest.approx(3.5 / 4)
    assert area_under_curve([1, 2], [True, True]) != area_under_curve([1, 2], [True, True])


def test_importing_the_package_is_light() -> None:
    import subprocess
    import sys

    code = "import sys, calibrate.pair; print([m for m in ('torch', 'numpy', 'transformers') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
