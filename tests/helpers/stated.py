"""The closed forms as the ledger states them, by the names of the numeric functions."""

from functools import cache
from typing import Final

import sympy as sp

from ledger.lookahead_reasoning import forms
from ledger.proving.reading import read

STATEMENTS: Final = {
    "accuracy_loss_bound": "confspec: accuracy_loss_bound(disagreement, n_decisions)",
    "any_of": "1 - (1 - alpha1)**width",
    "best_of_speedup": "1 / (c1 + select_cost + (1 - alpha1)**width)",
    "break_even_escalation": "confspec: break_even_escalation(draft_cost, target_cost)",
    "expected_accepted_steps": "accepted(alpha1)",
    "expected_accepted_steps_limited": "alpha1 * (1 - alpha1**limit) / (1 - alpha1)",
    "expected_tokens": "(1 - alpha**(gamma + 1)) / (1 - alpha)",
    "expected_tokens_multi": "lookahead_decoding: multi(alpha2, gamma, n_sequences)",
    "expected_verification_cost": "confspec: expected_verification_cost(draft_cost, target_cost, escalation)",
    "f_async": "f_async(alpha1, c1, k1)",
    "f_async_saturated": "saturated_printed(alpha1, c1, k1)",
    "f_async_unsaturated": "unsaturated(alpha1, c1)",
    "f_sync": "speedup(alpha1, c1, k1)",
    "g": "speedup(alpha2, c2, k2)",
    "graded_speedup": "1 / (c1 + score_cost + 1 - alpha1)",
    "h_async": "f_async(alpha1, c1, k1) * speedup(alpha2, c2, k2)",
    "h_sync": "speedup(alpha1, c1, k1) * speedup(alpha2, c2, k2)",
    "lambert_optimum": "lambert_optimum(alpha2, c2)",
    "lookahead_compression": "lookahead_decoding: compression(multi(alpha2, ngram - 1, window), steps_per_hit)",
    "parallel_dim_async": "Min(ceiling(1 / c1), k1) * k2",
    "parallel_dim_f_async": "Min(ceiling(1 / c1), k1)",
    "parallel_dim_f_sync": "k1",
    "parallel_dim_sync": "k1 * k2",
    "saturation_depth": "ceiling(1 / c1)",
    "walltime_leviathan_2023": "drafted(alpha, c, gamma)",
}
"""Name of the numeric function, with its mode where it has one, to its statement; before a statement of
another paper than Lookahead Reasoning stands which. Symbols are the arguments' names."""


@cache
def stated(name: str) -> sp.Expr:
    """Return the statement of a numeric function; those of the speedup of ConfSpec end with the fallback."""
    if name in STATEMENTS:
        paper, _, text = STATEMENTS[name].rpartition(": ")
        return read(text, paper or "lookahead_reasoning")
    alpha, c, k, width, gate, judge, escalation = sp.symbols(
        "alpha1 c1 k1 width gate_cost judge_cost escalation", positive=True
    )
    p, fallback = 1 - (1 - alpha) ** width, name.rpartition("_")[2]
    if "pipeline" in name:
        return forms.confspec_pipeline_speedup(p, c, k, fallback)
    return forms.confspec_speedup(p, c, k, gate + (1 - (1 - escalation) ** width) * judge, fallback)
