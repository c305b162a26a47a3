"""Every command's JSON names its schema and version, in one style."""

from __future__ import annotations

import json
import re

import pytest
from screens import Main

PROFILE = "lr-qwen3-gsm8k"
COMMANDS = {
    "specplan.plan": ("plan", "-p", PROFILE, "--methods", "lr-async", "--k1-max", "2", "-n", "2"),
    "specplan.prediction": ("simulate", "-p", PROFILE, "--k1", "2", "-n", "2"),
    "specplan.profiles": ("profile", "list"),
    "specplan.profile-check": ("profile", "check", PROFILE),
    "specplan.methods": ("methods",),
    "specplan.method": ("methods", "lr-async"),
    "specplan.gaps": ("methods", "--gaps"),
    "specplan.theorems": ("theorems", "LR-B1"),
    "specplan.reproduction": ("reproduce", "specs"),
}


@pytest.mark.parametrize("schema", COMMANDS)
def test_json_names_its_schema_and_version(schema: str, run_main: Main) -> None:
    code, out, err = run_main(*COMMANDS[schema], "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert (data["schema"], data["schema_version"]) == (schema, 1)
    assert re.fullmatch(r"specplan\.[a-z]+(-[a-z]+)*", schema)
