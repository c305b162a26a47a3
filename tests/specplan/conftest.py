"""What the tests of commands share."""

from functools import partial

import pytest

from calibrate.engines.http.wire import HttpConfig


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that failed are repeated after milliseconds: in these tests a server that is gone stays so."""
    monkeypatch.setattr(HttpConfig, "of", partial(HttpConfig.of, backoff_s=0.002))
