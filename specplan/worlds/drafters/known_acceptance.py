"""Token acceptance that the user knows, each for one method: a rate, tokens per round, or a measured curve.

Two conventions of one number: a *rate* is the share of drafted tokens that are accepted given that those before them in
the round were; *tokens per round* are those accepted plus the target's own one (acceptance length of vLLM and SGLang).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from calibrate.engines.token_vocabulary import engines_name
from calibrate.record.files import STDIN
from calibrate.token_acceptance.curves import AcceptanceCurve
from specplan.readers.acceptance import ReadAcceptance, is_address, read_acceptance
from specplan.worlds.model_files import exists
from theory.block_drafting import LAWS, BlockLaw, at_length
from theory.errors import ParameterError, shown

__all__ = ["KnownAcceptance", "known_acceptances"]

_VALUE: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+|nan|inf)(?:e[+-]?\d+)?)(?P<round>/round)?(?:@(?P<k>\d+))?"
)
_FILES: Final = re.compile(r"(?P<files>.+?)(?:#(?P<row>[^#@]+))?(?:@(?P<k>\d{1,3}))?")
_USUAL_K: Final = 3
"""Tokens drafted per round where tokens per round come without them: what engines' documents show."""
_MOST_K: Final = 64
_FORMS: Final = "METHOD=0.85 (rate per token), METHOD=2.6/round@3 (tokens per round with k = 3), METHOD=FILE or =URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAcceptance:
    """Acceptance of one method."""

    per_position: tuple[float, ...]
    """Probability that the i-th drafted token is accepted given that those before it were, per round, in [0, 1]."""
    source: str
    drafted: int | None = None
    """Tokens that were drafted per round where it was measured; None: not said."""
    drafting: float | None = None
    """Share of the rounds that drafted, [-]: those of prompt lookup that found something; None: not counted."""

    def first(self, k: int) -> tuple[float, ...]:
        """Return the rates of the first ``k`` positions; those beyond the last known one are as it is."""
        known = self.per_position[:k]
        return known + known[-1:] * (k - len(known))

    def of_block(self, k: int, law: BlockLaw) -> tuple[float, ...]:
        """Return the rates of the positions of a block of ``k`` tokens; as known where the measured block is not."""
        rates = self.first(k)
        return rates if self.drafted is None else tuple(at_length(rates, self.drafted, k, law.slope).tolist())


def known_acceptances(texts: Sequence[str]) -> dict[str, KnownAcceptance]:
    """Return acceptance by method, as engines call it.

    Parameters
    ----------
    texts : each ``METHOD=VALUE``, or a file of ``specplan acceptance`` that names its method; VALUE is a number, or a
        source of `specplan.readers.acceptance`, with ``#MODE`` or ``@K`` behind it.

    Raises
    ------
    ParameterError : an unknown method, one that comes twice, a value outside its convention's range.
    SchemaError : a file that cannot be read.

    >>> known_acceptances(["mtp=0.5", "eagle3=1.75/round@2"])["eagle3"].first(2)
    (0.5, 0.5)
    """
    found: dict[str, KnownAcceptance] = {}
    for text in texts:
        method, known = _one(text)
        if method in found:
            raise ParameterError("acceptance", text, f"must give {method} once")
        found[method] = known
    return found


def _one(text: str) -> tuple[str, KnownAcceptance]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if equals and not exists(Path(text)):
        if not name or not value:
            raise ParameterError("acceptance", text, f"must be {_FORMS}")
        method = _method(name, text)
        match = _VALUE.fullmatch(value.lower())
        return method, _number(text, match) if match else _file(text, value, method)[1]
    if _VALUE.fullmatch(text.strip().lower()):
        raise ParameterError("acceptance", text, f"must say of which method it is: {_FORMS}")
    return _file(text, text.strip(), "")


def _method(name: str, text: str) -> str:
    try:
        return engines_name(name)
    except ParameterError as error:
        raise ParameterError("acceptance", text, error.rule) from None


def _number(text: str, match: re.Match[str]) -> KnownAcceptance:
    value, k = float(match["number"]), _k(text, match["k"])
    if match["round"]:
        depth = k or _USUAL_K
        if not 1.0 <= value <= depth + 1.0:
            said = "" if k else "; another k is said after @, such as 4.2/round@5"
            rule = f"must be in [1, {depth + 1}] tokens per round with k = {depth}: those accepted, and one more{said}"
            raise ParameterError("acceptance", text, rule)
        curve = AcceptanceCurve.from_length(value, depth)
        rate = curve.unconditional[0]
        source = f"given as {value:g} tokens per round at k = {depth}, so {rate:.3g} per token"
        return KnownAcceptance(per_position=(rate,), source=source, drafted=depth)
    if k is not None:
        raise ParameterError("acceptance", text, "must have @k with tokens per round or metrics only, not with a rate")
    if not 0.0 <= value <= 1.0:
        rule = "must be a rate per token in [0, 1]; tokens per round are written eagle3=2.6/round"
        raise ParameterError("acceptance", text, rule)
    return KnownAcceptance(per_position=(value,), source=f"given as {value:g} per token")


def _file(text: str, value: str, method: str) -> tuple[str, KnownAcceptance]:
    whole = exists(Path(value))
    match = None if whole else _FILES.fullmatch(value)
    files, row, k = (match["files"], match["row"] or "", _k(text, match["k"])) if match else (value, "", None)
    sources = [files] if whole or exists(Path(files)) else [part.strip() for part in files.split(",")]
    for source in sources:
        if not (source == STDIN or is_address(source) or exists(Path(source))):
            raise ParameterError("acceptance", text, f"must be {_FORMS}, and there is no file {shown(source)!r}")
    model, _, mode = row.rpartition("/")
    try:
        found = read_acceptance(sources, k, model=model or None, mode=mode or None)
    except ParameterError as error:
        how = ", said as FILE#MODE or FILE#MODEL/MODE" if error.name == "model and mode" else ""
        raise ParameterError("acceptance", text, f"cannot be read: {error}{how}") from None
    of = method or found.method
    if not of:
        rule = "does not tell of which method it is: say mtp=FILE, eagle3=FILE, ngram=FILE or draft_model=FILE"
        raise ParameterError("acceptance", text, rule)
    if found.method and of != found.method:
        raise ParameterError("acceptance", text, f"holds the acceptance of {found.method}, and is used for no other")
    return of, _measured(found, of, sources)


def _measured(found: ReadAcceptance, method: str, sources: Sequence[str]) -> KnownAcceptance:
    rates = [rate if rate is not None else 0.0 for rate in found.curve.conditional()]
    drafting = found.curve.hit_rate if method == "ngram" else None
    if drafting is not None:
        rates[0] *= drafting  # passes in which the lookup found nothing are rounds too
    names = ", ".join(one if is_address(one) else Path(one).name for one in sources)
    source = f"measured, {len(rates)} positions of {names}: {found.convention}"
    if method in LAWS and found.counted:
        source += " (too low if the server ran with enable_adaptive_verification, which leaves drafted tokens out)"
    return KnownAcceptance(per_position=tuple(rates), source=source, drafted=len(rates), drafting=drafting)


def _k(text: str, typed: str | None) -> int | None:
    if typed is None:
        return None
    if not 1 <= int(typed) <= _MOST_K:
        raise ParameterError("acceptance", text, f"must have k in [1, {_MOST_K}] after @")
    return int(typed)
