"""Plan speculative reasoning: ``plan``, ``simulate`` and the rest as functions; the command line does the same.

Nothing is imported before it is needed.

>>> import specplan as sp
>>> plan = sp.plan(sp.profile("lr-deepseek-gsm8k"), methods=["prompt-lookup"])
>>> plan.best.prediction.configuration.method
'prompt-lookup'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specplan.version import __version__

if TYPE_CHECKING:
    from specplan.api.acceptance import acceptance as acceptance
    from specplan.api.calibrating import calibrate as calibrate
    from specplan.api.explaining import explain as explain
    from specplan.api.methods import gaps as gaps
    from specplan.api.methods import methods as methods
    from specplan.api.planning import plan as plan
    from specplan.api.planning import plan_gpus as plan_gpus
    from specplan.api.planning import plan_models as plan_models
    from specplan.api.planning import profile as profile
    from specplan.api.planning import profiles as profiles
    from specplan.api.reproducing import reproduce as reproduce
    from specplan.api.simulating import simulate as simulate
    from specplan.api.sweeping import sweep as sweep
    from specplan.api.theorems import theorems as theorems
    from specplan.api.thresholds import thresholds as thresholds
    from specplan.api.validating import validate as validate
    from specplan.api.validating import validate_under_load as validate_under_load
    from theory.budget import best_hybrid as best_hybrid
    from theory.optimum import f_sync_argmax as f_sync_argmax
    from theory.optimum import g_argmax as g_argmax
    from theory.speedup import f_async as f_async
    from theory.speedup import f_sync as f_sync
    from theory.speedup import g as g
    from theory.speedup import h as h

_HOMES = {
    "acceptance": "specplan.api.acceptance",
    "calibrate": "specplan.api.calibrating",
    "explain": "specplan.api.explaining",
    "gaps": "specplan.api.methods",
    "methods": "specplan.api.methods",
    "plan": "specplan.api.planning",
    "plan_gpus": "specplan.api.planning",
    "plan_models": "specplan.api.planning",
    "profile": "specplan.api.planning",
    "profiles": "specplan.api.planning",
    "reproduce": "specplan.api.reproducing",
    "simulate": "specplan.api.simulating",
    "sweep": "specplan.api.sweeping",
    "theorems": "specplan.api.theorems",
    "thresholds": "specplan.api.thresholds",
    "validate": "specplan.api.validating",
    "validate_under_load": "specplan.api.validating",
    **dict.fromkeys(("f_async", "f_sync", "g", "h"), "theory.speedup"),
    **dict.fromkeys(("f_sync_argmax", "g_argmax"), "theory.optimum"),
    "best_hybrid": "theory.budget",
}
"""Public function to the module that has it."""

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 (names of functions)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'specplan' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
