"""Profiles that come with specplan: published figures of papers, and measurements of real machines."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.profile import Profile

__all__ = ["bundled", "load", "names"]


def names() -> list[str]:
    """Names of the profiles that come with specplan, sorted."""
    return sorted(item.name.removesuffix(".json") for item in files(__name__).iterdir() if item.name.endswith(".json"))


@cache
def bundled(name: str) -> Profile:
    """Read a profile that comes with specplan.

    Raises
    ------
    ParameterError : there is none of that name.
    """
    from calibrate.profile import Profile

    if name not in names():
        raise ParameterError("profile", name, _advice(name))
    return Profile.parse((files(__name__) / f"{name}.json").read_text(encoding="utf-8"), f"profile {name}")


def load(name_or_path: str) -> Profile:
    """Read a profile by its name, or from a file.

    Anything that ends in ``.json``, contains a slash or is an existing file is taken for a path.

    Raises
    ------
    ParameterError : no profile of that name.
    SchemaError : the file cannot be read or is no profile.
    """
    from calibrate.profile import Profile

    if name_or_path in names():
        return bundled(name_or_path)
    if name_or_path.endswith(".json") or "/" in name_or_path or Path(name_or_path).exists():
        return Profile.read(name_or_path)
    raise ParameterError("profile", name_or_path, _advice(name_or_path))


def _advice(name: str) -> str:
    near = get_close_matches(name, names(), n=3, cutoff=0.5)
    listed = f"did you mean {' or '.join(near)}?" if near else "see 'specplan profile list'"
    return f"is neither a file nor a bundled profile; {listed}"
