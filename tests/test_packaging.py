"""The packages of the tree against a built wheel, and the pinned versions against the dependencies."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from setuptools import find_packages

import specplan

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DATA = PROJECT["tool"]["setuptools"]["package-data"]
LAYERS = ("theory", "ledger", "sim", "calibrate", "specplan")
INSTALLED = sorted(find_packages(str(ROOT), include=PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]))


def packages_in_tree() -> set[str]:
    folders = {path.parent for layer in LAYERS for path in (ROOT / layer).rglob("*.py")}
    return {".".join(folder.relative_to(ROOT).parts) for folder in folders}


def data_in_tree() -> set[str]:
    """Files that the code reads: everything below the packages that is not code."""
    files = (path for layer in LAYERS for path in (ROOT / layer).rglob("*") if path.is_file())
    kept = (p for p in files if p.suffix not in {".py", ".pyc", ".md", ".part"} and "__pycache__" not in p.parts)
    return {path.relative_to(ROOT).as_posix() for path in kept}


def data_listed() -> set[str]:
    found: set[str] = set()
    for package, patterns in DATA.items():
        for name in INSTALLED if package == "*" else [package]:
            folder = ROOT.joinpath(*name.split("."))
            found |= {
                p.relative_to(ROOT).as_posix() for pattern in patterns for p in folder.glob(pattern) if p.is_file()
            }
    return found


def test_packages_installed_are_those_of_the_tree() -> None:
    """Every folder with code is a package, and no other top-level folder is installed."""
    assert set(INSTALLED) == packages_in_tree()


def test_data_listed_is_that_of_the_tree() -> None:
    assert data_listed() == data_in_tree()


def test_version_is_the_same_everywhere() -> None:
    assert PROJECT["project"]["version"] == specplan.__version__
    assert f"## {specplan.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_installed_command_is_ours() -> None:
    try:
        installed = distribution("specplan")
    except PackageNotFoundError:
        pytest.fail("the project is not installed in this environment: run 'make setup'")
    scripts = {entry.name: entry.value for entry in installed.entry_points if entry.group == "console_scripts"}
    assert scripts == {"specplan": "specplan.cli:main"}


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[A-Za-z0-9_.-]+", text).group().lower().replace("_", "-") for text in requirements}  # type: ignore[union-attr]


def test_constraints_pin_every_dependency_exactly() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*", pin) for pin in pins), "no URLs, no local versions"
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = names(PROJECT["project"]["dependencies"] + extras["torch"] + extras["dev"])
    assert wanted <= names(pins)


@pytest.mark.slow
def test_wheel_holds_packages_and_data(tmp_path: Path) -> None:
    source = tmp_path / "source"  # a copy: setuptools would leave a build folder whose old files enter the next wheel
    for layer in LAYERS:
        shutil.copytree(ROOT / layer, source / layer, ignore=shutil.ignore_patterns("__pycache__", "*.part"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    code = {p.relative_to(ROOT).as_posix() for layer in LAYERS for p in (ROOT / layer).rglob("*.py")}
    assert held == code | data_in_tree()
