"""Files of arrivals: the three formats, and one line for each way in which they are wrong."""

from pathlib import Path

import pytest

from specplan.worlds.trace_files import read_trace
from theory.errors import SchemaError

MOONCAKE = """{"timestamp": 27000, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}
{"timestamp": 30000, "input_length": 6472, "output_length": 26, "hash_ids": [46]}
"""
OWN = """
{"arrival_s": 1.5, "prompt_tokens": 900, "answer_tokens": 400, "note": "whatever"}
{"arrival_s": 1.75, "prompt_tokens": 0, "answer_tokens": 1}
"""
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
"""
AZURE_ZONED = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:01+00:00,2399,6
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text", "times", "prompts", "answers"),
    [
        ("arrivals.jsonl", MOONCAKE, [0.0, 3.0], [6955, 6472], [52, 26]),
        ("arrivals.jsonl", OWN, [0.0, 0.25], [900, 0], [400, 1]),
        ("no-name", AZURE, [0.0, 0.052], [4808, 3180], [10, 8]),
        ("unanswered.csv", AZURE.replace(",8\n", ",0\n"), [0.0, 0.052], [4808, 3180], [10, 1]),
        ("week.CSV", AZURE_ZONED, [0.0, 0.99007], [2162, 2399], [5, 6]),
        ("bom.csv", "\ufeff" + AZURE.replace("\n", "\r\n"), [0.0, 0.052], [4808, 3180], [10, 8]),
    ],
)
def test_formats(
    tmp_path: Path, name: str, text: str, times: list[float], prompts: list[int], answers: list[int]
) -> None:
    found = read_trace(written(tmp_path, name, text))
    assert found.times_s == pytest.approx(times, abs=1e-6)  # seconds since 1970 in a float: 2e-7
    assert found.prompt_tokens.tolist() == prompts
    assert found.answer_tokens.tolist() == answers


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.jsonl", "", "a.jsonl:1: no arrivals"),
        ("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "a.csv:1: no arrivals"),
        ("a.txt", "[1, 2]\n", "a.txt:1: must begin with an object"),
        ("a.jsonl", OWN + MOONCAKE, "a.jsonl:4: arrival_s: missing"),
        ("a.jsonl", '{"arrival_s": Infinity, "prompt_tokens": 1, "answer_tokens": 1}', "a.jsonl:1: arrival_s: "),
        ("a.jsonl", '{"arrival_s": 1, "prompt_tokens": true, "answer_tokens": 1}', "a.jsonl:1: prompt_tokens: "),
        ("a.jsonl", '{"timestamp": ' + "[" * 5000 + "]" * 5000 + "}", "a.jsonl:1: "),
        ("a.csv", AZURE + '2023-11-16 18:17:05,"' + "1" * 200_000 + '",1\n', "a.csv:4: field larger"),
        ("a.jsonl", MOONCAKE + "{", "a.jsonl:3: invalid JSON"),
        ("a.jsonl", '{"timestamp": 1, "input_length": 5}', "a.jsonl:1: output_length: missing"),
        ("a.jsonl", '{"timestamp": 1, "input_length": -5, "output_length": 1}', "a.jsonl:1: input_length: "),
        ("a.jsonl", '{"timestamp": NaN, "input_length": 5, "output_length": 1}', "a.jsonl:1: timestamp: "),
        ("a.jsonl", MOONCAKE + MOONCAKE, "a.jsonl:3: arrives before the line above"),
        ("a.csv", AZURE.replace("GeneratedTokens", "Tokens"), "a.csv:1: must begin with"),
        ("a.csv", AZURE.replace("2023-11-16 18:17:04", "yesterday"), "a.csv:3: TIMESTAMP: "),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, name: str, text: str, told: str) -> None:
    with pytest.raises(SchemaError) as error:
        read_trace(written(tmp_path, name, text))
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="No such file"):
        read_trace(tmp_path / "none.jsonl")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SchemaError, match="not UTF-8"):
        read_trace(tmp_path / "bytes.csv")
