"""Claims of ConfSpec about the steps that an iteration of Algorithm 1 commits: lines against text, progress, cost."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, Final

from ledger.confspec.exact import Fallback
from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Cases, Predicate, rows, searched
from ledger.proving.deferred import sp
from ledger.proving.domains import between, whole
from ledger.proving.records import proved, refuted, repaired, verified
from ledger.proving.tools import all_of, exhaustive, identity

__all__ = ["CLAIMS"]


def _committed(depth: int, accepted: int, rule: Fallback) -> int:
    """Steps committed after `accepted` of `depth` drafts passed."""
    if accepted == depth:
        return depth
    if rule == "printed":
        return max(accepted, 1)
    return accepted + 1


_AS_THE_TEXT: Final = Predicate(
    text="lines 16 to 22 commit what the text says, where m of k drafts are accepted",
    test=lambda k, m: _committed(int(k), int(m), "printed") == _committed(int(k), int(m), "text"),
    domain={"k": whole(1), "m": whole(0)},
    premise=lambda k, m: m <= k,
    given="m <= k",
)


def _verify_text(depths: tuple[int, ...] = (1, 2)) -> Evidence:
    """Section 4.2 lets the target write a step after the first rejection; lines 16 to 22 do so only if m = 0."""
    return searched(
        _AS_THE_TEXT,
        *[{"k": k, "m": m} for k in depths for m in range(k + 1)],
        explain=lambda k, m: (
            f"{_committed(int(k), int(m), 'printed')} steps from the lines, "
            f"{_committed(int(k), int(m), 'text')} from the text"
        ),
    )


def _verify_commits(extra: int = 0) -> Evidence:
    """Means of committed steps by induction on k, with P(m = j) = a^j (1 - a) for j < k and P(m = k) = a^k."""
    from ledger.confspec.statements import a, committed_after_text, committed_as_printed, k

    def mean(rule: Fallback, depth: int) -> Any:
        miss = sum(_committed(depth, j, rule) * a**j * (1 - a) for j in range(depth))
        return miss + _committed(depth, depth, rule) * a**depth

    def agrees(depth: int) -> bool:
        forms: dict[Fallback, Any] = {"printed": committed_as_printed(), "reuse": committed_after_text()}
        return all(sp.expand(mean(rule, depth) - f.subs(k, depth).doit() - extra) == 0 for rule, f in forms.items())

    growth = (k + 1) * a ** (k + 1) + k * a**k * (1 - a) - k * a**k
    return all_of(
        lambda: exhaustive(agrees, {"depth": range(1, 7)}, what="closed forms = mean over m, symbolic in a"),
        identity(growth - a ** (k + 1), "one more drafted step adds a^(k+1) to the mean of m"),
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


def _per_committed(rule: Fallback, a: Fraction, k: Fraction) -> Fraction:
    """Verified steps per committed step."""
    from ledger.confspec import statements as cs

    form = cs.committed_as_printed() if rule == "printed" else cs.committed_after_text()
    values = {cs.a: str(a), cs.k: int(k)}
    return Fraction(str((cs.verified_steps() / form).subs(values).doit()))


def _one_each(rule: Fallback = "printed") -> Predicate:
    return Predicate(
        text="a committed step needs one verification on average",
        test=lambda a, k: _per_committed(rule, a, k) == 1,
        domain={"a": between(0, 1), "k": whole(1)},
        at=[{"a": "1/2", "k": 1}, {"a": "1/2", "k": 2}],
        explain=lambda a, k: f"{_per_committed(rule, a, k)} verifications per committed step",
    )


def _verify_verifications() -> Evidence:
    """Verified = sum_{j<k} a^j; committed is the same sum after the text, and smaller by a - a^k as printed."""
    from ledger.confspec import statements as cs

    def holds(k: int) -> bool:
        verified, text, lines = (
            form.subs(cs.k, k).doit()
            for form in (cs.verified_steps(), cs.committed_after_text(), cs.committed_as_printed())
        )
        reached = sum(cs.a**j for j in range(k))
        return all(sp.expand(x) == 0 for x in (verified - reached, verified - text, verified - lines - cs.a + cs.a**k))

    return exhaustive(
        holds,
        {"k": range(1, 9)},
        what="verified - committed = a - a^k as printed, 0 after the text (symbolic in a)",
        tail=identity(
            (cs.a - cs.a ** (cs.k + 1)) - (cs.a - cs.a**cs.k) - (cs.a**cs.k - cs.a ** (cs.k + 1)),
            "one more drafted step adds a^k verified and, as printed, a^(k+1) committed steps",
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    refuted(
        "CS-A1-text",
        formula=_AS_THE_TEXT,
        verify=_verify_text,
        correction_verify=_verify_commits,
        mutants={"k = 1": partial(_verify_text, depths=(1,))},
    ),
    proved("CS-A1-commits", verify=_verify_commits, mutants={"one more": partial(_verify_commits, extra=1)}),
    verified("CS-A1-reuse", formula=_dominance(), mutants={"strictly": partial(_dominance, strict=True)}),
    verified("CS-A1-progress", formula=_progress(), mutants={"no fallback": partial(_progress, False)}),
    repaired(
        "CS-V1-committed",
        formula=_one_each(),
        repair=_verify_verifications,
        mutants={"after the text": partial(_one_each, "text")},
    ),
)
