"""Predictions of all shipped profiles and of a recorded one stay what they were, to 1e-12, while the code moves.

``python tests/specplan/planning/test_unchanged_predictions.py [PROFILE ...] > FILE`` writes the values, of further
profiles too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from calibrate.record.library import bundled, names
from calibrate.record.profile import Profile
from specplan.planning.predict import Configuration, Predictor
from theory.errors import SpecplanError

DATA = Path(__file__).parents[2] / "data"
KEPT = DATA / "predictions.json"
CONFIGURATIONS = (
    "autoregressive",
    "lr-async k1=3",
    "lr-async k1=3 rules=released-code",
    "lr-async k1=2 width=2",
    "lr-sync k1=3",
    "lr-async k1=2 + prompt-lookup k2=4",
    "prompt-lookup k2=4",
    "lr-async k1=2 verifier=embedding",
    "confspec k1=3",
    "spec-reason",
    "rsd",
    "spec-cot",
    "specs",
    "beam-search",
    "eagle",
    "draft-model k2=4",
    "lookahead-decoding",
)


def predictions(profile: Profile) -> dict[str, Any]:
    """What is predicted for each configuration of which the profile knows enough."""
    predictor = Predictor(profile, n_answers=4 if profile.published is not None else 12)
    return {text: _predicted(predictor, text) for text in CONFIGURATIONS}


def _predicted(predictor: Predictor, text: str) -> Any:
    try:
        found = predictor.predict(Configuration.parse(text))
    except (SpecplanError, KeyError):
        return "no data"
    accuracy = None if found.accuracy is None else found.accuracy.value
    numbers = [found.speedup.value, found.simulated, found.seconds_per_answer, found.baseline_seconds, found.accepted]
    numbers += [
        found.wasted_draft,
        found.wasted_target,
        found.tokens_per_pass,
        *map(found.errors.get, sorted(found.errors)),
    ]
    return [*numbers, found.peak_sequences, -1.0 if accuracy is None else accuracy]


def profiles() -> dict[str, Profile]:
    shipped = {name: bundled(name) for name in names()}
    return {**shipped, "recorded": Profile.read(DATA / "recorded.json")}


@pytest.mark.parametrize("name", json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else [])
def test_predictions_are_the_same(name: str) -> None:
    kept, now = json.loads(KEPT.read_text())[name], predictions(profiles()[name])
    assert kept.keys() == now.keys()
    for text, values in now.items():
        assert kept[text] == (values if isinstance(values, str) else pytest.approx(values, rel=1e-12)), text


if __name__ == "__main__":
    named = {path: Profile.read(path) for path in sys.argv[1:]} or profiles()
    sys.stdout.write(json.dumps({name: predictions(profile) for name, profile in named.items()}, indent=1) + "\n")
