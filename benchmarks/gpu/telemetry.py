"""State of the GPU while it is measured: clocks, temperature, power, energy and the reasons for throttling.

Through NVML (package nvidia-ml-py), which nvidia-smi uses itself; without it everything reads as None. Nothing is set,
only read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["Telemetry", "slowed"]

_SLOWED: Final = 0x8 | 0x20 | 0x40 | 0x80 | 0x4
"""Throttle reasons that make a latency depend on the machine's state: hardware slowdown, thermal (software, hardware),
power brake, software power cap."""


class Telemetry:
    """Reads one GPU; never raises, because a container may hide any of these.

    Parameters
    ----------
    device : "cuda" or "cpu"; there is nothing to read of the latter.
    uuid : of the GPU as torch names it, without the prefix; NVML counts GPUs that CUDA_VISIBLE_DEVICES hides.
    """

    def __init__(self, device: str, uuid: str = "") -> None:
        self._nvml: Any = None
        self._handle: Any = None
        if device != "cuda":
            return
        with contextlib.suppress(Exception):
            import pynvml  # type: ignore[import-not-found]

            pynvml.nvmlInit()
            self._handle = _handle(pynvml, uuid)
            self._nvml = pynvml

    def driver(self) -> str:
        """Version of the driver; empty if it cannot be read."""
        found = self._read(lambda nvml, _: nvml.nvmlSystemGetDriverVersion())
        return found.decode() if isinstance(found, bytes) else str(found or "")

    def energy_j(self) -> float | None:
        """Energy used since the driver was loaded, joules."""
        found = self._read(lambda nvml, handle: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        return None if found is None else float(found) / 1e3

    def power_w(self) -> float | None:
        """Power now (or averaged over the last second, depending on the GPU), watts."""
        found = self._read(lambda nvml, handle: nvml.nvmlDeviceGetPowerUsage(handle))
        return None if found is None else float(found) / 1e3

    def state(self) -> dict[str, float | int | None]:
        """Clocks in MHz, temperature in degrees Celsius, power in watts, bits of the throttle reasons."""
        read = self._read
        return {
            "sm_mhz": read(lambda nvml, h: nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_SM)),
            "memory_mhz": read(lambda nvml, h: nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_MEM)),
            "sm_max_mhz": read(lambda nvml, h: nvml.nvmlDeviceGetMaxClockInfo(h, nvml.NVML_CLOCK_SM)),
            "celsius": read(lambda nvml, h: nvml.nvmlDeviceGetTemperature(h, nvml.NVML_TEMPERATURE_GPU)),
            "throttle": read(_throttle_reasons),
            "power_limit_w": _thousandth(read(lambda nvml, h: nvml.nvmlDeviceGetEnforcedPowerLimit(h))),
            "watts": self.power_w(),
        }

    def _read(self, function: Callable[[Any, Any], Any]) -> Any:
        if self._nvml is None:
            return None
        try:
            return function(self._nvml, self._handle)
        except Exception:  # NVMLError of any kind, or a function that this version lacks: it reads as unknown
            return None


def slowed(state: Mapping[str, float | int | None]) -> bool:
    """Whether the GPU was throttled in a way that makes times longer; unknown counts as not."""
    return bool(int(state["throttle"] or 0) & _SLOWED)


def _thousandth(value: Any) -> float | None:
    return None if value is None else float(value) / 1e3


def _throttle_reasons(nvml: Any, handle: Any) -> Any:
    renamed = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    return (renamed or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(handle)


def _handle(nvml: Any, uuid: str) -> Any:
    if uuid:
        with contextlib.suppress(Exception):
            return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    return nvml.nvmlDeviceGetHandleByIndex(0)
