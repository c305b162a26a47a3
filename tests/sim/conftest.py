"""Every run of every test in this folder is checked against the invariants when the test ends."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from invariants import check, check_engine

from sim.engines.batching import BatchEngine
from sim.virtual_clock import Session, VirtualClock


@pytest.fixture(autouse=True)
def checked_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[VirtualClock, list[Session]]]:
    """Collect what is launched; check it after the test. Clear the dict in a test that breaks laws on purpose."""
    launched: dict[VirtualClock, list[Session]] = defaultdict(list)
    launch = VirtualClock.launch

    def recording_launch(self: VirtualClock, *args: Any, **kwargs: Any) -> Session:
        session = launch(self, *args, **kwargs)
        launched[self].append(session)
        return session

    monkeypatch.setattr(VirtualClock, "launch", recording_launch)
    yield launched
    for clock, sessions in launched.items():
        if not clock.record:
            continue
        for session in sessions:
            if session.finished is not None:
                check(session)
        for engine in set(clock.engines.values()):
            if isinstance(engine, BatchEngine) and engine._env is clock.env:
                engine.settle()
                operations = [op for s in sessions for op in s.operations if clock.engines[op.role] is engine]
                check_engine(engine, operations, clock.env.now)
