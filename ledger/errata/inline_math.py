"""Plain text with formulas such as ``alpha1^(k1+1) <= f_sync(k)`` as LaTeX text with its symbols in math."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["typeset"]

_SPECIAL: Final = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "|": r"\textbar{}",
    '"': "''",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_RELATIONS: Final = {
    "<=": r"\le",
    ">=": r"\ge",
    "!=": r"\ne",
    "->": r"\to",
    "<": "<",
    ">": ">",
    " - ": "-",
    " x ": r"\times",
    " * ": r"\cdot",
}
_GREEK: Final = "alpha|beta|gamma|delta|epsilon|theta|kappa|lambda|pi|sigma|tau|phi|Phi|Omega|Theta"
_GROUP: Final = r"\((?:[^()]|\([^()]*\))*\)"
_INDEX: Final = r"_(?:(?:<=?)?[A-Za-z0-9]+|\([^()]*\)|\{[^{}]*\})"
_ALONE: Final = r"(?<![\w'\\])(?<![A-Za-z][-.])(?<!Appendix )"
"""Before a symbol: no word, no id such as LR-T1, no abbreviation, no appendix."""
_NAME: Final = (
    rf"{_ALONE}(?:(?:{_GREEK})(?:\d\b|{_INDEX}|\b)|(?![aAI]\b(?![_^(]))[A-Za-z](?:{_INDEX}|\d\b|\b))(?!\.\w)"
    r"(?:\*|'{1,2}(?=[ (,.^]))?"
)
_POWER: Final = rf"\^(?:{_GROUP}|\{{[^{{}}]*\}}|-?\w+)"
_TOKENS: Final = re.compile(
    rf"(?P<rounded>\b(?P<how>ceil|floor)(?P<inside>{_GROUP}))"
    r"|(?P<sum>\bsum_\{(?P<low>[^{}]*)\}(?:\^\{(?P<high>[^{}]*)\})?)"
    rf"|(?P<symbol>(?:{_NAME})(?:{_POWER})?|(?<![\w.])\d+(?:\.\d+)?{_POWER})"
    rf"|(?P<power>(?<=\)){_POWER})"
    r"|\b(?P<function>(?:log|ln|exp|min|max)(?=\()|(?:log|ln)(?= (?:[a-z]\b|alpha|gamma)))"
    r"|(?P<relation><=|>=|!=|->|<|>| - |(?<=\d) [x*] (?=\d))"
    r"|(?P<minus>(?<=[(+/ ]1)-(?=[\w(])|(?<![\w)\]}-])-(?=[\d(]|log|ln|alpha|gamma|[a-z]\d?\b))"
    rf"|(?P<special>[{re.escape(''.join(_SPECIAL))}])"
)
_INNER: Final = re.compile(
    rf"\b(?P<greek>{_GREEK})(?![a-z])|(?P<how>ceil|floor)(?P<inside>{_GROUP})|(?P<relation><=|>=)|(?P<function>log|ln)\b"
)


def typeset(text: str) -> str:
    r"""The text with its symbols in math and every other special character as LaTeX prints it.

    >>> print(typeset("A draft's alpha1^(k1+1) is <= 50 % of M"))
    A draft's $\alpha_{1}^{k_{1}+1}$ is $\le$ 50 \% of $M$
    """
    tokens = _TOKENS.sub(_token, text.replace("**", "^"))
    return re.sub(r"(\\[A-Za-z]+)\$\$(?=[A-Za-z])", r"\1 ", tokens).replace("$$", "")


def _token(match: re.Match[str]) -> str:
    if special := match["special"]:
        return _SPECIAL[special]
    relation = match["relation"] or ""
    space = " " if relation.startswith(" ") else ""
    return f"{space}${_RELATIONS[relation] if relation else _formula(match)}${space}"


def _formula(match: re.Match[str]) -> str:
    """A token that is no relation, without its dollars."""
    if match["minus"] or match["function"]:
        return "-" if match["minus"] else f"\\{match['function']}"
    if match["rounded"]:
        return _rounded(match)
    if match["sum"]:
        low, _, high = match["low"].partition("..")
        top = match["high"] or high
        return f"\\sum_{{{_math(low)}}}" + (f"^{{{_math(top)}}}" if top else "")
    name, power, rest = (match["symbol"] or f"{{}}{match['power']}").partition("^")
    return _math(name) + (_power(power + rest) if power else "")


def _rounded(match: re.Match[str]) -> str:
    how = match["how"]
    inside = _math(match["inside"][1:-1])
    return f"\\l{how} {inside} \\r{how}"


def _power(text: str) -> str:
    """``^(k+1)`` as ``^{k+1}``."""
    bare = text[1:]
    return f"^{{{_math(bare[1:-1] if bare[0] in '({' else bare)}}}"


def _math(text: str) -> str:
    """A piece of a formula, in math already."""
    text = re.sub(r"\*", "^*", text)
    text = re.sub(r"(?<=[A-Za-z])(\d)\b", r"_{\1}", text)
    text = re.sub(r"_\(([^()]*)\)", r"_{\1}", text)
    text = re.sub(r"_(<=?[A-Za-z0-9]+)", r"_{\1}", text)
    text = re.sub(r"_([A-Za-z]{2,})", r"_{\\text{\1}}", text)
    return _INNER.sub(_in_math, text)


def _in_math(match: re.Match[str]) -> str:
    if match["how"]:
        return _rounded(match)
    if match["relation"]:
        return f"{_RELATIONS[match['relation']]} "
    return f"\\{match['greek'] or match['function']}" + (" " if match["function"] else "")
