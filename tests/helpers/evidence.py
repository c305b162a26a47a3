"""Evidence that all tests of a run share: it is derived once, whichever worker derives it."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

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
