"""What doctests share with tests: examples that run real models are slow."""

from __future__ import annotations

import pytest

SLOW = ("specplan.api.calibrating.calibrate", "specplan.api.validating.validate")
"""Examples that start engines, tens of seconds each."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them, before tests are chosen by their marks."""
    for item in items:
        if isinstance(item, pytest.DoctestItem) and item.name in SLOW:
            item.add_marker(pytest.mark.slow)
