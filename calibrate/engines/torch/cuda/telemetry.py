"""State of GPUs while they are measured: clocks, temperature, power, energy, and whether they were slowed down.

Through NVML (package nvidia-ml-py), as nvidia-smi reads it; without it nothing is known. Nothing is set, only read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["GpuState", "gpu_notes", "gpu_states"]

_SLOWED: Final = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""NVML's reasons by which a time depends on the machine's state: power cap, hardware slowdown, thermal (software,
hardware), power brake."""


class GpuState(NamedTuple):
    """What one GPU says of itself at a moment; NaN: it does not."""

    name: str
    sm_mhz: float
    sm_max_mhz: float
    celsius: float
    watts: float
    energy_j: float
    """Energy used since the driver was loaded, J."""
    reasons: int
    """Bits of the reasons for which clocks are not at their highest; 0: none, or unknown."""

    @property
    def slowed(self) -> bool:
        """Whether times are longer for it: idle GPUs and clocks that a user has set do not count."""
        return bool(self.reasons & _SLOWED)


def gpu_states(devices: Sequence[str]) -> list[GpuState]:
    """Return the states of devices by their names in torch, such as ``cuda:1``; none without NVML, or of a CPU."""
    try:
        import pynvml  # type: ignore[import-not-found]

        pynvml.nvmlInit()
    except Exception:  # not installed, no driver, or a container that hides it
        return []
    numbers = sorted({int(name.partition(":")[2] or 0) for name in devices if name != "cpu"})
    return [state for number in numbers if (state := _state(pynvml, number)) is not None]


def _state(nvml: Any, number: int) -> GpuState | None:
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    try:
        name = visible[number] if visible else str(number)
        by_number = name.isdigit()
        handle = nvml.nvmlDeviceGetHandleByIndex(int(name)) if by_number else nvml.nvmlDeviceGetHandleByUUID(name)
        text = nvml.nvmlDeviceGetName(handle)
    except Exception:  # no such GPU, or one that this process must not see
        return None
    clock = nvml.NVML_CLOCK_SM
    reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None) or getattr(
        nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None
    )
    return GpuState(
        name=text.decode() if isinstance(text, bytes) else str(text),
        sm_mhz=_number(lambda: nvml.nvmlDeviceGetClockInfo(handle, clock)),
        sm_max_mhz=_number(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, clock)),
        celsius=_number(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        watts=_number(lambda: nvml.nvmlDeviceGetPowerUsage(handle)) / 1e3,
        energy_j=_number(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3,
        reasons=int(_number(lambda: reasons(handle), 0.0)) if reasons is not None else 0,
    )


def _number(read: Callable[[], Any], unknown: float = float("nan")) -> float:
    try:
        return float(read())
    except Exception:  # NVMLError of any kind, or a function that this version lacks
        return unknown


def gpu_notes(series: Sequence[Sequence[GpuState]]) -> list[str]:
    """Return a line for each GPU about its states at several moments, in order; a warning where it was slowed down."""
    notes = []
    for states in zip(*series, strict=False):
        first, used_j, n_slowed = states[0], states[-1].energy_j - states[0].energy_j, sum(one.slowed for one in states)
        mhz, celsius = [state.sm_mhz for state in states], [state.celsius for state in states]
        notes.append(
            f"{first.name}: {min(mhz):.0f} to {max(mhz):.0f} of {first.sm_max_mhz:.0f} MHz, {min(celsius):.0f} to "
            f"{max(celsius):.0f} °C, {used_j / 1e3:.1f} kJ between the first and the last answer"
        )
        if n_slowed:
            notes.append(f"warning: {first.name} was slowed down at {n_slowed} of {len(states)} answers")
    return notes
