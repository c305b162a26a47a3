"""The ledger of theorems: every claim of the four papers as a record that re-derives its own verdict.

``ledger`` defines the record and collects it, ``proving`` holds the proving tools (ball arithmetic, identities, exact
counterexamples, exhaustive integers), ``runner`` re-derives all verdicts in parallel, and ``readme`` prints the errata.
Each paper has a folder: its claims, its closed forms in sympy (``statements``), which the numeric modules of ``theory``
are tested against, and its algorithms or laws in exact arithmetic (``exact``).
"""

from __future__ import annotations

__all__: list[str] = []
