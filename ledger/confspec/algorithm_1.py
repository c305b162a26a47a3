"""Claims of ConfSpec about Algorithm 1: the law of the trace, contexts, and the steps that an iteration commits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, Final

from ledger.confspec.exact import Fallback, distance, iteration, models, trace
from ledger.confspec.forms import committed_as_printed, committed_law, verified_steps
from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Cases, Predicate, grid, rows
from ledger.proving.combine import exact_step
from ledger.proving.deferred import sp
from ledger.proving.domains import between, whole
from ledger.proving.margins import Margin, at_most
from ledger.proving.records import Given, proved, refuted, repaired, restated, verified
from ledger.proving.sequences import Law, Model, target_law
from ledger.proving.tools import all_of, exhaustive, identity, prove_by_induction

__all__ = ["CLAIMS"]

_LARGEST: Final = Fraction(1, 4)
"""Largest distance of the committed law from the target's, of two meanings."""


def _first_step(fallback: Fallback, target: tuple[Fraction, ...], draft: tuple[Fraction, ...]) -> Law:
    """Law of the first committed step for fixed laws of target and draft, one drafted step."""
    return iteration(lambda _s: target, lambda _s: draft, (), 1, fallback)


def _first(fallback: Fallback, p: Fraction, q: Fraction) -> Fraction:
    """Probability that meaning 0 is committed, where target and draft write it with p and q."""
    return _first_step(fallback, (p, 1 - p), (q, 1 - q)).get((0,), Fraction(0))


def _target_law(fallback: Fallback = "printed", draft: str = "1") -> Predicate:
    """Looked at where the target is (1/2, 1/2) and the draft always writes meaning 0."""
    return Predicate(
        text="the committed step has the law of the target when verification makes no error (two meanings; p and q the "
        "target's and the draft's chance of the first)",
        test=lambda p, q: _first(fallback, p, q) == p,
        domain={"p": _CLOSED, "q": _CLOSED},
        at=[{"p": Fraction(1, 2), "q": draft}],
        explain=lambda p, q: f"meaning 0 is committed with probability {_first(fallback, p, q)}",
    )


def _verify_reuse(fallback: Fallback = "reuse") -> Evidence:
    """Two-step traces of every pair of models with 2 and 3 meanings and depths 1 to 3 against plain decoding."""
    pairs: list[tuple[Model, Model]] = []
    for meanings, members in ((2, 8), (3, 5)):
        family = list(models(meanings, members))
        pairs.extend((target, draft) for target in family for draft in family)

    def holds(pair: int, depth: int) -> bool:
        target, draft = pairs[pair]
        return trace(target, draft, depth, 2, fallback) == target_law(target, 2)

    return exhaustive(
        holds,
        {"pair": range(len(pairs)), "depth": (1, 2, 3)},
        what="with the compared target step committed on a rejection, the step committed always has the meaning of the "
        "target's own sample, so the law is the target's",
        reach="two steps of two or three meanings",
    )


def _biased(
    p: Fraction, q: Fraction, stated: Callable[[Any, Any, Any], Any] = committed_law, largest: Fraction = _LARGEST
) -> Margin | bool:
    """The law of the first step is the one stated, and near enough to the target's."""
    target, draft = (p, 1 - p), (q, 1 - q)
    same = sum((x * y for x, y in zip(target, draft, strict=True)), Fraction(0))
    law = _first_step("printed", target, draft)
    exact = all(law.get((i,), 0) == stated(target[i], draft[i], same) for i in (0, 1))
    return exact and at_most(distance(law, {(0,): target[0], (1,): target[1]}), largest)


_CLOSED: Final = between(0, 1, "[]")
_BIAS: Final = Predicate(
    text="meaning 0 is committed with probability p (1 + q - A), at most 1/4 from p (two meanings)",
    test=_biased,
    domain={"p": _CLOSED, "q": _CLOSED},
    numbers={"largest": _LARGEST},
)


def _verify_bias(stated: Callable[[Any, Any, Any], Any] = committed_law, largest: Fraction = _LARGEST) -> Evidence:
    """``p (1 + q - A)`` = p q (accepted) + (1 - A) p (rejected); distance <= 1/4, as q has deviation <= 1/2."""
    p, q, agreement = sp.symbols("p q A", positive=True)
    eighths = [Fraction(i, 8) for i in range(9)]
    return all_of(
        lambda: exhaustive(
            lambda p0, q0: _biased(eighths[p0], eighths[q0], stated, largest),
            {"p0": range(9), "q0": range(9)},
            what="law of the first step, two meanings, in eighths",
        ),
        exact_step((2 * largest) ** 2 >= Fraction(1, 4), "twice the largest distance, squared, is at least 1/4"),
        identity(p * q + (1 - agreement) * p - stated(p, q, agreement), "accept or regenerate"),
        identity(
            "m - m**2 == 1 / 4 - (m - 1 / 2)**2",
            "E (q - m)^2 <= E q - m^2 = 1/4 - (m - 1/2)^2 as q^2 <= q, so the distance E|q - m| / 2 <= 1/4",
        ),
    )


def _accepted_by_perfect_draft(depth: int, cumulative: bool) -> int:
    """A target that counts 1, 2, 3, ... and a draft that does the same: drafts accepted in one iteration."""

    def model(context: tuple[int, ...]) -> int:
        return len(context) + 1

    drafts: tuple[int, ...] = ()
    for _ in range(depth):
        drafts = (*drafts, model(drafts))
    m = 0
    for j in range(depth):
        context = drafts[:j] if cumulative else (drafts[j],)
        if model(context) != drafts[j]:
            break
        m += 1
    return m


def _context(cumulative: bool = False) -> Cases:
    """Line 7 gives the target the context and s_j itself, so it writes the step after the one it is compared with."""
    return Cases(
        text="a draft that writes the same steps as the target is accepted (target and draft count 1, 2, 3, ...)",
        test=lambda k: _accepted_by_perfect_draft(k, cumulative) == k,
        cases=grid(k=range(1, 9)),
        where="k <= 8",
        partial=True,
        explain=lambda k: f"{_accepted_by_perfect_draft(k, cumulative)} of {k} accepted",
    )


def _kept(repeats: int, as_set: bool) -> int:
    steps = ["s"] * repeats
    return len(set(steps)) if as_set else len(steps)


def _trace(as_set: bool = True) -> Cases:
    """S is built by set union; a step that occurs twice is kept once."""
    return Cases(
        text="the trace S holds every committed step",
        test=lambda repeats: _kept(repeats, as_set) == repeats,
        cases=grid(repeats=range(1, 9)),
        where="up to 8 repeats",
        partial=True,
        explain=lambda repeats: f"{_kept(repeats, as_set)} of {repeats} equal steps kept",
    )


def _committed(depth: int, accepted: int, rule: Fallback) -> int:
    """Steps committed after `accepted` of `depth` drafts passed."""
    if accepted == depth:
        return depth
    if rule == "printed":
        return max(accepted, 1)
    return accepted + 1


def _as_the_text(depths: tuple[int, ...] = (1, 2)) -> Predicate:
    """Section 4.2 lets the target write a step after the first rejection; lines 16 to 22 do so only if m = 0."""
    return Predicate(
        text="lines 16 to 22 commit what the text says, where m of k drafts are accepted",
        test=lambda k, m: _committed(int(k), int(m), "printed") == _committed(int(k), int(m), "text"),
        domain={"k": whole(1), "m": whole(0)},
        premise=lambda k, m: m <= k,
        given="m <= k",
        at=[{"k": k, "m": m} for k in depths for m in range(k + 1)],
        explain=lambda k, m: (
            f"{_committed(int(k), int(m), 'printed')} steps from the lines, "
            f"{_committed(int(k), int(m), 'text')} from the text"
        ),
    )


def _verify_commits(extra: int = 0) -> Evidence:
    """Means of committed steps by induction on k, with P(m = j) = a^j (1 - a) for j < k and P(m = k) = a^k."""
    a = sp.Symbol("a", positive=True)

    def mean(rule: Fallback, depth: int) -> Any:
        miss = sum(_committed(depth, j, rule) * a**j * (1 - a) for j in range(depth))
        return miss + _committed(depth, depth, rule) * a**depth

    def agrees(depth: int) -> bool:
        forms: dict[Fallback, Any] = {"printed": committed_as_printed, "reuse": verified_steps}
        whole = sp.Integer(depth)
        return all(sp.expand(mean(rule, depth) - f(a, whole).doit() - extra) == 0 for rule, f in forms.items())

    return all_of(
        lambda: exhaustive(agrees, {"depth": range(1, 7)}, what="closed forms = mean over m, symbolic in a"),
        identity(
            "(k + 1) * a**(k + 1) + k * a**k * (1 - a) - k * a**k == a**(k + 1)",
            "one more drafted step adds a^(k+1) to the mean of m",
        ),
    )


_EVERY_OUTCOME: Final = rows(*[{"k": k, "m": m} for k in range(1, 9) for m in range(k + 1)])


def _dominance(strict: bool = False) -> Cases:
    """Pointwise in m: reuse commits at least as many steps and needs no second target generation."""

    def holds(k: int, m: int) -> bool:
        ours, theirs = (_committed(k, m, rule) for rule in ("reuse", "printed"))
        generations = {"reuse": 1, "printed": 1 + (m == 0)}
        more = ours > theirs if strict else ours >= theirs
        return more and generations["reuse"] <= generations["printed"]

    what = "reuse commits min(m + 1, k) >= max(m, 1) steps with one target generation (m + 1 > m once m >= 1)"
    return Cases(text=what, test=holds, cases=_EVERY_OUTCOME, where="k <= 8", partial=True)


def _progress(fallback_runs: bool = True) -> Cases:
    """Every iteration commits 1 to k steps."""

    def holds(k: int, m: int) -> bool:
        return 1 <= (_committed(k, m, "printed") if fallback_runs else m) <= k

    what = "max(m, 1) lies in 1..k for 0 <= m <= k, since 1 and m do"
    return Cases(text=what, test=holds, cases=_EVERY_OUTCOME, where="k <= 8", partial=True)


CLAIMS: tuple[Claim, ...] = (
    refuted(
        "CS-A1-law",
        _target_law(),
        fix=_verify_reuse,
        mutants={"reuse": partial(_target_law, "reuse"), "uniform draft": partial(_target_law, draft="1/2")},
    ),
    proved(
        "CS-A1-bias",
        _BIAS,
        verify=Given(lambda statement: _verify_bias(largest=statement.numbers["largest"])),
        mutants={
            "sign": partial(_verify_bias, lambda p, q, same: p * (1 - q + same)),
            "1/5": partial(_verify_bias, largest=Fraction(1, 5)),
        },
    ),
    refuted("CS-A1-context", _context(), instead=_context(cumulative=True)),
    refuted("CS-A1-set", _trace(), instead=_trace(as_set=False)),
    refuted("CS-A1-text", _as_the_text(), fix=_verify_commits, mutants={"k = 1": partial(_as_the_text, (1,))}),
    proved("CS-A1-commits", verify=_verify_commits, mutants={"one more": partial(_verify_commits, extra=1)}),
    verified("CS-A1-reuse", _dominance(), mutants={"strictly": partial(_dominance, strict=True)}),
    verified("CS-A1-progress", _progress(), mutants={"no fallback": partial(_progress, False)}),
    repaired(
        "CS-V1-committed",
        fix=Given(partial(prove_by_induction, index="k", start=1)),
        mutants={"after the text": restated("CS-V1-committed", change=("committed_as_printed", "verified_steps"))},
    ),
)
