"""Seeds of single requests, derived from names, so that a request's seed does not depend on earlier requests."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["derive_seed"]


def derive_seed(*parts: int | str) -> int:
    """A seed in [0, 2**63), a hash of the parts and their order.

    >>> derive_seed(1, "target", 3) == derive_seed(1, "target", 3) != derive_seed(1, "target", 4)
    True
    """
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "little") >> 1
