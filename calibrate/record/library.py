"""Profiles that come with specplan: published figures of papers, and measurements of real machines."""

from __future__ import annotations

import os
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from calibrate.record.files import STDIN, read_text
from calibrate.record.json_text import parse_json
from theory.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from calibrate.record.profile import Profile

__all__ = ["FOLDER_VARIABLE", "bundled", "latencies", "load", "names"]

FOLDER_VARIABLE: Final = "SPECPLAN_PROFILES"
"""Environment variable that names a folder of the user's own profiles."""
_FOLDER: Final = "calibrate.profiles"


def names() -> list[str]:
    """Names of the profiles that come with specplan, sorted."""
    return sorted(item.name.removesuffix(".json") for item in files(_FOLDER).iterdir() if item.name.endswith(".json"))


@cache
def bundled(name: str) -> Profile:
    """Read a profile that comes with specplan.

    Raises
    ------
    ParameterError : no profile of that name.
    """
    from calibrate.record.profile import Profile

    if name not in names():
        raise ParameterError("profile", name, _advice(name))
    return Profile.parse((files(_FOLDER) / f"{name}.json").read_text(encoding="utf-8"), f"profile {name}")


def load(name_or_path: str) -> Profile:
    """Read a profile by its name, or from a file.

    A name that ends in ``.json``, contains a slash or is an existing file is a path, ``-`` is standard input.

    Raises
    ------
    ParameterError : no profile of that name.
    SchemaError : the file cannot be read or is no profile.
    """
    from calibrate.record.profile import Profile

    if name_or_path in names():
        return bundled(name_or_path)
    if name_or_path == STDIN or name_or_path.endswith(".json") or "/" in name_or_path or _exists(name_or_path):
        return Profile.read(name_or_path)
    raise ParameterError("profile", name_or_path, _advice(name_or_path))


def latencies(folder: Path | None = None) -> tuple[dict[str, Profile], list[str]]:
    """Profiles of source ``latency`` by name or path, each once, and a line for each file that is not valid JSON.

    They are those that come with specplan, and those in the user's folder; other profiles and JSON files are ignored.

    Parameters
    ----------
    folder : the user's folder; default the value of the environment variable `FOLDER_VARIABLE`, if it is set.

    Raises
    ------
    ParameterError : the folder is not a directory.
    SchemaError : a file states that it is a latency profile and does not fit the schema.
    """
    from calibrate.record.profile import Profile

    named = os.environ.get(FOLDER_VARIABLE, "") if folder is None else str(folder)
    if named and not (_exists(named) and Path(named).is_dir()):
        option = FOLDER_VARIABLE if folder is None else "latency-folder"
        raise ParameterError(option, named, "must be a folder of profiles")
    texts = {name: (files(_FOLDER) / f"{name}.json").read_text(encoding="utf-8") for name in names()}
    for path in sorted(Path(named).glob("*.json")) if named else ():
        try:
            texts[str(path)] = read_text(path, "a profile")
        except SchemaError:
            texts[str(path)] = ""
    profiles: dict[str, Profile] = {}
    passed_over = []
    for where, text in texts.items():
        try:
            data = parse_json(text, where)
        except SchemaError:
            passed_over.append(f"{where}: cannot be read as JSON")
            continue
        if isinstance(data, dict) and data.get("source") == "latency":
            profile = Profile.parse(text, where)
            if profile not in profiles.values():
                profiles[where] = profile
    return profiles, passed_over


def _exists(name: str) -> bool:
    """Whether the file exists; False for a name that is too long for a file."""
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):
        return False


def _advice(name: str) -> str:
    near = get_close_matches(name, names(), n=3, cutoff=0.5)
    listed = f"did you mean {' or '.join(near)}?" if near else "see 'specplan profile list'"
    return f"is neither a file nor a bundled profile; {listed}"
