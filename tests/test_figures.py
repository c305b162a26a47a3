"""The committed pictures, and the scripts that make them: each asserts what its caption says."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

FIGURES = Path(__file__).parent.parent / "figures"
SCRIPTS = sorted(path.stem for path in FIGURES.glob("[a-z]*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_committed_picture_says_how_it_was_made(name: str) -> None:
    with Image.open(FIGURES / "out" / f"{name}.png") as picture:
        assert picture.info["Software"] == "specplan"
        assert picture.info["Description"].endswith(".")
        assert "seed=" in picture.info["Comment"]
        assert "commit=" in picture.info["Comment"]


@pytest.mark.slow
@pytest.mark.long("minutes: a simulation or a map for each picture, which change with their scripts alone")
@pytest.mark.parametrize("name", SCRIPTS)
def test_script_redraws_the_committed_picture(name: str, tmp_path: Path) -> None:
    """Pixels, not bytes: the metadata names the commit."""
    before = np.asarray(Image.open(FIGURES / "out" / f"{name}.png"))
    code = (
        f"import _common; from pathlib import Path; _common.OUT = Path({str(tmp_path)!r}); import {name}; {name}.main()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FIGURES), str(FIGURES.parent)])}
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=300, env=environment)
    after = np.asarray(Image.open(tmp_path / f"{name}.png"))
    assert np.array_equal(before, after)
