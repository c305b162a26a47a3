"""The ledger of theorems: every claim of the four papers as a record that re-derives its own verdict.

What a claim says stands in ``papers/PAPER/*.toml``: its place, statement, range, correction and formulas, which `texts`
reads. ``ledger`` defines the record and collects it, ``proving`` holds the proving tools (ball arithmetic, identities,
exact counterexamples, exhaustive integers), ``runner`` re-derives all verdicts in parallel, and ``readme`` prints what
does not hold. Each paper has a folder: its verifiers, its closed forms (``forms``), which formulas, proofs and the
tests of ``theory`` call by name, and its algorithms or laws in exact arithmetic (``exact``).
"""
