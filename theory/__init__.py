"""Closed forms for speculative execution of language models, with their assumptions, sources and accuracy.

Symbols. This table is the only one; a letter has no second meaning anywhere in the project.

========  ==============================================================  ===============  ==========================
symbol    meaning                                                         unit, range      source
========  ==============================================================  ===============  ==========================
alpha1    probability that a draft step is accepted, given that those     [-], [0, 1]      LR 3.2
          before it in its stage were
c1        time of a draft step / time of a target step                    [-], [0, 1]      LR 3.2
k1        target steps in flight at most; k1 = 1 is plain decoding        steps, >= 1      LR 3.2 (its gamma, App. B)
alpha2    probability that a drafted token is accepted, given that        [-], [0, 1]      LR 3.3
          those before it in its pass were
c2        time of a draft token / time of a target pass                   [-], [0, 1]      LR 3.3
k2        tokens per target pass, k2 - 1 of them drafted                  tokens, >= 1     LR 3.3, Eq. (2)
gamma     tokens drafted per target pass, k2 - 1                          tokens, >= 0     Leviathan 2023
X         drafts accepted in a row before a rejection                     steps, >= 0      LR App. B.1.1
M         parallel budget: ParallelDim_f * ParallelDim_g <= M             positions, >= 1  LR 3.3, Eq. (1)
W         draft branches per position (tree width)                        branches, >= 1   LR 3.1
rho       correlation of the verdicts on two branches of a position       [-], [0, 1]      LR Table 3
P         target steps in flight for a window of K positions, W branches  steps, >= 1      LR 3.1; ConfSpec 5.3
          each: 1 + W + ... + W**(K - 1)
eta       time that each further position in flight adds to a step, as a  [-], >= 0         own
          share of it
T         time of one target step                                         seconds, > 0     LR 3.2
tau       tokens emitted per target pass                                  tokens, >= 1     Leviathan 2023, Eq. (1)
f, g, h   speedup at step level, at token level, of both (h = f g)        [-]              LR 3.2, 3.3
========  ==============================================================  ===============  ==========================

LR is "Scaling Speculative Decoding with Lookahead Reasoning"; Leviathan 2023 is arXiv:2211.17192.

A name is imported when it is first used, so ``import theory`` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for true; importing `typing` would be most of the cost of this package

if TYPE_CHECKING:
    from theory.budget import HybridOptimum as HybridOptimum
    from theory.budget import RegimeMap as RegimeMap
    from theory.budget import best_hybrid as best_hybrid
    from theory.budget import regime_map as regime_map
    from theory.errors import CalibrationError as CalibrationError
    from theory.errors import ParameterError as ParameterError
    from theory.errors import SchemaError as SchemaError
    from theory.errors import SpecplanError as SpecplanError
    from theory.errors import UnstableMeasurementError as UnstableMeasurementError
    from theory.optimum import IntegerOptimum as IntegerOptimum
    from theory.optimum import f_sync_argmax as f_sync_argmax
    from theory.optimum import g_argmax as g_argmax
    from theory.parallelism import parallel_dim as parallel_dim
    from theory.parallelism import parallel_dim_f as parallel_dim_f
    from theory.parallelism import saturation_depth as saturation_depth
    from theory.speedup import expected_accepted_steps as expected_accepted_steps
    from theory.speedup import expected_tokens as expected_tokens
    from theory.speedup import f_async as f_async
    from theory.speedup import f_async_saturated as f_async_saturated
    from theory.speedup import f_async_unsaturated as f_async_unsaturated
    from theory.speedup import f_sync as f_sync
    from theory.speedup import g as g
    from theory.speedup import h as h
    from theory.speedup import walltime_leviathan_2023 as walltime_leviathan_2023

_HOMES = {
    "theory.budget": ("HybridOptimum", "RegimeMap", "best_hybrid", "regime_map"),
    "theory.errors": (
        "CalibrationError",
        "ParameterError",
        "SchemaError",
        "SpecplanError",
        "UnstableMeasurementError",
    ),
    "theory.optimum": ("IntegerOptimum", "f_sync_argmax", "g_argmax"),
    "theory.parallelism": (
        "parallel_dim",
        "parallel_dim_f",
        "saturation_depth",
    ),
    "theory.speedup": (
        "expected_accepted_steps",
        "expected_tokens",
        "f_async",
        "f_async_saturated",
        "f_async_unsaturated",
        "f_sync",
        "g",
        "h",
        "walltime_leviathan_2023",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)  # noqa: PLE0605 (the names above, kept in one place; a test compares the two)


def __getattr__(name: str) -> object:
    """Import the module that defines ``name`` and keep the result (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'theory' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOME))
