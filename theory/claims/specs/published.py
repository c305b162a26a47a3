"""The published numbers of SPECS that its claims are compared with, as printed (strings keep the rounding)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
]

BENCHMARKS: Final = ("AMC23", "MATH500", "OlympiadBench")
WIDTHS: Final = (4, 8, 16)
FAMILIES: Final = ("Qwen2.5", "Llama3")

_Row = tuple[str, ...]

TABLE_1: Final[Mapping[tuple[str, str, str, int], tuple[str, str, str]]] = {
    ("Qwen2.5", "AMC23", "BS(S)", 4): ("38.3", "10.3", "0"),
    ("Qwen2.5", "AMC23", "BS(B)", 4): ("59.2", "18.3", "100"),
    ("Qwen2.5", "AMC23", "RSD", 4): ("31.2", "12.6", "60.5"),
    ("Qwen2.5", "AMC23", "SPECS", 4): ("59.2", "14.8", "67.9"),
    ("Qwen2.5", "AMC23", "BS(S)", 8): ("46.7", "17.6", "0"),
    ("Qwen2.5", "AMC23", "BS(B)", 8): ("59.2", "21.6", "100"),
    ("Qwen2.5", "AMC23", "RSD", 8): ("49.2", "20.3", "61.1"),
    ("Qwen2.5", "AMC23", "SPECS", 8): ("62.5", "20.7", "62.8"),
    ("Qwen2.5", "AMC23", "BS(S)", 16): ("50.8", "25.6", "0"),
    ("Qwen2.5", "AMC23", "BS(B)", 16): ("68.3", "35.0", "100"),
    ("Qwen2.5", "AMC23", "RSD", 16): ("50.0", "25.0", "55.6"),
    ("Qwen2.5", "AMC23", "SPECS", 16): ("68.3", "28.8", "70.3"),
    ("Qwen2.5", "MATH500", "BS(S)", 4): ("64.3", "7.9", "0"),
    ("Qwen2.5", "MATH500", "BS(B)", 4): ("69.3", "11.2", "100"),
    ("Qwen2.5", "MATH500", "RSD", 4): ("77.8", "10.1", "32.3"),
    ("Qwen2.5", "MATH500", "SPECS", 4): ("77.0", "9.83", "49.0"),
    ("Qwen2.5", "MATH500", "BS(S)", 8): ("66.7", "10.7", "0"),
    ("Qwen2.5", "MATH500", "BS(B)", 8): ("71.3", "13.6", "100"),
    ("Qwen2.5", "MATH500", "RSD", 8): ("78.3", "11.8", "28.4"),
    ("Qwen2.5", "MATH500", "SPECS", 8): ("79.5", "11.3", "45.5"),
    ("Qwen2.5", "MATH500", "BS(S)", 16): ("74.5", "16.8", "0"),
    ("Qwen2.5", "MATH500", "BS(B)", 16): ("75.5", "21.3", "100"),
    ("Qwen2.5", "MATH500", "RSD", 16): ("79.0", "16.3", "26.8"),
    ("Qwen2.5", "MATH500", "SPECS", 16): ("81.0", "15.8", "45.5"),
    ("Qwen2.5", "OlympiadBench", "BS(S)", 4): ("25.0", "7.9", "0"),
    ("Qwen2.5", "OlympiadBench", "BS(B)", 4): ("39.3", "13.1", "100"),
    ("Qwen2.5", "OlympiadBench", "RSD", 4): ("33.0", "17.3", "66.3"),
    ("Qwen2.5", "OlympiadBench", "SPECS", 4): ("41.3", "13.1", "83.1"),
    ("Qwen2.5", "OlympiadBench", "BS(S)", 8): ("31.0", "13.4", "0"),
    ("Qwen2.5", "OlympiadBench", "BS(B)", 8): ("41.3", "17.9", "100"),
    ("Qwen2.5", "OlympiadBench", "RSD", 8): ("33.3", "21.7", "65.3"),
    ("Qwen2.5", "OlympiadBench", "SPECS", 8): ("41.7", "16.9", "80.3"),
    ("Qwen2.5", "OlympiadBench", "BS(S)", 16): ("31.3", "21.1", "0"),
    ("Qwen2.5", "OlympiadBench", "BS(B)", 16): ("43.7", "25.4", "100"),
    ("Qwen2.5", "OlympiadBench", "RSD", 16): ("33.5", "28.7", "61.2"),
    ("Qwen2.5", "OlympiadBench", "SPECS", 16): ("44.0", "24.6", "61.5"),
    ("Llama3", "AMC23", "BS(S)", 4): ("11.7", "5.94", "0"),
    ("Llama3", "AMC23", "BS(B)", 4): ("26.3", "12.7", "100"),
    ("Llama3", "AMC23", "RSD", 4): ("15.0", "8.9", "91.8"),
    ("Llama3", "AMC23", "SPECS", 4): ("26.3", "15.4", "96.4"),
    ("Llama3", "AMC23", "BS(S)", 8): ("14.2", "11.85", "0"),
    ("Llama3", "AMC23", "BS(B)", 8): ("27.5", "19.1", "100"),
    ("Llama3", "AMC23", "RSD", 8): ("18.3", "10.8", "90.0"),
    ("Llama3", "AMC23", "SPECS", 8): ("30.0", "28.0", "93.6"),
    ("Llama3", "AMC23", "BS(S)", 16): ("24.2", "24.47", "0"),
    ("Llama3", "AMC23", "BS(B)", 16): ("32.5", "32.1", "100"),
    ("Llama3", "AMC23", "RSD", 16): ("20.0", "16.3", "90.0"),
    ("Llama3", "AMC23", "SPECS", 16): ("36.3", "44.2", "98.1"),
    ("Llama3", "MATH500", "BS(S)", 4): ("23.1", "4.82", "0"),
    ("Llama3", "MATH500", "BS(B)", 4): ("32.0", "8.4", "100"),
    ("Llama3", "MATH500", "RSD", 4): ("35.7", "11.2", "72.7"),
    ("Llama3", "MATH500", "SPECS", 4): ("35.3", "10.8", "91.1"),
    ("Llama3", "MATH500", "BS(S)", 8): ("28.3", "9.55", "0"),
    ("Llama3", "MATH500", "BS(B)", 8): ("33.0", "12.1", "100"),
    ("Llama3", "MATH500", "RSD", 8): ("39.3", "15.2", "73.9"),
    ("Llama3", "MATH500", "SPECS", 8): ("40.7", "15.2", "85.2"),
    ("Llama3", "MATH500", "BS(S)", 16): ("34.3", "17.42", "0"),
    ("Llama3", "MATH500", "BS(B)", 16): ("39.0", "18.9", "100"),
    ("Llama3", "MATH500", "RSD", 16): ("40.0", "23.0", "70.3"),
    ("Llama3", "MATH500", "SPECS", 16): ("44.0", "22.9", "78.1"),
    ("Llama3", "OlympiadBench", "BS(S)", 4): ("8.0", "5.58", "0"),
    ("Llama3", "OlympiadBench", "BS(B)", 4): ("17.0", "13.0", "100"),
    ("Llama3", "OlympiadBench", "RSD", 4): ("7.3", "13.1", "95.2"),
    ("Llama3", "OlympiadBench", "SPECS", 4): ("18.0", "14.9", "98.1"),
    ("Llama3", "OlympiadBench", "BS(S)", 8): ("8.0", "11.09", "0"),
    ("Llama3", "OlympiadBench", "BS(B)", 8): ("18.3", "18.9", "100"),
    ("Llama3", "OlympiadBench", "RSD", 8): ("8.0", "18.9", "92.9"),
    ("Llama3", "OlympiadBench", "SPECS", 8): ("18.5", "19.7", "94.6"),
    ("Llama3", "OlympiadBench", "BS(S)", 16): ("11.3", "23.17", "0"),
    ("Llama3", "OlympiadBench", "BS(B)", 16): ("22.0", "30.1", "100"),
    ("Llama3", "OlympiadBench", "RSD", 16): ("9.5", "25.8", "93.2"),
    ("Llama3", "OlympiadBench", "SPECS", 16): ("20.0", "31.7", "91.1"),
}
"""(family, benchmark, method, width) -> accuracy in percent, seconds per problem, percent of steps by the large model.

BS(S), BS(B): beam search with the small and with the large model.
"""

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
