"""Reports as files: nothing from outside, nothing of a name becomes markup, both forms say the same."""

import base64
import hashlib
import json
import math
import re
import shlex
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from specplan.output import SCREEN
from specplan.show.drawing import Line, as_svg, lines, scatter
from specplan.show.page import Answer, Bullets, Code, Interval, Picture, Report, Section, Table, Text, cleaned
from specplan.show.rendering import as_html, as_markdown, broken, json_lines
from specplan.show.saving import command_line, report_option

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'`|[x](javascript:alert(1)) \u202e\u200b{{7*7}}"
    " $\\frac$ 語"
)
FOREIGN = {"src", "href", "xlink:href", "srcset", "style", "action", "formaction", "background", "poster", "data"}
"""Attributes by which a page loads or runs something."""


class Seen(HTMLParser):
    """The elements of a page or a drawing, its styles, and all attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.styles: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style" and data.strip():
            self.styles.append(data)

    def drawings(self) -> list[str]:
        """The SVG of the page's images, none of which is from elsewhere."""
        said = [value for tag, name, value in self.attributes if (tag, name) == ("img", "src")]
        assert all(one.startswith("data:image/svg+xml;base64,") for one in said)
        return [base64.b64decode(one.partition(",")[2]).decode() for one in said]


def hostile(text: str = HOSTILE) -> Report:
    """A report in which every text is this one."""
    drawn = lines([Line(text, [(1.0, 1.0), (2.0, 2.0)], [Interval(1, 0, 2), None])], x_name=text, y_name=text)
    points = scatter({text: [(1.0, 2.0), (2.0, 3.0)]}, x_name=text, y_name=text)
    parts = [
        Text(text),
        Bullets([text]),
        Code(text),
        Table(headings=[text, text], rows=[[text, Interval(1.5, 1.0, 2.0)]], reference=1.0),
        Table(headings=[text], rows=[[text]], folded=text),
        Picture(lambda: drawn, text),
        Picture(lambda: points, text),
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
    pairs = zip([seen, *map(Seen, seen.drawings())], [harmless, *map(Seen, harmless.drawings())], strict=True)
    for one, other in pairs:
        assert one.tags == other.tags
        assert [(tag, name) for tag, name, _ in one.attributes] == [(tag, name) for tag, name, _ in other.attributes]


def test_characters_that_are_not_seen_are_written_as_numbers() -> None:
    written = as_html(hostile(), [], "")
    for page in (written, *Seen(written).drawings(), as_markdown(hostile(), [], "")):
        assert "\u202e" not in page
        assert "\u200b" not in page
        assert "u202e" in page
    assert cleaned("a\x00b\ud800") == "a\\u0000b\\ud800"


def test_nothing_is_loaded_from_anywhere_and_the_policy_allows_drawings_and_the_one_style() -> None:
    seen = Seen(as_html(hostile(), [], ""))
    loading = [one for one in seen.attributes if one[1] in FOREIGN or one[1].startswith("on")]
    assert [one[:2] for one in loading] == [("img", "src")] * len(seen.drawings()) == [("img", "src")] * 2
    assert not {"script", "link", "iframe", "object", "embed", "base", "a", "form"} & set(seen.tags)
    (style,) = seen.styles
    assert not re.search(r"url\(|@import|https?:", style)
    policy = next(value for _, name, value in seen.attributes if name == "content" and "default-src" in value)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy


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
    assert "## Notes" in text
    assert "## Notes" not in as_markdown(replace(hostile("word"), notes=[]), [], "")


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


def curves(drawn: Figure) -> list[list[tuple[float, float]]]:
    """Ends of the lines of a drawing that are neither axes nor marks, from left and top in points."""
    paths = re.findall(
        r'<path d="M ([0-9. ]+?) ?\nL ([0-9. ]+?) ?\n" clip-path[^>]* style="[^"]*stroke-opacity: 0.55', as_svg(drawn)
    )
    return [[tuple(map(float, end.split())) for end in path] for path in paths]  # type: ignore[misc]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_intervals_stand_side_by_side_around_their_place(n: int) -> None:
    one = Line("a", [(1.0, 1.0), (2.0, 1.0)], [Interval(1.0, 0.5, 1.5), Interval(1.0, 0.5, math.inf)])
    places = [start[0] for start, _ in curves(lines([one] * n, x_name="x", y_name="y"))]
    assert [place - places[0] for place in places] == pytest.approx([2.3 * i for i in range(n)], abs=0.01)


@pytest.mark.parametrize(("n", "log"), [(3, False), (40, False), (40, True)])
def test_lines_are_drawn_within_the_axes(n: int, log: bool) -> None:
    line = Line("a", [(x, 1.0) for x in range(1, n + 1)], [Interval(1.0, 0.5, 2.0)] * n)
    (axes,) = lines([line] * 3, x_name="x", y_name="y", log=log, reference=1.0).axes
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert left < 1.0 < n < right < 2.0 * n
    assert 0.0 == low < 2.0 < high


def test_a_scatter_holds_both_intervals_of_a_point() -> None:
    wide = Interval(1.5, 1.0, 2.0), Interval(1.4, 0.5, 2.5)
    (left, right), (low, high) = curves(scatter({"a": [(1.5, 1.4)]}, x_name="x", y_name="y", intervals={"a": wide}))
    assert left[1] == right[1]
    assert low[0] == high[0] == pytest.approx((left[0] + right[0]) / 2)
    assert low[1] - left[1] == pytest.approx(9.0 / 11.0 * (left[1] - high[1]))


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
