"""Reports as files: nothing from outside, nothing of a name becomes markup, both forms say the same."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import subprocess
from html.parser import HTMLParser

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.output import SCREEN
from specplan.show.page import Answer, Bullets, Code, Interval, Picture, Report, Section, Table, Text, Widget, cleaned
from specplan.show.rendering import as_html, as_markdown, broken, json_lines
from specplan.show.saving import command_line, report_option
from specplan.show.svg import Line, lines, scatter

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'`|[x](javascript:alert(1)) \u202e\u200b{{7*7}}"
)
FOREIGN = {"src", "href", "xlink:href", "srcset", "style", "action", "formaction", "background", "poster", "data"}
"""Attributes by which a page loads or runs something."""


class Seen(HTMLParser):
    """The elements of a page, the texts of its scripts and styles, and all attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if self.lasttag in self.inside and data.strip():
            self.inside[self.lasttag].append(data)


def hostile(text: str = HOSTILE) -> Report:
    """A report in which every text is this one."""
    drawn = lines([Line(text, [(1.0, 1.0), (2.0, 2.0)], [Interval(1, 0, 2), None])], x_name=text, y_name=text)
    parts = [
        Text(text),
        Bullets([text]),
        Code(text),
        Table(headings=[text, text], rows=[[text, Interval(1.5, 1.0, 2.0)]], reference=1.0),
        Table(headings=[text], rows=[[text]], folded=True, summary=text),
        Picture(drawn, text),
        Picture(scatter({text: [(1.0, 2.0, text), (2.0, 3.0, text)]}, x_name=text, y_name=text), text),
        Widget({text: [text], "grid": 1}, text),
    ]
    return Report(
        title=text,
        about=text,
        lead=text,
        answers=[Answer(text, text, text)],
        sections=[Section(text, parts)],
        notes=[text],
    )


def test_no_text_becomes_markup() -> None:
    harmless = Seen(as_html(hostile("x"), [("x", "x")], "x"))
    seen = Seen(as_html(hostile(), [(HOSTILE, HOSTILE)], HOSTILE))
    assert seen.tags == harmless.tags
    assert [(tag, name) for tag, name, _ in seen.attributes] == [(tag, name) for tag, name, _ in harmless.attributes]
    assert seen.inside["script"][1:] == harmless.inside["script"][1:]


def test_characters_that_are_not_seen_are_written_as_numbers() -> None:
    for page in (as_html(hostile(), [], ""), as_markdown(hostile(), [], "")):
        assert "\u202e" not in page
        assert "\u200b" not in page
        assert "u202e" in page
    assert cleaned("a\x00b\ud800") == "a\\u0000b\\ud800"


def test_nothing_is_loaded_from_anywhere_and_the_policy_allows_the_one_script_and_the_one_style() -> None:
    seen = Seen(as_html(hostile(), [], ""))
    assert not [one for one in seen.attributes if one[1] in FOREIGN or one[1].startswith("on")]
    assert not {"link", "img", "iframe", "object", "embed", "base", "a", "form"} & set(seen.tags)
    (style,) = seen.inside["style"]
    script = seen.inside["script"][-1]
    assert not re.search(r"url\(|@import|https?:", style)
    assert not re.search(r"https?:|fetch|XMLHttpRequest|WebSocket|import\(|eval|innerHTML|sendBeacon", script)
    policy = next(value for _, name, value in seen.attributes if name == "content" and "default-src" in value)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for text in (style, script):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy


def test_markdown_has_no_markup_from_names() -> None:
    text = as_markdown(hostile(), [], HOSTILE)
    outside = re.sub(r"(?ms)^(`{3,})$.*?^\1$", "", text)
    assert "<script" not in outside
    assert not re.search(r"(?<!\\)\]\(", outside)
    rows = [line for line in outside.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} <= {2, 3}


def test_markdown_says_what_html_says() -> None:
    text = as_markdown(hostile("word"), [("seed", "7")], "specplan plan")
    assert "| word | 1.50 \\[1.00, 2.00\\] |" in text
    assert "| seed | 7 |" in text
    assert "```\nspecplan plan\n```" in text


def test_the_command_is_told_without_what_is_secret() -> None:
    told = []

    @click.command(name="explain")
    @click.argument("sources", nargs=-1)
    @click.option("--server", multiple=True)
    @click.option("--flag", is_flag=True)
    @click.option("--unsaid", default=3)
    @report_option
    def command(**options: object) -> None:
        told.append(command_line(click.get_current_context()))

    source = "http://user:secret@host:8000/metrics?key=secret"
    server = ["--server", "http://a:1/v1#big=http://user:secret@b:2/v1?key=secret#big"]
    words = [source, *server, "--flag", "--report", "a b.html"]
    command.main(words, "explain", standalone_mode=False)
    (words_shown,) = told
    server_shown = "--server 'http://a:1/v1#big=http://b:2/v1#big'"
    assert words_shown == f"explain {server_shown} --flag --report 'a b.html' http://host:8000/metrics"


@pytest.mark.parametrize("shifts", [[0.0], [-1.5, 1.5], [-6.0, -3.0, 0.0, 3.0, 6.0]])
def test_points_stand_side_by_side_around_their_place(shifts: list[float]) -> None:
    """That of the only point of each line is the middle of 52 to 624 px."""
    drawn = lines([Line("a", [(1.0, 1.0)], [Interval(1.0, 0.5, 1.5)])] * len(shifts), x_name="x", y_name="y")
    assert [float(x) - 338.0 for x in re.findall(r'<circle cx="([0-9.]+)"', drawn)] == shifts


def test_a_scatter_holds_both_intervals_of_a_point() -> None:
    wide = Interval(1.5, 1.0, 2.0), Interval(1.4, 0.5, 2.5)
    drawn = scatter({"a": [(1.5, 1.4, "a")]}, x_name="x", y_name="y", intervals={"a": wide})
    ends = [[float(end) for end in re.findall(rf'{axis}[12]="([0-9.]+)"', drawn)][-4:] for axis in "xy"]
    (x_low, x_high, x, _), (_, y, y_low, y_high) = ends
    point = re.search(r'<circle[^>]* cx="([0-9.]+)" cy="([0-9.]+)"', drawn)
    assert point is not None
    assert (x, y) == pytest.approx([float(one) for one in point.groups()])
    assert x == pytest.approx((x_low + x_high) / 2)
    assert 14 <= y_high < y < y_low <= 274  # inside the frame


VLLM = ["vllm", "serve", "Qwen/Qwen3-32B", "--port", "8000", "--enable-expert-parallel", "--max-model-len", "20480"]
BY_BATCH = [[1, 31, 5], [32, 63, 4], [64, 127, 2], [128, 1024, 0]]
SPECULATIVE = {"method": "eagle3", "model": "RedHatAI/Qwen3-32B-speculator.eagle3", "by_batch_size": BY_BATCH}


@pytest.mark.parametrize(
    "command",
    [
        shlex.join(VLLM),
        "CUDA_VISIBLE_DEVICES=0,1 "
        + shlex.join([*VLLM, "--speculative-config", json.dumps(SPECULATIVE), "--max-num-seqs", "32"]),
        shlex.join(["vllm", "serve", "<EAGLE-3 head>", "--served-model-name", "it's here", "--x", '{"a": "b, c"}']),
    ],
)
def test_a_shell_reads_the_words_of_a_command_in_lines_of_a_terminal(command: str) -> None:
    text = broken(command)
    assert all(len(line) <= SCREEN for line in text.splitlines())
    shell = f'printf "%s\\0" {text.replace("CUDA_VISIBLE_DEVICES=0,1 ", "")}'
    read = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True).stdout
    words = shlex.split(command.replace("CUDA_VISIBLE_DEVICES=0,1 ", ""))
    for found, word in zip(read.split("\0")[:-1], words, strict=True):
        assert found == word or json.loads(found) == json.loads(word)


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=12), st.lists(st.integers() | st.text(max_size=20), max_size=5), max_size=6))
def test_json_stays_the_same_data_whatever_its_strings_hold(data: dict[str, list[int | str]]) -> None:
    assert json.loads("\n".join(json_lines(json.dumps(data), 30))) == data
