"""A calibration killed or interrupted: nothing is lost, counted twice or left running."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from measured_profiles import said
from openai_server import OpenAIServer, Planted, serving
from small_plans import SPECPLAN

from calibrate.record.profile import Profile

PLANTED = Planted(iteration_s=0.0005)

PATIENCE_S = 300.0
"""Until something is taken as hanging, s: machines have much else to do."""


def command(target: OpenAIServer, draft: OpenAIServer, folder: Path, name: str) -> list[str]:
    """The command, with little to measure."""
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"Question {i} is?"}) + "\n" for i in range(6)), encoding="utf-8")
    servers = ("--target", target.url, "--draft", draft.url, "--concurrency", "1", "--prompts", str(prompts))
    # Processes compete for the machine that the sentinels watch: that is not what is tested here.
    return [*SPECPLAN, "calibrate", "openai", *servers, "-n", "6", "--allow-noise", "-o", str(folder / name)]


def start(arguments: list[str]) -> subprocess.Popen[str]:
    # Where the tests themselves run in the background of a shell or under nohup, children would be deaf to these.
    listening = {"preexec_fn": lambda: [signal.signal(n, signal.SIG_DFL) for n in (signal.SIGINT, signal.SIGHUP)]}
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **listening)


@contextmanager
def until_written(arguments: list[str], journal: Path, n_bytes: int) -> Iterator[subprocess.Popen[str]]:
    """Start a process and wait until its journal has grown to a size, or it has ended."""
    process = start(arguments)
    try:
        limit = time.monotonic() + PATIENCE_S
        while process.poll() is None and (not journal.exists() or journal.stat().st_size < n_bytes):
            assert time.monotonic() < limit, "it does not get anywhere"
            time.sleep(0.002)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def whole_lines(journal: Path) -> list[bytes]:
    return [line for line in journal.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def finished(arguments: list[str]) -> Profile:
    """The profile of a calibration that runs to its end."""
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return Profile.read(Path(arguments[-1]))


@pytest.mark.slow
def test_kill_9_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    """A calibration that was killed twice says what an undisturbed one says, and holds every kept sample once."""
    journal, left = tmp_path / "killed.json.part", list[bytes]()
    with serving(PLANTED) as target, serving(PLANTED) as draft:
        calm, killed = (command(target, draft, tmp_path, f"{name}.json") for name in ("calm", "killed"))
        first = finished(calm)
        for n_bytes in (4_000, 9_000):
            with until_written(killed, journal, n_bytes) as process:
                process.kill()
                process.wait()
            now = whole_lines(journal)
            assert now[: len(left)] == left
            assert len(left) < len(now)
            left = now
        second = finished(killed)
    kept = {piece["key"]: piece["value"] for piece in map(json.loads, left[1:])}
    assert len(kept) == len(left[1:])
    assert said(second) == said(first)
    assert second.ngram == first.ngram
    for name, engine in second.engines.items():
        recorded = [sample.seconds for sample in (*engine.warmup_decode, *engine.decode)]
        rounds = [kept[key] for key in (f"engine:{name}:{i}" for i in range(6)) if key in kept]
        samples = [*rounds[0]["warmup_decode"], *(sample for one in rounds for sample in one["decode"])]
        assert recorded[: len(samples)] == [sample["seconds"] for sample in samples]
        assert len(engine.request_s) == len(first.engines[name].request_s)
        alone, expected = ([one for one in of.prefill if not one.beside] for of in (engine, first.engines[name]))
        assert len(alone) == len(expected)  # whether a prompt is read in a pass of others is a matter of moments


def test_an_interruption_says_how_to_go_on(tmp_path: Path) -> None:
    """Ctrl-C; `kill` and a terminal that is closed are the same, see `test_cli`."""
    with serving(PLANTED) as target, serving(PLANTED) as draft:
        arguments, journal = command(target, draft, tmp_path, "p.json"), tmp_path / "p.json.part"
        with until_written(arguments, journal, 2000) as process:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out) == (130, "")
        assert err.strip() == (
            f"specplan: interrupted; what is finished is kept in {journal}: the same command goes on from there"
        )
        assert len(whole_lines(journal)) > 1
