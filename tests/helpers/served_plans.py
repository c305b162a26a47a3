"""``specplan serve`` in a process of its own, over servers of the bundled pair."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

from measured_profiles import measured

from sim.configuration import Configuration

SETTINGS: dict[str, Any] = {"task": "bundled", "temperature": 0.6, "top_p": 0.95, "max_step_tokens": 100}
SETTINGS |= {"judge_threshold": 0.5}
"""How the bundled pair is asked, as a profile of it says."""


def write_plan(folder: Path, configuration: Configuration) -> Path:
    """A plan with one row, as ``specplan plan --json`` writes it."""
    row = {
        "configuration": {"method": configuration.method, "knobs": dict(configuration.knobs)},
        "speedup": {"value": 1.5},
        "acceptance": 0.6,
        "baseline_seconds": 1.0,
    }
    path = folder / f"{configuration.method}.plan.json"
    path.write_text(json.dumps({"schema": "specplan.plan", "schema_version": 1, "profile": "pair", "rows": [row]}))
    return path


def write_profile(folder: Path) -> Path:
    """A profile that says how the bundled pair is asked; its timings are made up."""
    path = folder / "asked.json"
    measured([True, True, False]).model_copy(update={"settings": SETTINGS}).write(path)
    return path


@contextmanager
def serve_plan(
    plan: Path,
    profile: Path | None,
    endpoints: Mapping[str, str],
    *more: str,
    stop_after: float = 3600.0,
    said: list[str] | None = None,
) -> Iterator[str]:
    """Serve until the end of the block, or for so many seconds; yield the API's URL. The command must end with 0.

    ``said`` receives the lines of its log after the first, at the end.
    """
    words = ["serve", "--plan", str(plan), "--port", "0", *more]
    words += [] if profile is None else ["--profile", str(profile)]
    words += [word for role, url in endpoints.items() for word in (f"--{role}", url)]
    command = [sys.executable, "-m", "specplan", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    rest, stop = "", Timer(stop_after, process.send_signal, (signal.SIGTERM,))
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+/v1", line)
        assert url, line
        stop.start()
        yield url[0]
    finally:
        stop.cancel()
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=120)
        if said is not None:
            said += rest.splitlines()
    assert "Traceback" not in rest, rest
    assert process.returncode == 0, rest
