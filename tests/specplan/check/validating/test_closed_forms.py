"""The stand-in made of closed forms: each with the figures that the profile was made to have."""

from pathlib import Path

import pytest
from measured_profiles import measured, speculated

from calibrate.record.profile import Profile
from sim.catalogue import methods
from sim.configuration import Configuration
from specplan.check.validating.closed_forms import closed_form
from theory import f_async, f_sync, g
from theory.step_methods import confspec_pipeline_speedup

RECORDED = Path(__file__).parents[3] / "data" / "recorded.json"
VERDICTS = [True, True, False, True] * 2
ALPHA, C1 = 0.75, 0.1
"""Drafts take 0.02 s and target steps 0.2 s, of as many tokens, in `measured_profiles`."""


def form(text: str, *, k2: int = 3) -> float | None:
    profile = speculated(measured(VERDICTS, ngram=True), "draft-model", k2=k2)
    return closed_form(profile, Configuration.parse(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("autoregressive", None),
        ("specs-no-target", None),  # a variant for comparison only
        ("specs", None),  # no candidates
        ("lr-async k1=2 + eagle k2=4", None),  # no passes
        ("lr-async k1=2 verifier=embedding", None),  # no such scores
        ("spec-reason", None),
        ("lr-async k1=1", f_async(ALPHA, C1, 1)),
        ("lr-async k1=4", f_async(ALPHA, C1, 4)),
        ("lr-sync k1=4", f_sync(ALPHA, C1, 4)),
        ("draft-model k2=3", g(1.0, C1, 3)),
        ("lr-async k1=4 + draft-model k2=3", f_async(ALPHA, C1, 4) * g(1.0, C1, 3)),
        ("beam-search", 1.0),
        ("beam-search-draft", 1.0 / C1),
    ],
)
def test_the_forms_of_the_papers(text: str, expected: float | None) -> None:
    assert form(text) == (None if expected is None else pytest.approx(float(expected)))


def test_prompt_lookup_by_its_counts() -> None:
    """6 of 10 passes find a draft; 4 of 6 first tokens are right, then 3 of 6; drafts have 1, 2, 3, 3, 3, 3 tokens."""
    by_hand = 1.0 + 0.6 * (4 / 6) * (1.0 + 1.5 + 4 * 1.75) / 6
    assert form("prompt-lookup k2=4") == pytest.approx(by_hand)
    shorter = 1.0 + 0.6 * (4 / 6) * (1.0 + 5 * (1 + 2 / 4)) / 6  # 2 of the 4 that go on are right at the second
    assert form("prompt-lookup k2=3") == pytest.approx(shorter)


def test_a_cascade_is_what_the_gate_decides_where_it_is_sure() -> None:
    """A gate that accepts the first half for sure; it is unsure of the rest, where the judge accepts three in four."""
    profile = measured(VERDICTS)
    scores = [0.95] * 4 + [0.6] * 4
    answers = [
        answer.model_copy(
            update={
                "steps": [
                    step.model_copy(update={"draft": step.draft.model_copy(update={"scores": {"gate": score}})})
                    for step, score in zip(answer.steps, scores, strict=True)
                ]
            }
        )
        for answer in profile.answers
    ]
    profile = profile.model_copy(update={"answers": answers})
    found = closed_form(profile, Configuration.parse("confspec k1=5"))
    assert found == pytest.approx(float(confspec_pipeline_speedup(7 / 8, C1, 5, fallback="reuse", width=1)))


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_has_a_speedup_or_none_from_a_recorded_profile(name: str) -> None:
    found = closed_form(Profile.read(RECORDED), Configuration(method=name))
    assert found is None or 0.05 < found < 20.0
