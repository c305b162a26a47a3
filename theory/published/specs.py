"""SPECS: the numbers of its Tables 1 to 7, as printed (strings keep the rounding)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = [
    "BENCHMARKS",
    "FAMILIES",
    "TABLE_1",
    "TABLE_2",
    "TABLE_3",
    "TABLE_4",
    "TABLE_5",
    "TABLE_6",
    "TABLE_7",
    "WIDTHS",
    "Performance",
]

BENCHMARKS: Final = ("AMC23", "MATH500", "OlympiadBench")
WIDTHS: Final = (4, 8, 16)
FAMILIES: Final = ("Qwen2.5", "Llama3")

_Row = tuple[str, ...]


class Performance(NamedTuple):
    """A cell of Table 1, as printed; what follows a value is its printed spread (``0`` where none is printed)."""

    accuracy: str
    """Percent."""
    accuracy_spread: str
    seconds: str
    """Per problem."""
    seconds_spread: str
    step_seconds: str
    """Per step."""
    step_seconds_spread: str
    share: str
    """Percent of the steps that the large model generated."""
    share_spread: str


def _performance(cells: str) -> Performance:
    return Performance(*cells.split())


TABLE_1: Final[Mapping[tuple[str, str, str, int], Performance]] = {
    ("Qwen2.5", "AMC23", "BS(S)", 4): _performance("38.3 4.7 10.3 0.6 0.80 0.01 0 0"),
    ("Qwen2.5", "AMC23", "BS(B)", 4): _performance("59.2 1.2 18.3 1.5 1.46 0.06 100 0"),
    ("Qwen2.5", "AMC23", "RSD", 4): _performance("31.2 17.8 12.6 3.8 0.82 0.60 60.5 1.4"),
    ("Qwen2.5", "AMC23", "SPECS", 4): _performance("59.2 3.1 14.8 0.5 1.42 0.13 67.9 1.8"),
    ("Qwen2.5", "AMC23", "BS(S)", 8): _performance("46.7 3.1 17.6 2.3 1.14 0.01 0 0"),
    ("Qwen2.5", "AMC23", "BS(B)", 8): _performance("59.2 5.1 21.6 1.1 2.00 0.06 100 0"),
    ("Qwen2.5", "AMC23", "RSD", 8): _performance("49.2 1.2 20.3 1.2 1.99 4.43 61.1 0.3"),
    ("Qwen2.5", "AMC23", "SPECS", 8): _performance("62.5 2.0 20.7 2.0 1.94 0.11 62.8 2.1"),
    ("Qwen2.5", "AMC23", "BS(S)", 16): _performance("50.8 3.1 25.6 3.1 1.81 0.03 0 0"),
    ("Qwen2.5", "AMC23", "BS(B)", 16): _performance("68.3 4.2 35.0 2.6 2.80 0.13 100 0"),
    ("Qwen2.5", "AMC23", "RSD", 16): _performance("50.0 2.0 25.0 0.8 2.56 1.78 55.6 2.2"),
    ("Qwen2.5", "AMC23", "SPECS", 16): _performance("68.3 2.4 28.8 3.5 2.70 0.05 70.3 1.7"),
    ("Qwen2.5", "MATH500", "BS(S)", 4): _performance("64.3 2.9 7.9 1.0 0.65 0.04 0 0"),
    ("Qwen2.5", "MATH500", "BS(B)", 4): _performance("69.3 4.1 11.2 3.7 1.13 0.01 100 0"),
    ("Qwen2.5", "MATH500", "RSD", 4): _performance("77.8 4.2 10.1 0.2 1.14 0.52 32.3 0.6"),
    ("Qwen2.5", "MATH500", "SPECS", 4): _performance("77.0 1 9.83 0.5 1.11 0.14 49.0 0.8"),
    ("Qwen2.5", "MATH500", "BS(S)", 8): _performance("66.7 2.1 10.7 0.6 1.01 0.03 0 0"),
    ("Qwen2.5", "MATH500", "BS(B)", 8): _performance("71.3 0.5 13.6 1.9 1.51 0.00 100 0"),
    ("Qwen2.5", "MATH500", "RSD", 8): _performance("78.3 0.9 11.8 0.3 1.37 0.83 28.4 0.2"),
    ("Qwen2.5", "MATH500", "SPECS", 8): _performance("79.5 0.5 11.3 0.6 1.31 0.56 45.5 0.3"),
    ("Qwen2.5", "MATH500", "BS(S)", 16): _performance("74.5 0.5 16.8 1.9 1.57 0.10 0 0"),
    ("Qwen2.5", "MATH500", "BS(B)", 16): _performance("75.5 0.5 21.3 0.5 2.15 0.02 100 0"),
    ("Qwen2.5", "MATH500", "RSD", 16): _performance("79.0 2.4 16.3 0.4 1.84 0.64 26.8 0.3"),
    ("Qwen2.5", "MATH500", "SPECS", 16): _performance("81.0 1.9 15.8 0.06 1.31 0.04 45.5 0.8"),
    ("Qwen2.5", "OlympiadBench", "BS(S)", 4): _performance("25.0 1.6 7.9 0.2 0.81 0.2 0 0"),
    ("Qwen2.5", "OlympiadBench", "BS(B)", 4): _performance("39.3 2.1 13.1 0.3 1.32 0.3 100 0"),
    ("Qwen2.5", "OlympiadBench", "RSD", 4): _performance("33.0 2.9 17.3 0.4 1.60 0.70 66.3 0.8"),
    ("Qwen2.5", "OlympiadBench", "SPECS", 4): _performance("41.3 0.9 13.1 0.3 1.30 3.4 83.1 0.4"),
    ("Qwen2.5", "OlympiadBench", "BS(S)", 8): _performance("31.0 0.8 13.4 0.3 1.22 0.3 0 0"),
    ("Qwen2.5", "OlympiadBench", "BS(B)", 8): _performance("41.3 2.1 17.9 0.5 1.81 0.5 100 0"),
    ("Qwen2.5", "OlympiadBench", "RSD", 8): _performance("33.3 1.7 21.7 1.3 1.96 1.78 65.3 1.2"),
    ("Qwen2.5", "OlympiadBench", "SPECS", 8): _performance("41.7 1.2 16.9 0.5 1.80 1.5 80.3 0.4"),
    ("Qwen2.5", "OlympiadBench", "BS(S)", 16): _performance("31.3 3.3 21.1 1.1 2.02 1.1 0 0"),
    ("Qwen2.5", "OlympiadBench", "BS(B)", 16): _performance("43.7 0.5 25.4 0.9 2.57 0.9 100 0"),
    ("Qwen2.5", "OlympiadBench", "RSD", 16): _performance("33.5 0.5 28.7 1.3 2.58 13.29 61.2 1.3"),
    ("Qwen2.5", "OlympiadBench", "SPECS", 16): _performance("44.0 2.9 24.6 1.0 2.56 6.2 61.5 0.3"),
    ("Llama3", "AMC23", "BS(S)", 4): _performance("11.7 5.1 5.94 0.24 0.38 0.15 0 0"),
    ("Llama3", "AMC23", "BS(B)", 4): _performance("26.3 1.3 12.7 1.3 0.59 0.17 100 0"),
    ("Llama3", "AMC23", "RSD", 4): _performance("15.0 7.4 8.9 1.1 0.66 0.79 91.8 0.6"),
    ("Llama3", "AMC23", "SPECS", 4): _performance("26.3 5.3 15.4 1.8 0.65 0.03 96.4 1.2"),
    ("Llama3", "AMC23", "BS(S)", 8): _performance("14.2 4.2 11.85 0.22 0.61 0.46 0 0"),
    ("Llama3", "AMC23", "BS(B)", 8): _performance("27.5 2.0 19.1 0.96 0.84 1.39 100 0"),
    ("Llama3", "AMC23", "RSD", 8): _performance("18.3 5.9 10.8 1.9 0.91 0.8 90.0 1.1"),
    ("Llama3", "AMC23", "SPECS", 8): _performance("30.0 2.5 28.0 1.2 1.04 0.05 93.6 1.0"),
    ("Llama3", "AMC23", "BS(S)", 16): _performance("24.2 4.7 24.47 1.21 1.13 0.95 0 0"),
    ("Llama3", "AMC23", "BS(B)", 16): _performance("32.5 4.7 32.1 2.4 1.24 1.94 100 0"),
    ("Llama3", "AMC23", "RSD", 16): _performance("20.0 4.1 16.3 0.4 1.18 1.09 90.0 2.0"),
    ("Llama3", "AMC23", "SPECS", 16): _performance("36.3 3.8 44.2 2.9 1.56 0.10 98.1 1.1"),
    ("Llama3", "MATH500", "BS(S)", 4): _performance("23.1 1.5 4.82 0.40 0.27 3.95 0 0"),
    ("Llama3", "MATH500", "BS(B)", 4): _performance("32.0 3.3 8.4 0.1 0.39 0.29 100 0"),
    ("Llama3", "MATH500", "RSD", 4): _performance("35.7 4.1 11.2 0.6 0.55 2.15 72.7 1.1"),
    ("Llama3", "MATH500", "SPECS", 4): _performance("35.3 3.9 10.8 0.8 0.40 1.17 91.1 0.9"),
    ("Llama3", "MATH500", "BS(S)", 8): _performance("28.3 1.7 9.55 0.40 0.45 0.68 0 0"),
    ("Llama3", "MATH500", "BS(B)", 8): _performance("33.0 2.2 12.1 0.1 0.52 0.3 100 0"),
    ("Llama3", "MATH500", "RSD", 8): _performance("39.3 2.1 15.2 0.5 0.71 2.02 73.9 1.2"),
    ("Llama3", "MATH500", "SPECS", 8): _performance("40.7 2.6 15.2 0.74 0.57 0.09 85.2 1.6"),
    ("Llama3", "MATH500", "BS(S)", 16): _performance("34.3 0.6 17.42 0.69 0.78 2.42 0 0"),
    ("Llama3", "MATH500", "BS(B)", 16): _performance("39.0 2.2 18.9 0.46 0.79 0.21 100 0"),
    ("Llama3", "MATH500", "RSD", 16): _performance("40.0 2.2 23.0 1.1 1.02 1.98 70.3 1.3"),
    ("Llama3", "MATH500", "SPECS", 16): _performance("44.0 0.8 22.9 6.3 0.86 0.19 78.1 1.1"),
    ("Llama3", "OlympiadBench", "BS(S)", 4): _performance("8.0 1.4 5.58 0.12 0.35 0.26 0 0"),
    ("Llama3", "OlympiadBench", "BS(B)", 4): _performance("17.0 1.2 13.0 0.05 0.59 0.18 100 0"),
    ("Llama3", "OlympiadBench", "RSD", 4): _performance("7.3 1.7 13.1 0.4 0.61 0.69 95.2 0.9"),
    ("Llama3", "OlympiadBench", "SPECS", 4): _performance("18.0 2.8 14.9 2.8 0.62 0.03 98.1 0.2"),
    ("Llama3", "OlympiadBench", "BS(S)", 8): _performance("8.0 3.3 11.09 0.49 0.59 0.44 0 0"),
    ("Llama3", "OlympiadBench", "BS(B)", 8): _performance("18.3 0.48 18.9 0.1 0.83 0.14 100 0"),
    ("Llama3", "OlympiadBench", "RSD", 8): _performance("8.0 1.4 18.9 0.7 0.83 0.56 92.9 1.1"),
    ("Llama3", "OlympiadBench", "SPECS", 8): _performance("18.5 0.5 19.7 0.14 0.78 0.66 94.6 0.1"),
    ("Llama3", "OlympiadBench", "BS(S)", 16): _performance("11.3 1.2 23.17 0.73 1.06 1.23 0 0"),
    ("Llama3", "OlympiadBench", "BS(B)", 16): _performance("22.0 1.2 30.1 0.8 1.20 5.3 100 0"),
    ("Llama3", "OlympiadBench", "RSD", 16): _performance("9.5 0.5 25.8 0.5 1.18 2.71 93.2 0.8"),
    ("Llama3", "OlympiadBench", "SPECS", 16): _performance("20.0 5.7 31.7 2.4 1.21 0.01 91.1 1.3"),
}
"""(family, benchmark, method, width) -> the cell. BS(S), BS(B): beam search with the small and with the large model."""

TABLE_2: Final[Mapping[tuple[str, int], _Row]] = {
    ("SPECS", 4): ("59.2", "14.80", "77.0", "9.83", "41.3", "13.10"),
    ("No Target", 4): ("51.2", "13.68", "65.0", "7.45", "41.1", "13.00"),
    ("Random Switch", 4): ("42.2", "10.86", "70.0", "8.59", "30.1", "9.43"),
    ("SPECS", 8): ("62.5", "20.70", "79.5", "11.3", "41.7", "16.90"),
    ("No Target", 8): ("56.2", "19.69", "66.0", "8.15", "39.0", "16.24"),
    ("Random Switch", 8): ("50.6", "15.45", "70.0", "12.13", "33.5", "13.86"),
    ("SPECS", 16): ("68.3", "28.80", "81.0", "11.748", "44.0", "24.60"),
    ("No Target", 16): ("63.8", "26.72", "73.0", "11.6", "39.5", "23.84"),
    ("Random Switch", 16): ("54.7", "23.60", "74.0", "11.3", "38.4", "21.83"),
}
"""Ablations: (method, width) -> accuracy in percent and seconds for each of `BENCHMARKS` in turn."""

TABLE_3: Final[Mapping[tuple[str, str, int], tuple[int, str]]] = {
    ("Qwen2.5", "AMC23", 4): (20, "0.8"),
    ("Qwen2.5", "AMC23", 8): (16, "0.8"),
    ("Qwen2.5", "AMC23", 16): (12, "0.9"),
    ("Qwen2.5", "MATH500", 4): (1000, "0.8"),
    ("Qwen2.5", "MATH500", 8): (10000, "0.75"),
    ("Qwen2.5", "MATH500", 16): (1000, "0.8"),
    ("Qwen2.5", "OlympiadBench", 4): (12, "0.9"),
    ("Qwen2.5", "OlympiadBench", 8): (8, "0.9"),
    ("Qwen2.5", "OlympiadBench", 16): (12, "0.7"),
    ("Llama3", "AMC23", 4): (1000, "0.9"),
    ("Llama3", "AMC23", 8): (1000, "0.8"),
    ("Llama3", "AMC23", 16): (1000, "0.85"),
    ("Llama3", "MATH500", 4): (100, "0.8"),
    ("Llama3", "MATH500", 8): (1000, "0.8"),
    ("Llama3", "MATH500", 16): (100, "0.7"),
    ("Llama3", "OlympiadBench", 4): (10000, "0.8"),
    ("Llama3", "OlympiadBench", 8): (100, "0.6"),
    ("Llama3", "OlympiadBench", 16): (1000, "0.7"),
}
"""Chosen hyperparameters: (family, benchmark, width) -> beta, tau."""

TABLE_4: Final[Mapping[tuple[str, int], _Row]] = {
    ("BS(S)", 4): ("36.25", "9.55", "53.33", "7.07", "26.00", "11.38"),
    ("BS(B)", 4): ("43.33", "14.44", "76.67", "11.18", "30.67", "14.38"),
    ("SPECS", 4): ("46.67", "16.50", "78.00", "11.07", "30.67", "14.10"),
    ("BS(S)", 8): ("34.38", "12.07", "62.00", "9.77", "25.00", "15.83"),
    ("BS(B)", 8): ("50.83", "20.59", "78.67", "14.21", "34.00", "20.29"),
    ("SPECS", 8): ("50.83", "19.64", "71.33", "12.49", "35.33", "19.99"),
    ("BS(S)", 16): ("43.13", "19.73", "59.33", "15.32", "29.33", "25.38"),
    ("BS(B)", 16): ("46.67", "26.62", "73.33", "18.57", "32.67", "25.49"),
    ("SPECS", 16): ("49.17", "27.57", "72.67", "18.76", "37.00", "27.99"),
}
"""Rewards with noise: (method, width) -> accuracy in percent and seconds for each of `BENCHMARKS` in turn."""

TABLE_5: Final[Mapping[int, _Row]] = {
    4: ("53.1", "13.3", "77.0", "9.80", "38.5", "12.5"),
    8: ("58.4", "20.2", "75.3", "11.0", "41.0", "18.1"),
    16: ("64.8", "26.4", "81.0", "15.8", "42.6", "23.8"),
}
"""Constrained beta and tau: width -> accuracy in percent and seconds for each of `BENCHMARKS` in turn."""

TABLE_6: Final[Mapping[tuple[str, int], _Row]] = {
    ("SPECS", 4): ("59.2", "14.8", "77.0", "9.83", "41.3", "13.1"),
    ("RSD", 4): ("31.2", "12.6", "77.8", "10.1", "33.0", "17.3"),
    ("SPECS (start with small model)", 4): ("58.9", "18.5", "77.5", "13.0", "41.0", "15.3"),
    ("RSD (start with large model)", 4): ("43.3", "16.8", "70.0", "13.8", "28.0", "23.3"),
    ("SPECS (with no log-likelihood term in score)", 4): ("43.2", "12.5", "71.5", "8.73", "32.5", "16.6"),
    ("SPECS", 8): ("62.5", "20.7", "79.5", "11.3", "41.7", "16.9"),
    ("RSD", 8): ("49.2", "20.3", "78.3", "11.8", "33.3", "21.7"),
    ("SPECS (start with small model)", 8): ("61.4", "21.9", "78.9", "12.7", "41.3", "18.1"),
    ("RSD (start with large model)", 8): ("39.2", "21.2", "66.7", "17.8", "32.7", "26.0"),
    ("SPECS (with no log-likelihood term in score)", 8): ("47.5", "17.9", "73.3", "10.6", "32.8", "23.8"),
    ("SPECS", 16): ("68.3", "28.8", "81.0", "15.8", "44.0", "24.6"),
    ("RSD", 16): ("50.0", "25.0", "79.0", "16.3", "33.5", "28.7"),
    ("SPECS (start with small model)", 16): ("67.9", "29.2", "81.0", "17.2", "44.2", "27.8"),
    ("RSD (start with large model)", 16): ("48.3", "26.2", "71.3", "22.1", "30.7", "35.4"),
    ("SPECS (with no log-likelihood term in score)", 16): ("48.6", "28.1", "74.5", "14.5", "33.1", "27.1"),
}
"""Variants: (method, width) -> accuracy in percent and seconds for each of `BENCHMARKS` in turn."""

TABLE_7: Final[Mapping[int, _Row]] = {
    4: ("30.8", "9.00", "34.2", "18.6", "17.8", "7.77"),
    8: ("32.2", "21.83", "32.5", "23.1", "22.6", "10.31"),
    16: ("34.5", "22.42", "33.3", "28.3", "24.2", "15.08"),
}
"""GPQA: width -> accuracy and seconds of SPECS, of beam search with the large model, with the small one."""
