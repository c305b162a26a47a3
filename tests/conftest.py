"""What all tests share."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

if TYPE_CHECKING:
    from bundled_pair import BundledPair
    from evidence import Shared

    from ledger.runner import Verification

os.environ.setdefault("MPLBACKEND", "Agg")
# Workers of a run have the cores for each other: more threads in each would wait for one another, and spin meanwhile.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Tests run on shared machines: examples are the same in every run, and none fails for being slow once.
settings.register_profile("specplan", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("specplan")
# Nor do they depend on which modules were imported before, whose constants are drawn else, after reading all sources.
providers._get_local_constants = lambda: providers._local_constants

ENGINES = ("engines", "bundled_pair")
"""Fixtures that start processes with torch models, tens of seconds of processor time each."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Main = Callable[..., tuple[int, str, str]]


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Workers take long stretches of neighbouring tests, which share engines, and steal from each other at the end."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import without looking for garbage, and leave what is there then out of later searches: most of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no examples in files of tests, of which there are none: that would read each of them twice."""
    return [found for found in (yield) if type(found) is pytest.Module]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files that need the same engines one after the other, and first: of several workers, one starts them.

    Then those that need torch, so that one worker waits for what transformers imports, four seconds.
    Tests that need vLLM run in the order of the time that they may take: quick ones first, shared servers once.
    """
    first = {name: rank for rank, name in enumerate(ENGINES)}
    ranks: dict[Path, int] = {}
    for item in items:
        others = len(first) + (not hasattr(getattr(item, "module", None), "torch"))
        rank = min((first.get(name, others) for name in getattr(item, "fixturenames", ())), default=others)
        ranks[item.path] = min(rank, ranks.get(item.path, rank))
    items.sort(key=lambda item: (_may_take(item), ranks[item.path]))


def _may_take(item: pytest.Item) -> float:
    """Seconds that a test with vLLM is allowed beyond pytest's own limit; 0 for others, which stay where they are."""
    limit = item.get_closest_marker("timeout") if item.get_closest_marker("vllm") else None
    return float(limit.args[0]) if limit else 0.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine: in the loop of the engines it asks for, or else in one of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    run = next((one.run for one in given.values() if hasattr(one, "run")), asyncio.run)
    run(pyfuncitem.obj(**given))
    return True


@pytest.fixture(scope="session")
def bundled_pair() -> Iterator[BundledPair]:
    """The bundled pair, running."""
    from bundled_pair import BundledPair

    pair = BundledPair()
    yield pair
    pair.close()


@pytest.fixture(scope="session")
def vllm_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """URLs of vLLM servers of the bundled pair: ``target``, ``draft``, and ``fast``, the target with n-grams."""
    from vllm_server import pair_servers

    with pair_servers(tmp_path_factory.mktemp("servers")) as urls:
        yield urls


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """The evidence of this run; under xdist, each worker's folder lies in that of the run."""
    from evidence import Shared

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "evidence"
    folder.mkdir(exist_ok=True)
    return Shared(folder)


@pytest.fixture(scope="session")
def verified(shared: Shared) -> Callable[[str], Verification]:
    """Call with the id of a claim: its verification."""
    from ledger.ledger import claim
    from ledger.runner import verify_claim

    return lambda claim_id: shared.get(claim_id, lambda: verify_claim(claim(claim_id)))


@pytest.fixture(scope="session")
def console_script() -> list[str]:
    """The installed command; the module where the project is not installed but on the path."""
    script = Path(sysconfig.get_path("scripts")) / "specplan"
    return [str(script)] if script.exists() else [sys.executable, "-m", "specplan"]


@pytest.fixture(scope="session")
def run_installed(console_script: list[str]) -> Run:
    """Run the installed command in a process of its own."""

    def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*console_script, *arguments], capture_output=True, text=True, timeout=300, check=False, **options
        )

    return run


@pytest.fixture
def run_main(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Main:
    """Run the command line in this process; returns exit code, stdout and stderr."""
    from specplan.cli import main

    monkeypatch.delenv("SPECPLAN_DEBUG", raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run
