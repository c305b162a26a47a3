"""Root causes in Lookahead Reasoning and Lookahead Decoding, in the order of the papers."""

from __future__ import annotations

from ledger.errata.cause import Cause, Severity

__all__ = ["LOOKAHEAD_DECODING", "LOOKAHEAD_REASONING"]

_STATEMENT, _ARGUMENT, _EDGE, _SLIP = Severity

LOOKAHEAD_REASONING = (
    Cause(
        title="The gain on one data set reported for all",
        severity=_STATEMENT,
        stands="Table 1, and Section 1, which gives these figures for GSM8K only.",
        claims=("LR-P8",),
    ),
    Cause(
        title="The conditions of the theorem left out of its summary",
        severity=_EDGE,
        stands="Theorem 4, under its conditions; outside them Theorem 3 says when one method alone is best.",
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
        claims=("LR-S4", "LR-S5", "LR-S3", "LR-T2c", "LR-T2d", "LR-T4h", "LR-L2c", "LR-L2d"),
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
        claims=("LR-P2", "LR-S10"),
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
        stands="The theorem. Few of the paper's own settings meet its conditions.",
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
        claims=("LR-T3i", "LR-T3h"),
    ),
    Cause(
        title="Monotonicity and limits in proofs, taken the wrong way round",
        severity=_ARGUMENT,
        stands="The lemmas and Theorem 4's 'only if', by the steps given below.",
        claims=("LR-T4f", "LR-T4g", "LR-L1c", "LR-L4d", "LR-L5b", "LR-L6c", "LR-L6e", "LR-L6f"),
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
        title="Not in the paper: a summary of it in Chinese, by others",
        severity=_STATEMENT,
        stands="All of the paper, which says neither; the authors need change nothing.",
        claims=("LR-Z1", "LR-Z2"),
        aside="a summary of the paper in Chinese, by others",
    ),
)

LOOKAHEAD_DECODING = (
    Cause(
        title="The abstract understates the speedup on MT-Bench",
        severity=_SLIP,
        stands="Table 3; the abstract may claim more than it does.",
        claims=("LD-N11",),
    ),
    Cause(
        title="The model's own token at the first mismatch is left out",
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
        title="Guesses that see the acceptance draws",
        severity=_EDGE,
        stands="Theorem A, for guesses that are independent of the draws, as those of the n-gram pool are.",
        claims=("LD-A4-indifferent",),
    ),
    Cause(
        title="Independence that Equations 4 and 5 need and the text does not state",
        severity=_EDGE,
        stands="Both equations, for a constant rate and independent sequences.",
        claims=("LD-E4-mean", "LD-E5-mean", "LD-E5-dependence", "LD-A4-mean"),
    ),
    Cause(
        title="Compression, not the number of steps, is linear in the logarithm of the work",
        severity=_STATEMENT,
        stands="The scaling law, said of compression and with n-grams that grow with b (see the proof at the end).",
        claims=("LD-S1", "LD-S2"),
    ),
    Cause(
        title="Small differences between the text and Tables 2, 4 and 6",
        severity=_SLIP,
        stands="The tables, and what the text concludes from them.",
        claims=("LD-N1", "LD-N7", "LD-N5"),
    ),
    Cause(
        title="A verification without n-grams has no distribution",
        severity=_EDGE,
        stands="Theorem A, once D holds the distribution after the current token.",
        claims=("LD-A34-nonempty",),
    ),
    Cause(
        title="The proof of Theorem A divides by a rejection probability that may be 0",
        severity=_EDGE,
        stands="Theorem A: the branches concerned have probability 0.",
        claims=("LD-TA-proof",),
    ),
    Cause(
        title="Not an error of the paper: a remark on implementations of Algorithm 4",
        severity=_EDGE,
        stands="All of the paper, whose r is a real number; the authors need change nothing.",
        claims=("LD-A4-generator",),
        aside="an implementation with a random generator of finitely many values",
    ),
)
