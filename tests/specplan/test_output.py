"""Tables of plain text: columns, numbers to the right, and texts wrapped into a width."""

from hypothesis import given
from hypothesis import strategies as st

from specplan.output import screen, table

WORDS = st.lists(st.text("abcdef", min_size=1, max_size=9), min_size=1, max_size=12).map(" ".join)


def test_numbers_stand_right_and_words_left() -> None:
    assert table(["name", "n"], [["a", "1"], ["bcdef", "22"]]).splitlines() == [
        "name    n",
        "-----  --",
        "a       1",
        "bcdef  22",
    ]


def test_the_widest_text_is_wrapped_into_the_width() -> None:
    told = table(["name", "n", "why"], [["a", "1", "several words that take two lines"]], width=30)
    assert told.splitlines() == [
        "name  n  why",
        "----  -  ---------------------",
        "a     1  several words that",
        "         take two lines",
    ]


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5), st.integers(30, 90))
def test_no_word_is_lost_and_no_line_wider(rows: list[tuple[str, str]], width: int) -> None:
    told = table(["first", "second"], rows, width=width).splitlines()
    assert max(map(len, told)) <= width
    cut = told[1].index("  ") + 2
    for column in (slice(None, cut), slice(cut, None)):
        wrapped = " ".join(" ".join(line[column] for line in told[2:]).split())
        wanted = " ".join(row[0 if column.start is None else 1] for row in rows)
        assert wrapped == " ".join(wanted.split())


def test_names_are_not_broken_at_their_hyphens() -> None:
    name = "meta-llama/Llama-3.3-70B-Instruct"
    block = f"A plan for a model of such a name, with a draft that has as many of them, {name}, and one more, {name}"
    assert screen(block).count(name) == screen([block]).count(name) == 2
