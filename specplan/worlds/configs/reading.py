"""Reading a ``config.json`` from a disk, never more than its text."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from calibrate.record.files import read_text
from calibrate.record.json_text import parse_json
from theory.errors import SchemaError

__all__ = ["config_in", "exists"]

_MOST_BYTES: Final = 4_000_000  # the longest published ones list modules and stay under 1 MB
_WHAT: Final = "a model's config.json"


def exists(path: Path) -> bool:
    """Whether there is such a file or folder; a name too long or with a zero byte is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def config_in(file: Path) -> dict[str, Any]:
    """Return the content of a configuration, with that of the ``hf_quant_config.json`` beside it where it has none.

    Raises
    ------
    SchemaError : it cannot be read, is too long, or is not a JSON object.
    """
    config = _object_in(file)
    beside = file.with_name("hf_quant_config.json")
    if "quantization_config" not in config and file.name == "config.json" and exists(beside):
        config["quantization_config"] = _object_in(beside)
    return config


def _object_in(file: Path) -> dict[str, Any]:
    content = parse_json(read_text(file, _WHAT, most_bytes=_MOST_BYTES), str(file))
    if not isinstance(content, dict):
        raise SchemaError(f"{file}: must hold a JSON object, not a {type(content).__name__}")
    return content
