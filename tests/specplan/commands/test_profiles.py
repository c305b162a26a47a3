"""The published profiles against their generator."""

from importlib.resources import files

import pytest

from calibrate.record import library as profiles
from calibrate.record.profile import PublishedValue
from workshop.make_published import published_profiles

PUBLISHED = {profile.name: profile for profile in published_profiles()}


@pytest.mark.parametrize("name", PUBLISHED)
def test_committed_file_is_what_the_script_makes(name: str) -> None:
    text = (files("calibrate.profiles") / f"{name}.json").read_text(encoding="utf-8")
    assert text == PUBLISHED[name].to_json()


def test_every_bundled_profile_is_named_as_its_file() -> None:
    assert [profiles.bundled(name).name for name in profiles.names()] == profiles.names()


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values_are_possible_and_have_a_source_and_a_half_width(name: str) -> None:
    figures = PUBLISHED[name].published
    values = {key: value for key, value in figures if isinstance(value, PublishedValue)}
    assert len(values) == 11
    assert all(value.half_width > 0.0 and value.source for value in values.values())
    assert 0.0 < figures.alpha1.value < 1.0
    assert 0.0 < figures.c1.value - figures.c1.half_width < figures.c1.value + figures.c1.half_width < 1.0
    assert values["combined_speedup"].value > max(values["step_speedup"].value, values["token_speedup"].value)
