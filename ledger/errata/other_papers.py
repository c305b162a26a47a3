"""Root causes in SPECS and ConfSpec, in the order of the papers."""

from __future__ import annotations

from ledger.errata.cause import Cause, Severity

__all__ = ["CONFSPEC", "SPECS"]

_STATEMENT, _ARGUMENT, _EDGE, _SLIP = Severity

SPECS = (
    Cause(
        title="When a high reward lets the draft take over",
        severity=_STATEMENT,
        stands="Observation 2 for traces of 8 steps, and the method.",
        claims=("SPECS-OBS2",),
    ),
    Cause(
        title="Where beta stands",
        severity=_SLIP,
        stands="The method and the theorems.",
        claims=("SPECS-E1", "SPECS-S31a", "SPECS-L1"),
    ),
    Cause(
        title="Letters that a generator never draws",
        severity=_EDGE,
        stands="All results for finite coverage.",
        claims=("SPECS-E4", "SPECS-COV"),
    ),
    Cause(
        title="The direction of tau",
        severity=_STATEMENT,
        stands="Algorithm 1 and Figure 4; the sentence has to be turned round.",
        claims=("SPECS-TAU",),
    ),
    Cause(
        title="Sentences that the paper's own tables contradict",
        severity=_STATEMENT,
        stands="The tables.",
        claims=("SPECS-TAB1", "SPECS-TAB1a", "SPECS-TAB1b", "SPECS-TAB2", "SPECS-NOISE"),
    ),
    Cause(
        title="General sentences with an exception in the tables",
        severity=_EDGE,
        stands="Each sentence, in all settings but one or two.",
        claims=("SPECS-NOTARGET", "SPECS-NOTARGET-s", "SPECS-NOISE2", "SPECS-D8", "SPECS-GPQA"),
    ),
    Cause(
        title="What the idealized reward and its limit are",
        severity=_EDGE,
        stands="Theorems 1 and 2, with the range of the reward left out.",
        claims=("SPECS-D2", "SPECS-D3", "SPECS-D4"),
    ),
    Cause(
        title="Directions and strictness of divergences",
        severity=_SLIP,
        stands="Theorems 1, 3 and 4.",
        claims=("SPECS-L1b", "SPECS-R2", "SPECS-L2b", "SPECS-E12"),
    ),
    Cause(
        title="Rates at a fixed width, and constants over prompts",
        severity=_ARGUMENT,
        stands="Theorem 3 and Corollary 1: at a fixed width the rate 1/n^2 holds (SPECS-X1).",
        claims=("SPECS-T3", "SPECS-PM-order", "SPECS-C1b"),
    ),
    Cause(
        title="What the next block depends on",
        severity=_ARGUMENT,
        stands="Theorem 1.",
        claims=("SPECS-T1b",),
    ),
    Cause(
        title="Poisson counts: conditions and terms of Appendix C",
        severity=_SLIP,
        stands="Lemmas 4 and 5 and Equations 17 to 20, as corrected.",
        claims=("SPECS-E17", "SPECS-E18b", "SPECS-E19a", "SPECS-L4b", "SPECS-L5b"),
    ),
    Cause(
        title="Lemma 6 and the averaged law",
        severity=_ARGUMENT,
        stands="Theorem 4, for every n >= 3 by SPECS-X1.",
        claims=("SPECS-L6a", "SPECS-L6b", "SPECS-C2d"),
    ),
    Cause(
        title="The lower bound of Theorem 5",
        severity=_ARGUMENT,
        stands="Theorem 5, for exp(beta R) >= 2, with a stated constant.",
        claims=("SPECS-T5", "SPECS-E23", "SPECS-T5a"),
    ),
)

CONFSPEC = (
    Cause(
        title="Confidence of the draft as a verifier",
        severity=_STATEMENT,
        stands="The gate, with a threshold fitted to labelled decisions.",
        claims=("CS-G2", "CS-G3", "CS-G4", "CS-G5", "CS-T2"),
    ),
    Cause(
        title="What is preserved",
        severity=_STATEMENT,
        stands="A bound: n decisions lose at most n d (CS-P2).",
        claims=("CS-P1", "CS-P4"),
    ),
    Cause(
        title="Thresholds that pass nothing on",
        severity=_EDGE,
        stands="Thresholds above 1/2, such as the paper's.",
        claims=("CS-G6",),
    ),
    Cause(
        title="The fallback of Algorithm 1",
        severity=_STATEMENT,
        stands="The method, when the compared target step is committed; it is then also faster (CS-A1-reuse).",
        claims=("CS-A1-law", "CS-A1-text", "CS-V1-committed", "CS-B1"),
    ),
    Cause(
        title="Context and trace in Algorithm 1",
        severity=_SLIP,
        stands="The method, with the contexts of Appendix B.1 and a trace that is a sequence.",
        claims=("CS-A1-context", "CS-A1-set"),
    ),
    Cause(
        title="Accuracies within their noise: no bound, and not monotone",
        severity=_EDGE,
        stands="Agreement with the target's verdict, which is monotone (CS-G1), and the means of Table 3.",
        claims=("CS-N8", "CS-N11"),
    ),
    Cause(
        title="Numbers that do not fit each other",
        severity=_SLIP,
        stands="The tables but for AIME24 in Table 3 and two means.",
        claims=("CS-N1", "CS-N2", "CS-N3", "CS-N4"),
    ),
    Cause(
        title="Products and rankings",
        severity=_STATEMENT,
        stands="ConfSpec's place above LookaheadReasoning in speed, in every setting.",
        claims=("CS-N5", "CS-N6"),
    ),
    Cause(
        title="Steps at once take as long as the longest of them",
        severity=_EDGE,
        stands="The saving, less the wait for the longest step.",
        claims=("CS-B2",),
    ),
)
