"""How much of the CPU time that this machine wanted its hypervisor gave to others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

__all__ = ["CpuTimes"]

_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Time of all cores since the machine's start, in ticks of its clock."""

    busy: int
    stolen: int

    @classmethod
    def now(cls) -> Self | None:
        """Read the clocks; None where the system does not tell."""
        try:
            return cls.read(_STAT.read_text(encoding="ascii"))
        except OSError:
            return None

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Read Linux's ``/proc/stat``; None if it is something else.

        >>> CpuTimes.read("cpu  100 0 20 1000 5 1 2 7 0 0")
        CpuTimes(busy=123, stolen=7)
        """
        words = text.partition("\n")[0].split()
        if len(words) < 9 or words[0] != "cpu":
            return None
        user, nice, system, _, _, irq, softirq, stolen = map(int, words[1:9])
        return cls(busy=user + nice + system + irq + softirq, stolen=stolen)

    def stolen_since(self, before: Self) -> float:
        """The share that was stolen of the time wanted since then, in [0, 1]."""
        stolen = self.stolen - before.stolen
        return stolen / max(self.busy - before.busy + stolen, 1)
