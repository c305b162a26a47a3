"""What the figures share: colours that colour-blind readers tell apart, and files that say how they were made."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

__all__ = ["BLUE", "GREEN", "GREY", "ORANGE", "OUT", "PURPLE", "SKY", "VERMILION", "metadata", "new_figure", "save"]

OUT: Final = Path(__file__).parent / "out"

# Okabe and Ito's palette.
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GREY = "#CC79A7", "#56B4E9", "#777777"


def new_figure(width: float, height: float) -> Figure:
    """A figure that needs no display."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, name: str, *, seed: int | None, caption: str) -> Path:
    """Write ``out/NAME.png`` with its seed, commit and caption in the metadata."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.png"
    figure.savefig(path, dpi=150, metadata=metadata(seed=seed, caption=caption))
    print(f"{path.name}: {caption}")
    return path


def metadata(*, seed: int | None, caption: str) -> dict[str, str]:
    """PNG text fields; the commit is the last one that touched the code."""
    root = Path(__file__).parent.parent
    command = ["git", "log", "-1", "--format=%h", "--", "theory", "sim", "calibrate", "specplan", "figures/*.py"]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return {
        "Software": "specplan",
        "Description": caption,
        "Comment": f"seed={seed} commit={found.stdout.strip() or 'unknown'}",
    }
