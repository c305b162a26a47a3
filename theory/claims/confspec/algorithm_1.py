"""Claims of ConfSpec about Algorithm 1: its lines against the text, the law of the trace, progress, cost."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from theory.claims.confspec.exact import Fallback, distance, iteration, models, trace
from theory.claims.ledger import Claim, Evidence, statement
from theory.claims.proving.deferred import sp
from theory.claims.proving.records import mutant, proved, refuted, repaired, verified
from theory.claims.proving.sequences import Law, Model, target_law
from theory.claims.proving.tools import all_of, exhaustive, identity, refute

__all__ = ["CLAIMS"]

_HALF = Fraction(1, 2)
_EXACT = "verification without errors: accept exactly if draft and target step have one meaning; sampling target"


def _first_step(fallback: Fallback, target: tuple[Fraction, ...], draft: tuple[Fraction, ...]) -> Law:
    """Law of the first committed step for fixed laws of target and draft, one drafted step."""
    return iteration(lambda _s: target, lambda _s: draft, (), 1, fallback)


def _verify_law(fallback: Fallback = "printed", draft: tuple[str, str] = ("1", "0")) -> Evidence:
    """Target (1/2, 1/2), draft always meaning 0, verification without errors."""
    target, guess = (_HALF, _HALF), (Fraction(draft[0]), Fraction(draft[1]))

    def first(p: Fraction, q: Fraction) -> Fraction:
        return _first_step(fallback, (p, 1 - p), (q, 1 - q)).get((0,), Fraction(0))

    return refute(
        lambda p, q: first(p, q) == p,
        [{"p": target[0], "q": guess[0]}],
        what="the committed step has the law of the target when verification makes no error",
        explain=lambda p, q: f"meaning 0 is committed with probability {first(p, q)}",
    )


def _verify_reuse(fallback: Fallback = "reuse") -> Evidence:
    """Two-step traces of every pair of models with 2 and 3 meanings and depths 1 to 3 against the target alone."""
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


def _verify_bias(formula: Callable[[Any, Any, Any], Any] | None = None, largest: Fraction = Fraction(1, 4)) -> Evidence:
    """``p (1 + q - A)`` = p q (accepted) + (1 - A) p (rejected); distance <= 1/4, as q has deviation <= 1/2."""
    from theory.claims.confspec.statements import committed_law

    p, q, agreement, mean = sp.symbols("p q A m", positive=True)
    stated = formula or committed_law
    eighths = [Fraction(i, 8) for i in range(9)]

    def holds(p0: int, q0: int) -> bool:
        target, draft = (eighths[p0], 1 - eighths[p0]), (eighths[q0], 1 - eighths[q0])
        same = sum((x * y for x, y in zip(target, draft, strict=True)), Fraction(0))
        law = _first_step("printed", target, draft)
        exact = all(law.get((i,), 0) == stated(target[i], draft[i], same) for i in (0, 1))
        return exact and distance(law, {(0,): target[0], (1,): target[1]}) <= largest

    return all_of(
        lambda: exhaustive(
            holds, {"p0": range(9), "q0": range(9)}, what="law of the first step, two meanings, in eighths"
        ),
        identity(p * q + (1 - agreement) * p - stated(p, q, agreement), "accept or regenerate"),
        identity(
            mean - mean**2 - (sp.Rational(1, 4) - (mean - sp.Rational(1, 2)) ** 2),
            "E (q - m)^2 <= E q - m^2 = 1/4 - (m - 1/2)^2 as q^2 <= q, so the distance E|q - m| / 2 <= 1/4",
        ),
    )


def _committed(depth: int, accepted: int, rule: Fallback) -> int:
    """Steps committed after `accepted` of `depth` drafts passed."""
    if accepted == depth:
        return depth
    if rule == "printed":
        return max(accepted, 1)
    return accepted + 1


def _verify_text(depths: tuple[int, ...] = (1, 2)) -> Evidence:
    """Section 4.2 lets the target write a step after the first rejection; lines 16 to 22 do so only if m = 0."""
    points = [{"k": k, "m": m} for k in depths for m in range(k + 1)]
    return refute(
        lambda k, m: _committed(int(k), int(m), "printed") == _committed(int(k), int(m), "text"),
        points,
        what="lines 16 to 22 commit what the text says",
        explain=lambda k, m: (
            f"{_committed(int(k), int(m), 'printed')} steps from the lines, "
            f"{_committed(int(k), int(m), 'text')} from the text"
        ),
    )


def _verify_commits(extra: int = 0) -> Evidence:
    """Means of committed steps by induction on k, with P(m = j) = a^j (1 - a) for j < k and P(m = k) = a^k."""
    from theory.claims.confspec.statements import a, committed_after_text, committed_as_printed, k

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


def _verify_dominance(strict: bool = False) -> Evidence:
    """Pointwise in m: reuse commits at least as many steps and needs no second target generation."""

    def holds(depth: int, accepted: int) -> bool:
        ours, theirs = (_committed(depth, accepted, rule) for rule in ("reuse", "printed"))
        generations = {"reuse": 1, "printed": 1 + (accepted == 0)}
        more = ours > theirs if strict else ours >= theirs
        return accepted > depth or (more and generations["reuse"] <= generations["printed"])

    ranges = {"depth": range(1, 9), "accepted": range(9)}
    what = "reuse commits min(m + 1, k) >= max(m, 1) steps with one target generation (m + 1 > m once m >= 1)"
    return exhaustive(holds, ranges, what=what, reach="k <= 8")


def _verify_progress(fallback_runs: bool = True) -> Evidence:
    """Every iteration commits 1 to k steps."""

    def holds(depth: int, accepted: int) -> bool:
        committed = _committed(depth, accepted, "printed") if fallback_runs else accepted
        return accepted > depth or 1 <= committed <= depth

    ranges = {"depth": range(1, 9), "accepted": range(9)}
    what = "max(m, 1) lies in 1..k for 0 <= m <= k, since 1 and m do"
    return exhaustive(holds, ranges, what=what, reach="k <= 8")


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


def _verify_context(cumulative: bool = False) -> Evidence:
    """Line 7 gives the target the context and s_j itself, so it writes the step after the one it is compared with."""
    return refute(
        lambda k: _accepted_by_perfect_draft(int(k), cumulative) == k,
        [{"k": 1}, {"k": 3}],
        what="a draft that writes the same steps as the target is accepted (target and draft count 1, 2, 3, ...)",
        explain=lambda k: f"{_accepted_by_perfect_draft(int(k), cumulative)} of {k} accepted",
    )


def _verify_set(as_set: bool = True) -> Evidence:
    """S is built by set union; a step that occurs twice is kept once."""

    def kept(repeats: Fraction) -> int:
        steps = ["s"] * int(repeats)
        return len(set(steps)) if as_set else len(steps)

    return refute(
        lambda repeats: kept(repeats) == repeats,
        [{"repeats": 1}, {"repeats": 2}],
        what="the trace S holds every committed step",
        explain=lambda repeats: f"{kept(repeats)} of {repeats} equal steps kept",
    )


def _verify_per_committed(rule: Fallback = "printed") -> Evidence:
    """Verified steps per committed step, at a = 1/2."""
    from theory.claims.confspec import statements as cs

    def ratio(a: Fraction, k: Fraction) -> Fraction:
        form = cs.committed_as_printed() if rule == "printed" else cs.committed_after_text()
        values = {cs.a: str(a), cs.k: int(k)}
        return Fraction(str((cs.verified_steps() / form).subs(values).doit()))

    return refute(
        lambda a, k: ratio(a, k) == 1,
        [{"a": "1/2", "k": 1}, {"a": "1/2", "k": 2}],
        what="a committed step needs one verification on average",
        explain=lambda a, k: f"{ratio(a, k)} verifications per committed step",
    )


def _verify_verifications() -> Evidence:
    """Verified = sum_{j<k} a^j; committed is the same sum after the text, and smaller by a - a^k as printed."""
    from theory.claims.confspec import statements as cs

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


def _law_statement() -> sp.Basic:

    from theory.claims.confspec.statements import committed_law

    return committed_law(*sp.symbols("p q A", positive=True))


CLAIMS: tuple[Claim, ...] = (
    refuted(
        id="CS-A1-law",
        source="ConfSpec, section 4.2 (Stage 3) and Algorithm 1, lines 16 to 22",
        statement="Up to verification errors the trace has the law of the target, thanks to the fallback.",
        assumptions=_EXACT,
        verify=_verify_law,
        correction="Commit the target step that the draft was compared with: the committed meaning is then always that "
        "of the target's own sample. A fresh sample after a rejection favours what the draft favours (see CS-A1-bias).",
        correction_verify=_verify_reuse,
        mutants=(
            mutant("reuse", "the compared target step is committed", _verify_law, "reuse"),
            mutant("uniform draft", "a draft without preference", _verify_law, draft=("1/2", "1/2")),
        ),
        notes="A rejection is evidence that the target's sample is unlike the draft; a fresh sample forgets it. A "
        "greedy target is unharmed.",
    ),
    proved(
        id="CS-A1-bias",
        source="ConfSpec, Algorithm 1, lines 16 to 22, law derived here",
        statement="A first step of meaning c is committed with probability p (1 + q - A), A = sum p q; the distance "
        "from the target is at most 1/4.",
        expression=_law_statement,
        assumptions=_EXACT + "; one step, p and q the probabilities of c",
        verify=_verify_bias,
        mutants=(
            mutant("sign", "p (1 - q + A)", _verify_bias, lambda p, q, same: p * (1 - q + same)),
            mutant("1/5", "distance at most 1/5", _verify_bias, largest=Fraction(1, 5)),
        ),
        notes="1/4 is reached at p = (1/2, 1/2), q = (1, 0). Later steps of an iteration are biased more, as they are "
        "drafted again.",
    ),
    refuted(
        id="CS-A1-text",
        source="ConfSpec, section 4.2 (Stage 3) against Algorithm 1, lines 16 to 22",
        statement="After the first rejection the target writes the next step (as the text says of lines 19 to 21).",
        assumptions="k >= 2",
        verify=_verify_text,
        correction="The lines do so only when no draft was accepted; with 0 < m < k accepted they commit m steps where "
        "the text commits m + 1. On average they commit sum_{j=1}^{k} a^j + 1 - a, the text sum_{j<k} a^j.",
        correction_verify=_verify_commits,
        mutants=(mutant("k = 1", "one drafted step", _verify_text, depths=(1,)),),
    ),
    proved(
        id="CS-A1-commits",
        source="ConfSpec, Algorithm 1, lines 9 to 22, means derived here",
        statement="An iteration commits sum_{j=1}^{k} a^j + 1 - a steps on average as printed, sum_{j<k} a^j with a "
        "target step after every rejection.",
        expression=statement("confspec", "committed_as_printed"),
        assumptions="each draft is accepted with probability a given that its predecessors were",
        verify=_verify_commits,
        mutants=(mutant("one more", "one step more", _verify_commits, extra=1),),
    ),
    verified(
        id="CS-A1-reuse",
        source="ConfSpec, Algorithm 1, lines 16 to 22, comparison derived here",
        statement="Committing the compared target step is never slower than the printed fallback: no fewer steps and "
        "no second generation.",
        assumptions="any acceptance pattern; target generation is the only cost of the fallback",
        reach="k <= 8",
        verify=_verify_dominance,
        mutants=(mutant("strictly", "always more steps", _verify_dominance, strict=True),),
        notes="Equal for m = 0 and m = k in steps; for m = 0 one target generation is saved, for 0 < m < k one step is "
        "gained.",
    ),
    verified(
        id="CS-A1-progress",
        source="ConfSpec, Algorithm 1, lines 2 to 23",
        statement="Every iteration adds between 1 and k steps, so a trace of n steps takes at most n iterations.",
        assumptions="k >= 1",
        reach="k <= 8",
        verify=_verify_progress,
        mutants=(mutant("no fallback", "lines 19 to 22 left out", _verify_progress, False),),
    ),
    refuted(
        id="CS-A1-context",
        source="ConfSpec, Algorithm 1, lines 6 to 8",
        statement="The target step s_j is generated from the context followed by the draft step of the same index, and "
        "compared with it.",
        assumptions="as printed",
        verify=_verify_context,
        correction="Generate s_j from the context followed by the first j - 1 drafts (Appendix B.1 speaks of "
        "cumulative contexts): as printed a perfect draft is always rejected.",
        correction_verify=lambda: exhaustive(
            lambda k: _accepted_by_perfect_draft(k, cumulative=True) == k,
            {"k": range(1, 9)},
            what="with cumulative contexts a perfect draft is accepted",
            reach="k <= 8",
        ),
        mutants=(mutant("cumulative", "drafts 1 to j - 1 as context", _verify_context, True),),
    ),
    refuted(
        id="CS-A1-set",
        source="ConfSpec, Algorithm 1, lines 1, 17 and 21",
        statement="The reasoning trace S is the union of the committed steps.",
        assumptions="steps may repeat",
        verify=_verify_set,
        correction="S is a sequence and steps are appended, as to the context: a union loses repeated steps and their "
        "order.",
        correction_verify=lambda: exhaustive(
            lambda repeats: len(["s"] * repeats) == repeats,
            {"repeats": range(1, 9)},
            what="appending keeps every step",
            reach="up to 8 repeats",
        ),
        mutants=(mutant("sequence", "steps are appended", _verify_set, as_set=False),),
    ),
    repaired(
        id="CS-V1-committed",
        source="ConfSpec, section 4.4 with Algorithm 1",
        statement="The expected verification cost per step, c_d + e c_t, is per step of the trace.",
        assumptions="drafts accepted with probability a; k steps drafted",
        printed=_verify_per_committed,
        correction="It is per verified step. As printed an iteration verifies a - a^k more steps than it commits (6/5 "
        "per committed step at a = 1/2, k = 2); with a target step after every rejection the two are equal.",
        repair=_verify_verifications,
        mutants=(mutant("after the text", "a target step after every rejection", _verify_per_committed, "text"),),
    ),
)
