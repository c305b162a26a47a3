"""The ledger of theorems: every claim of the four papers as a record that re-derives its own verdict.

``ledger`` defines the record and collects it, ``verify`` holds the proving tools (ball arithmetic, identities, exact
counterexamples, exhaustive integers), ``runner`` re-derives all verdicts in parallel, ``readme`` prints the errata, and
``statements`` holds the sympy form of every closed form that the numeric modules of ``theory`` implement.
"""

from __future__ import annotations

__all__: list[str] = []
