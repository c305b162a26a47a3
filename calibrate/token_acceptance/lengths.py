"""Published acceptance lengths in YAML: ``{model: {mode: {K: mean acceptance length}}}``, the bonus token included.

The form of the reference curves that benchmarks of speculative decoding replay (vLLM's ``synthetic_acceptance_length``,
SGLang's ``SGLANG_SIMULATE_ACC_LEN``; TensorRT-LLM's ``TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS`` leaves the bonus
token out and takes one less). Each K is measured by a run of its own, so that a length may fall from one K to the next
by noise: rates per position are then those nearest to the lengths.

Needs PyYAML, which comes with the extra ``torch`` and with the extra ``yaml``.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from calibrate.record.json_text import check_depth, number
from calibrate.token_acceptance.curves import AcceptanceCurve
from theory.errors import CalibrationError, ParameterError, SchemaError, shown

__all__ = ["LengthTable"]

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_WORDS: Final = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""What YAML 1.1 takes for truth values and null."""
_MOST_CHARACTERS: Final = 200_000  # PyYAML reads some tens of thousands a second


@dataclass(frozen=True, slots=True)
class LengthTable:
    """Mean acceptance lengths with the bonus token, by model, mode and K."""

    rows: Mapping[tuple[str, str], Mapping[int, float]]
    """(model, mode) -> K -> length, in [1, K + 1]."""

    def __post_init__(self) -> None:
        if not self.rows or not all(self.rows.values()):
            raise ParameterError("rows", len(self.rows), "must hold at least one length")
        for (model, mode), row in self.rows.items():
            if model.startswith("_") or not (model.isprintable() and mode.isprintable()):
                raise ParameterError(
                    "model and mode", (model, mode), "must be printable, the model without a leading _"
                )
            for k, length in row.items():
                if k < 1 or not (math.isfinite(length) and 1.0 <= length <= k + 1.0):
                    rule = f"must be in [1, {k + 1}]: tokens per pass with the bonus token, K >= 1"
                    raise ParameterError(f"{model}.{mode}.{k}", length, rule)

    @classmethod
    def parse(cls, text: str, where: str = "acceptance lengths") -> Self:
        """Read a YAML file; top-level keys that start with an underscore are remarks.

        Raises
        ------
        SchemaError : not YAML, a key that comes twice, or another form.
        ParameterError : an impossible length.
        CalibrationError : PyYAML is not installed.
        """
        data = _load(text, where)
        if not isinstance(data, dict):
            raise SchemaError(f"{where}: must map models to modes to lengths")
        rows: dict[tuple[str, str], dict[int, float]] = {}
        for name, modes in data.items():
            model = _text(name, where)
            if model.startswith("_"):
                continue
            if not isinstance(modes, dict):
                raise SchemaError(f"{where}: {model}: must map modes to lengths")
            for mode, row in modes.items():
                place = f"{where}: {model}.{mode}"
                if not isinstance(row, dict) or not row:
                    raise SchemaError(f"{place}: must map K to lengths")
                for k in row:
                    if type(k) is not int:
                        raise SchemaError(f"{place}: the key {k!r} must be an integer, the number of drafted tokens")
                lengths = {k: number(value, f"{place}.{k}") for k, value in row.items()}
                rows[model, _text(mode, f"{where}: {model}")] = lengths
        if not rows:
            raise SchemaError(f"{where}: holds no model")
        return cls(rows)

    def fit(self, model: str | None = None, mode: str | None = None) -> tuple[AcceptanceCurve, float]:
        """Acceptance per position from the lengths for K = 1, 2, ..., and by how many tokens the farthest is off.

        A single length gives one rate for all positions. Model and mode may be left out if there is only one.

        Raises
        ------
        ParameterError : none or several models and modes fit, or there are several lengths of which one is missing.
        """
        fits = [key for key in self.rows if model in (None, key[0]) and mode in (None, key[1])]
        if len(fits) != 1:
            known = ", ".join(" ".join(key) for key in self.rows)
            raise ParameterError("model and mode", (model, mode), f"must name one of: {known}")
        row = self.rows[fits[0]]
        if len(row) == 1:
            ((k, length),) = row.items()
            return AcceptanceCurve.from_length(length, k), 0.0
        if sorted(row) != list(range(1, len(row) + 1)):
            raise ParameterError("K", sorted(row), "must be 1, 2, ... without a gap for rates per position")
        return AcceptanceCurve.fitted([row[k] for k in sorted(row)])

    def to_yaml(self) -> str:
        """The table as YAML, its convention in the first line."""
        lines = ["# key = num_speculative_tokens (K); value = mean acceptance length with the bonus token, per draft"]
        for model in dict.fromkeys(model for model, _ in self.rows):
            lines.append(f"{_quoted(model)}:")
            for (owner, mode), row in self.rows.items():
                if owner == model:
                    lines += [f"  {_quoted(mode)}:", *(f"    {k}: {row[k]!r}" for k in sorted(row))]
        return "\n".join(lines)


def _quoted(key: str) -> str:
    """A YAML key: in double quotes, as in JSON, unless it is a plain word that YAML takes for text."""
    plain = _PLAIN.fullmatch(key) and key.lower() not in _WORDS
    return key if plain else json.dumps(key, ensure_ascii=False)


def _text(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise SchemaError(f"{where}: the key {key!r} must be text: YAML took it for something else, put it in quotes")
    return key


def _load(text: str, where: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise CalibrationError("YAML files need PyYAML: install specplan[yaml]") from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
        """Plain data only, and no key twice: YAML would keep the last one without a word."""

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
        counts = Counter(map(repr, keys))
        twice = [shown(key) for key, n in counts.items() if n > 1]
        if twice:
            raise SchemaError(f"{where}: line {node.start_mark.line + 1}: the key {min(twice)} comes twice")
        return dict(zip(keys, (loader.construct_object(value, deep=True) for _, value in node.value), strict=True))

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    if len(text) > _MOST_CHARACTERS:
        raise SchemaError(f"{where}: longer than {_MOST_CHARACTERS} characters, the most that is read of YAML")
    check_depth(text, where)
    try:
        return yaml.load(text, Loader=Loader)
    except (RecursionError, TypeError, ValueError):  # ValueError: a date that is none
        raise SchemaError(f"{where}: not a table of lengths: nested too deep, or a key or date that is none") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "cannot be parsed"
        raise SchemaError(f"{where}: not YAML: {problem}{place}") from None
