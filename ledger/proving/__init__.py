"""The machinery of all proofs: balls, symbolic identities, printed numbers, and ways to combine evidence."""

from __future__ import annotations

__all__: list[str] = []
