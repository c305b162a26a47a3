"""A calibration killed or interrupted: nothing is lost, counted twice or left running."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
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


def keys(lines: list[bytes]) -> list[str]:
    return [json.loads(line)["key"] for line in lines[1:]]


def kill_at_random_moments(arguments: list[str], journal: Path, size: int, kills: int, seed: int) -> list[bytes]:
    """Kill -9 and start again, several times; returns the lines that the last kill left.

    After each kill the journal begins with every whole line that was there before: nothing lost, nothing made again.
    """
    rng = random.Random(seed)
    before: list[bytes] = []
    for moment in sorted(rng.uniform(0.0, size) for _ in range(kills)):
        with until_written(arguments, journal, int(moment)) as process:
            time.sleep(rng.uniform(0.0, 0.05))
            children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
            _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
            assert not alive, "worker processes outlived their parent"
        if journal.exists():
            now = whole_lines(journal)
            assert now[: len(before)] == before
            assert len(set(keys(now))) == len(now[1:])
            before = now
    return before


def journal_size(arguments: list[str], output: Path) -> int:
    """Run to the end; return how large the journal was, by what became of it, before its last piece.

    Who is killed after the last piece may have finished before.
    """
    process = start(arguments)
    kept, journal = b"", output.with_name(output.name + ".part")
    while process.poll() is None:
        with suppress(FileNotFoundError):
            if journal.stat().st_size > len(kept):
                kept = journal.read_bytes()
        time.sleep(0.005)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert not journal.exists()
    return len(kept.rstrip(b"\n").rpartition(b"\n")[0])


def check_killed(calm: list[str], killed: list[str], folder: Path, kills: int, seed: int) -> None:
    """The profile of a killed calibration says what an undisturbed one says, and holds every kept sample once."""
    size = journal_size(calm, folder / "calm.json")
    left = kill_at_random_moments(killed, folder / "killed.json.part", size, kills, seed)
    assert left, "no kill came in the middle: the test tests nothing"
    done = subprocess.run(killed, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    first, second = (Profile.read(folder / f"{name}.json") for name in ("calm", "killed"))
    assert said(second) == said(first)
    assert second.ngram == first.ngram
    kept = {piece["key"]: piece["value"] for piece in map(json.loads, left[1:])}
    for name, engine in second.engines.items():
        recorded = [sample.seconds for sample in (*engine.warmup_decode, *engine.decode)]
        rounds = [kept[key] for key in (f"engine:{name}:{i}" for i in range(6)) if key in kept]
        if rounds:
            samples = [*rounds[0]["warmup_decode"], *(sample for one in rounds for sample in one["decode"])]
            assert recorded[: len(samples)] == [sample["seconds"] for sample in samples]
        assert len(engine.request_s) == len(first.engines[name].request_s)
        alone, expected = ([one for one in of.prefill if not one.beside] for of in (engine, first.engines[name]))
        assert len(alone) == len(expected)  # whether a prompt is read in a pass of others is a matter of moments


@pytest.mark.slow
def test_kill_9_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    with serving(PLANTED) as target, serving(PLANTED) as draft:
        calm, killed = (command(target, draft, tmp_path, f"{name}.json") for name in ("calm", "killed"))
        check_killed(calm, killed, tmp_path, kills=2, seed=1)


@pytest.mark.slow
@pytest.mark.long("minutes: a dozen starts of real models; CI kills a calibration of planted servers")
@pytest.mark.timeout(1200)
def test_kill_9_at_ten_random_moments_with_real_models(tmp_path: Path) -> None:
    """The bundled pair: ten kills, and every worker process gone each time."""
    options = ("-n", "5", "--seed", "3", "--allow-noise", "-o")
    calibrate = [sys.executable, "-m", "specplan", "calibrate", "torch", *options]
    calm, killed = ([*calibrate, str(tmp_path / f"{name}.json")] for name in ("calm", "killed"))
    check_killed(calm, killed, tmp_path, kills=10, seed=2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interruption_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, a terminal that is closed, and `kill`."""
    with serving(PLANTED) as target, serving(PLANTED) as draft:
        arguments, journal = command(target, draft, tmp_path, "p.json"), tmp_path / "p.json.part"
        with until_written(arguments, journal, 2000) as process:
            process.send_signal(number)
            out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out) == (130, "")
        assert err.strip() == (
            f"specplan: interrupted; what is finished is kept in {journal}: the same command goes on from there"
        )
        assert len(whole_lines(journal)) > 1
