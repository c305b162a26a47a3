"""Evidence is derived once per test run, however many tests look at it and whichever worker runs them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import pytest

from theory.claims.ledger import Claim, Evidence, Mutant, claim
from theory.claims.runner import Verification, verify_claim

T = TypeVar("T")


class Shared:
    """What was derived, in a folder of this run that its workers share.

    Two workers that want the same at the same time both derive it, which does no harm.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, object] = {}

    def get(self, name: str, derive: Callable[[], T]) -> T:
        """What ``derive`` returns, or has returned before under this name."""
        if name not in self._known:
            self._known[name] = self._read_or_derive(self._folder / f"{quote(name, safe='')}.pickle", derive)
        return self._known[name]  # type: ignore[return-value]

    def _read_or_derive(self, path: Path, derive: Callable[[], T]) -> T:
        if path.exists():
            return pickle.loads(path.read_bytes())  # type: ignore[no-any-return]
        found = derive()
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(pickle.dumps(found))
        draft.replace(path)
        return found


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """The evidence of this run; under xdist, each worker's folder lies in that of the run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "evidence"
    folder.mkdir(exist_ok=True)
    return Shared(folder)


@pytest.fixture(scope="session")
def verified(shared: Shared) -> Callable[[str], Verification]:
    """Call with an id: its verification."""
    return lambda claim_id: shared.get(claim_id, lambda: verify_claim(claim(claim_id)))


@pytest.fixture(scope="session")
def mutated(shared: Shared) -> Callable[[Claim, Mutant], Evidence]:
    """Call with a claim and one of its mutants: the evidence that the mutant's verifier comes to."""
    return lambda item, mutant: shared.get(f"{item.id} {mutant.name}", mutant.verify)
