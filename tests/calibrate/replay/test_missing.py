"""What a profile does not know is named and refused; what it knows is predicted."""

from pathlib import Path

import pytest
from measured_profiles import measured

from calibrate.record.library import bundled
from calibrate.record.profile import Profile
from calibrate.replay.assumptions import ASSUMED, HALF_WIDTHS
from calibrate.replay.system import system_of
from calibrate.replay.trials import Trials
from sim.catalogue import methods
from sim.configuration import Configuration
from sim.serving.load_run import LoadRun, Window
from theory.errors import ParameterError

RECORDED = Profile.read(Path(__file__).parents[2] / "data" / "recorded.json")
PUBLISHED = bundled("lr-deepseek-aime24")
MEASURED = measured([True, False] * 4, ngram=True)


def lacks(profile: Profile, text: str) -> str:
    return "; ".join(Trials(profile).missing(Configuration.parse(text)))


@pytest.mark.parametrize(
    ("profile", "text", "words"),
    [
        (PUBLISHED, "specs", "scores of draft-likelihood, likelihood, reward"),
        (PUBLISHED, "specs likelihood=off", "scores of reward ("),
        (PUBLISHED, "spec-cot select=choice", "scores of chooser"),
        (PUBLISHED, "confspec", "scores of gate"),
        (PUBLISHED, "lr-async threshold=0.7", "scores of judge"),
        (PUBLISHED, "lr-async + eagle", "tokens per pass of eagle at k2=4"),
        (PUBLISHED, "prompt-lookup k2=10", "known are k2=2, "),
        (
            MEASURED,
            "lr-async verifier=embedding",
            "scores of embedding (specplan calibrate torch or vllm, with --embedding); the time",
        ),
        (MEASURED, "lr-async width=2", "2 drafts per position, 1 are recorded"),
        (MEASURED, "beam-search", "4 candidates per position and model, 0 are recorded"),
        (MEASURED, "prompt-lookup k2=9", "known are k2=2 max_ngram=2, "),
    ],
)
def test_what_a_profile_does_not_know_is_named_and_refused(profile: Profile, text: str, words: str) -> None:
    assert words in lacks(profile, text)
    with pytest.raises(ParameterError, match="does not know") as caught:
        Trials(profile).trial(Configuration.parse(text))
    assert "\n" not in str(caught.value)


def test_what_a_published_profile_knows_is_not_refused() -> None:
    assert lacks(PUBLISHED, "lr-async k1=6 rules=released-code + prompt-lookup k2=9") == ""
    assert lacks(PUBLISHED, "lr-async verifier=random threshold=0.3") == ""


def test_a_recording_of_everything_lacks_candidates_and_other_token_methods_only() -> None:
    """Its drafts are scored by all: no step-level method at its defaults is refused, and none fails when it runs."""
    for name in methods("step"):
        assert lacks(RECORDED, name) == ""
    assert lacks(RECORDED, "lr-async k1=2 width=4 verifier=cascade") == ""
    assert "4 drafts" not in lacks(RECORDED, "lr-async width=4")
    assert "5 drafts per position, 4 are recorded" in lacks(RECORDED, "lr-async width=5")
    assert all("candidates" in lacks(RECORDED, name) for name in methods("beam"))


def test_assumptions_are_drawn_for_variants_and_only_for_them() -> None:
    """Best estimates rest on what is assumed; a variant lies within the stated range of each, counts staying counts."""
    best, *drawn = [system_of(PUBLISHED, resample=seed).behaviour for seed in (None, *range(30))]
    assert (best.lengths.limit, best.acceptance.persistence) == (ASSUMED.step_limit, 0.0)
    for name, found in (
        ("step_limit", [one.lengths.limit for one in drawn]),
        ("lag1", [one.lengths.lag1 for one in drawn]),
        ("persistence", [one.acceptance.persistence for one in drawn]),
    ):
        off = [value - getattr(ASSUMED, name) for value in found]
        assert max(map(abs, off)) <= HALF_WIDTHS[name]
        assert max(off) > HALF_WIDTHS[name] / 2
    assert all(isinstance(one.lengths.limit, int) for one in drawn)
    assert min(one.acceptance.persistence for one in drawn) >= 0.0


def test_texts_are_left_out_where_several_drafts_are_wanted() -> None:
    """An answer of which only the text counts has one draft of a position: SpecCoT meets the others, under load too."""
    texts = [
        answer.model_copy(update={"steps": [step.model_copy(update={"candidates": []}) for step in answer.steps]})
        for answer in RECORDED.answers
    ]
    trials = Trials(RECORDED.model_copy(update={"texts": texts}))
    several, one = (trials.trial(Configuration.parse(name)) for name in ("spec-cot", "lr-async k1=2 rules=paper"))
    assert (several.n_answers, one.n_answers) == (len(RECORDED.answers), 2 * len(RECORDED.answers))
    for trial in (several, one):
        assert LoadRun(trial, 4, Window.of_steps(4)).throughputs(2).min() > 0.0
