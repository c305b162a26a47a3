"""The published numbers of SPECS: complete tables, and transcriptions made apart from each other that agree."""

from __future__ import annotations

from fractions import Fraction

from theory.claims.specs import published, tables

KEYS = [(benchmark, width) for benchmark in published.BENCHMARKS for width in published.WIDTHS]


def test_table_1_is_complete() -> None:
    methods = ("BS(S)", "BS(B)", "RSD", "SPECS")
    wanted = {(f, b, m, n) for f in published.FAMILIES for b, n in KEYS for m in methods}
    assert set(published.TABLE_1) == wanted


def test_latencies_agree_with_the_other_transcription() -> None:
    """`tables` was typed by hand before these tables were read out of the text by machine."""
    for benchmark, width, specs, beam in tables._LATENCIES:
        assert published.TABLE_1["Qwen2.5", benchmark, "SPECS", width][1] == specs
        assert published.TABLE_1["Qwen2.5", benchmark, "BS(B)", width][1] == beam
    for (benchmark, width), row in zip(KEYS, tables._LATENCIES_LLAMA, strict=True):
        found = tuple(published.TABLE_1["Llama3", benchmark, method, width][1] for method in ("SPECS", "BS(B)"))
        assert found == row


def test_rows_that_the_paper_repeats_agree() -> None:
    """SPECS of Table 1 stands in Tables 2 and 6 again; its one contradiction is the claim SPECS-TAB2."""
    for benchmark, width in KEYS:
        column = 2 * published.BENCHMARKS.index(benchmark)
        accuracy, seconds, _share = published.TABLE_1["Qwen2.5", benchmark, "SPECS", width]
        for table in (published.TABLE_2, published.TABLE_6):
            row = table["SPECS", width]
            assert Fraction(row[column]) == Fraction(accuracy)
            if (benchmark, width, table) != ("MATH500", 16, published.TABLE_2):
                assert Fraction(row[column + 1]) == Fraction(seconds)
        rsd = published.TABLE_1["Qwen2.5", benchmark, "RSD", width]
        assert tuple(published.TABLE_6["RSD", width][column : column + 2]) == rsd[:2]


def test_hyperparameters_are_complete() -> None:
    """Table 3 for both pairs; Table 5 repeats SPECS of Table 1, so only its other rows are data."""
    assert set(published.TABLE_3) == {(f, b, n) for f in published.FAMILIES for b, n in KEYS}
    assert set(published.TABLE_5) == set(published.WIDTHS)
    for beta, tau in published.TABLE_3.values():
        assert beta > 0
        assert 0 < Fraction(tau) < 1


def test_cells_are_decimals() -> None:
    for table in (
        published.TABLE_1,
        published.TABLE_2,
        published.TABLE_4,
        published.TABLE_5,
        published.TABLE_6,
        published.TABLE_7,
    ):
        for row in table.values():
            for cell in row:
                assert Fraction(cell) >= 0
