"""The published numbers of SPECS: complete tables, and rows that the paper prints more than once."""

from fractions import Fraction

from theory.published import specs as published

KEYS = [(benchmark, width) for benchmark in published.BENCHMARKS for width in published.WIDTHS]


def test_tables_are_complete_and_their_cells_decimals() -> None:
    """Table 3 is for both pairs; Table 5 repeats SPECS of Table 1, so only its other rows are data."""
    methods = ("BS(S)", "BS(B)", "RSD", "SPECS")
    wanted = {(f, b, m, n) for f in published.FAMILIES for b, n in KEYS for m in methods}
    assert set(published.TABLE_1) == wanted
    assert set(published.TABLE_3) == {(f, b, n) for f in published.FAMILIES for b, n in KEYS}
    assert set(published.TABLE_5) == set(published.WIDTHS)
    for number in (1, 2, 4, 5, 6, 7):
        for row in getattr(published, f"TABLE_{number}").values():
            assert all(Fraction(cell) >= 0 for cell in row)
    for beta, tau in published.TABLE_3.values():
        assert beta > 0
        assert 0 < Fraction(tau) < 1


def test_rows_that_the_paper_repeats_agree() -> None:
    """SPECS of Table 1 stands in Tables 2 and 6 again; its one contradiction is the claim SPECS-TAB2."""
    for benchmark, width in KEYS:
        column = 2 * published.BENCHMARKS.index(benchmark)
        cell = published.TABLE_1["Qwen2.5", benchmark, "SPECS", width]
        for table in (published.TABLE_2, published.TABLE_6):
            row = table["SPECS", width]
            assert Fraction(row[column]) == Fraction(cell.accuracy)
            if (benchmark, width, table) != ("MATH500", 16, published.TABLE_2):
                assert Fraction(row[column + 1]) == Fraction(cell.seconds)
        rsd = published.TABLE_1["Qwen2.5", benchmark, "RSD", width]
        assert tuple(published.TABLE_6["RSD", width][column : column + 2]) == (rsd.accuracy, rsd.seconds)
