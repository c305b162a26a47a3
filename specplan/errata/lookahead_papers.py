"""Root causes in Lookahead Reasoning and Lookahead Decoding, in the order of the papers."""

from __future__ import annotations

from specplan.errata.cause import Cause, Severity

__all__ = ["LOOKAHEAD_DECODING", "LOOKAHEAD_REASONING"]

_STATEMENT, _ARGUMENT, _EDGE, _SLIP = Severity

LOOKAHEAD_REASONING = (
    Cause(
        title="The gain on one data set, told of all",
        severity=_STATEMENT,
        stands="Table 1, and Section 1, which names the data set.",
        claims=("LR-P8",),
    ),
    Cause(
        title="Only by combining both levels",
        severity=_STATEMENT,
        stands="The sentence, inside the box of Theorem 4; Theorem 3 has the conditions elsewhere.",
        claims=("LR-S9",),
    ),
    Cause(
        title="Counting drafts against target steps",
        severity=_SLIP,
        stands="All formulas, with the counts read as corrected.",
        claims=("LR-S1", "LR-S2"),
    ),
    Cause(
        title="Floor printed where the ceiling of 1/c1 is meant",
        severity=_EDGE,
        stands="Theorems 2 and 4, with the ceiling, as their proofs have it.",
        claims=("LR-S3", "LR-S4", "LR-S5", "LR-T2c", "LR-T2d", "LR-L2c", "LR-L2d", "LR-T4h"),
    ),
    Cause(
        title="An undefined k in the exponent of S2",
        severity=_SLIP,
        stands="Theorem 2, which prints it right.",
        claims=("LR-S6",),
    ),
    Cause(
        title="Speedups of the two levels do not multiply exactly",
        severity=_STATEMENT,
        stands="The product as an upper estimate, and the theorems about it.",
        claims=("LR-S10", "LR-P2"),
    ),
    Cause(
        title="Printed 'if and only if' where 'only if' is meant",
        severity=_EDGE,
        stands="Theorem 4's 'only if', for every budget from 16 on.",
        claims=("LR-T4b",),
    ),
    Cause(
        title="Conditions of the theorem said to be common",
        severity=_STATEMENT,
        stands="The theorem; it speaks of few of the paper's own settings.",
        claims=("LR-P1", "LR-P4"),
    ),
    Cause(
        title="A threshold that keeps accuracy on one data set only",
        severity=_STATEMENT,
        stands="Table 2, and the order of the two thresholds.",
        claims=("LR-P13",),
    ),
    Cause(
        title="Equality where strict inequality is claimed",
        severity=_EDGE,
        stands="Theorem 3, with strict conditions.",
        claims=("LR-T3b",),
    ),
    Cause(
        title="The integer maximiser taken for the real one",
        severity=_ARGUMENT,
        stands="Theorem 3, by the index floor(gamma2*/2) + 1 (LR-T3b).",
        claims=("LR-T3h", "LR-T3i"),
    ),
    Cause(
        title="Monotonicity and limits in proofs, taken the wrong way round",
        severity=_ARGUMENT,
        stands="Lemmas 1, 4 and 6; each conclusion is proved in the ledger by another step.",
        claims=("LR-L1c", "LR-L4d", "LR-L5b", "LR-L6c", "LR-L6e", "LR-L6f", "LR-T4f", "LR-T4g"),
    ),
    Cause(
        title="Conditions that a lemma uses and does not print",
        severity=_EDGE,
        stands="Lemmas 1, 3 and 5, with the condition.",
        claims=("LR-L1d", "LR-L3a", "LR-L5c"),
    ),
    Cause(
        title="A term, a factor and a digit too much",
        severity=_SLIP,
        stands="Lemmas 3 and 4; their numbers are used as inequalities that hold.",
        claims=("LR-L3c", "LR-L4f", "LR-L4g"),
    ),
    Cause(
        title="A summary of the paper in Chinese, by others",
        severity=_STATEMENT,
        stands="The paper itself, which counts the branches of a tree and prints only the 'if' of Theorem 3.",
        claims=("LR-Z1", "LR-Z2"),
        by_others=True,
    ),
)

LOOKAHEAD_DECODING = (
    Cause(
        title="The largest speedup on MT-Bench",
        severity=_SLIP,
        stands="Table 3, which has more than the abstract.",
        claims=("LD-N11",),
    ),
    Cause(
        title="The answer at the first mismatch",
        severity=_SLIP,
        stands="Algorithms 3 and 4, which add it.",
        claims=("LD-E2-progress",),
    ),
    Cause(
        title="Algorithm 1: the context and the first token of an n-gram",
        severity=_SLIP,
        stands="Theorem A, which holds for any n-grams.",
        claims=("LD-A1-index", "LD-A1-ngram"),
    ),
    Cause(
        title="A verification without n-grams has no distribution",
        severity=_EDGE,
        stands="Theorem A, once D holds the distribution after the current token.",
        claims=("LD-A34-nonempty",),
    ),
    Cause(
        title="Acceptance draws: independent guesses, and numbers of a machine",
        severity=_EDGE,
        stands="Theorem A, for guesses that do not see the draws, on real numbers.",
        claims=("LD-A4-indifferent", "LD-A4-generator", "LD-TA-proof"),
    ),
    Cause(
        title="Equations 4 and 5 with one mean acceptance rate",
        severity=_STATEMENT,
        stands="Both equations, for a constant rate and independent sequences.",
        claims=("LD-E4-mean", "LD-E5-mean", "LD-E5-dependence", "LD-A4-mean"),
    ),
    Cause(
        title="What is linear in the logarithm of the work",
        severity=_STATEMENT,
        stands="Compression is linear in log(b) as long as the n-grams are long enough.",
        claims=("LD-S1", "LD-S2"),
    ),
    Cause(
        title="Totals printed as extras, a rounded 1.0, and hundredths of Rouge",
        severity=_SLIP,
        stands="Tables 2, 4 and 6.",
        claims=("LD-N1", "LD-N7", "LD-N5"),
    ),
)
