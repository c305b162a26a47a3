"""A calibration killed, interrupted or out of disk space: nothing is lost, counted twice or left running."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from openai_server import OpenAIServer, Planted, serving

from calibrate.record.profile import Profile

PLANTED = Planted(iteration_s=0.0005)
SMALL = """
import sys
from pathlib import Path
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.running.problem import Problem
from calibrate.models.servers import RemoteModels
from calibrate.measuring.plan import CalibrationPlan
from specplan.calibrating import measure
target, draft, output, n = sys.argv[1:]
options = MeasureOptions(batches=(1,), contexts=(8,), iterations=6, prefills=(4,), repeats=2, rounds=3)
problems = tuple(Problem(name=f"q{i}", prompt=f"Question {i} is?") for i in range(int(n)))
models = RemoteModels(target=target, draft=draft)
measure(CalibrationPlan(models=models, problems=problems, engine=options, warm_up_s=0.02), Path(output))
"""
"""What the command does, with less to measure."""

PATIENCE_S = 300.0
"""Until something is taken as hanging, s: machines have much else to do."""


def command(target: OpenAIServer, draft: OpenAIServer, folder: Path, name: str, n: int = 6) -> list[str]:
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"Question {i} is?"}) + "\n" for i in range(n)), encoding="utf-8")
    servers = ("--target", target.url, "--draft", draft.url, "--concurrency", "1")
    # Processes compete for the machine that the sentinels watch: that is not what is tested here.
    return [
        *(sys.executable, "-m", "specplan", "calibrate", "openai", *servers, "--prompts", str(prompts)),
        *("-n", str(n), "--allow-noise", "-o", str(folder / name)),
    ]


def small(target: OpenAIServer, draft: OpenAIServer, output: Path, n: int = 6) -> list[str]:
    return [sys.executable, "-c", SMALL, target.url, draft.url, str(output), str(n)]


def start(arguments: list[str], **options: Any) -> subprocess.Popen[str]:
    # Where the tests themselves run in the background of a shell or under nohup, children would be deaf to these.
    options.setdefault("preexec_fn", lambda: [signal.signal(n, signal.SIG_DFL) for n in (signal.SIGINT, signal.SIGHUP)])
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


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


def said(profile: Profile) -> list[Any]:
    """Everything recorded that is no time."""
    return [
        (
            answer.problem,
            [(s.draft.tokens, s.target.tokens, s.verdict.accepted, s.verdict.prompt_tokens) for s in answer.steps],
            [step.tokens for step in answer.baseline],
        )
        for answer in profile.answers
    ]


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


@pytest.mark.slow
def test_kill_9_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    with serving(PLANTED) as target, serving(PLANTED) as draft:
        size = _journal_size(small(target, draft, tmp_path / "calm.json"), tmp_path / "calm.json")
        arguments, journal = small(target, draft, tmp_path / "killed.json"), tmp_path / "killed.json.part"
        left = kill_at_random_moments(arguments, journal, size, kills=2, seed=1)
        assert left, "no kill came in the middle: the test tests nothing"
        _finish(arguments)
    _compare(tmp_path, left)


def _journal_size(arguments: list[str], output: Path) -> int:
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


def _finish(arguments: list[str]) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr


def _compare(folder: Path, left: list[bytes]) -> None:
    """The profile of the killed calibration says what the undisturbed one says, and holds every kept sample once."""
    calm, killed = (Profile.read(folder / f"{name}.json") for name in ("calm", "killed"))
    assert said(killed) == said(calm)
    assert killed.ngram == calm.ngram
    kept = {piece["key"]: piece["value"] for piece in map(json.loads, left[1:])}
    for name, engine in killed.engines.items():
        recorded = [sample.seconds for sample in (*engine.warmup_decode, *engine.decode)]
        rounds = [kept[key] for key in (f"engine:{name}:{i}" for i in range(6)) if key in kept]
        if rounds:
            samples = [*rounds[0]["warmup_decode"], *(sample for one in rounds for sample in one["decode"])]
            assert recorded[: len(samples)] == [sample["seconds"] for sample in samples]
        assert len(engine.request_s) == len(calm.engines[name].request_s)
        assert len(engine.prefill) == len(calm.engines[name].prefill)


@pytest.mark.slow
@pytest.mark.long("minutes: a dozen starts of real models; CI kills a calibration of planted servers")
@pytest.mark.timeout(1200)
def test_kill_9_at_ten_random_moments_with_real_models(tmp_path: Path) -> None:
    """The bundled pair: ten kills, and every worker process gone each time."""

    def arguments(name: str) -> list[str]:
        options = ("-n", "5", "--seed", "3", "--allow-noise", "-o", str(tmp_path / f"{name}.json"))
        return [sys.executable, "-m", "specplan", "calibrate", "torch", *options]

    size = _journal_size(arguments("calm"), tmp_path / "calm.json")
    left = kill_at_random_moments(arguments("killed"), tmp_path / "killed.json.part", size, kills=10, seed=2)
    assert left
    _finish(arguments("killed"))
    _compare(tmp_path, left)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, `kill`, and a terminal that is closed."""
    with serving(PLANTED) as target, serving(PLANTED) as draft:
        arguments, journal = command(target, draft, tmp_path, "p.json", n=3), tmp_path / "p.json.part"
        with until_written(arguments, journal, 2000) as process:
            process.send_signal(number)
            out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out) == (130, "")
        assert err.strip() == (
            f"specplan: interrupted; what is finished is kept in {journal}: the same command goes on from there"
        )
        assert len(whole_lines(journal)) > 1


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_journal_stays_good(tmp_path: Path) -> None:
    """Files may not grow beyond 190 kB, a piece and a part of the next: the write that fails is taken back.

    A piece has the iterations of a second's warm-up, of 0.5 ms and more: at most 152 kB, and half of that on a slow
    machine. With more room it goes on.
    """
    with serving(PLANTED) as target, serving(PLANTED) as draft:
        arguments, journal = command(target, draft, tmp_path, "p.json", n=8), tmp_path / "p.json.part"
        limit = 190_000
        full = start(arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        out, err = full.communicate(timeout=PATIENCE_S)
        assert (full.returncode, out) == (1, "")
        assert err == (
            f"specplan: error: {journal}: cannot be written: File too large; what was finished before is kept, "
            "the same command goes on from there\n"
        )
        kept = journal.read_bytes()
        assert kept.endswith(b"\n")
        assert 0 < len(kept) <= limit
        assert not (tmp_path / "p.json").exists()
        with until_written(arguments, journal, limit + 1):  # with more room it goes on from there
            assert journal.read_bytes().startswith(kept)


def test_two_processes_do_not_share_a_journal(tmp_path: Path) -> None:
    from calibrate.record.journal import Journal
    from theory.errors import CalibrationError

    path = tmp_path / "j"
    with Journal(path, {"a": 1}) as journal:
        journal.add("x", 1)
        with pytest.raises(CalibrationError, match="another process is measuring"):
            Journal(path, {"a": 1})
    with Journal(path, {"a": 1}) as journal:
        assert journal.keys() == ["x"]


def test_a_failed_write_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrate.record.journal import Journal
    from theory.errors import CalibrationError

    path, write = tmp_path / "j", os.pwrite

    def full(file: int, data: bytes, offset: int) -> int:
        if b"second" in data:
            return write(file, data[:5], offset)
        if offset > first:
            raise OSError(28, "No space left on device")
        return write(file, data, offset)

    with Journal(path, {"a": 1}) as journal:
        journal.add("first", 1)
        first = path.stat().st_size
        monkeypatch.setattr("os.pwrite", full)
        with pytest.raises(CalibrationError, match="No space left on device; what was finished before is kept"):
            journal.add("second", "x" * 50)
        assert path.stat().st_size == first
        monkeypatch.undo()
        journal.add("third", 3)
    with Journal(path, {"a": 1}) as journal:
        assert journal.keys() == ["first", "third"]
