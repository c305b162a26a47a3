"""What GPUs say of themselves, by a stand-in for NVML with its names and units."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from calibrate.engines.torch.cuda.telemetry import GpuState, gpu_notes, gpu_states

CARDS = {"0": "GPU-a", "1": "GPU-b"}


def nvml(**changed: Any) -> SimpleNamespace:
    """NVML of two cards; energy in mJ and power in mW, as it gives them."""

    def by_uuid(uuid: str) -> str:
        return next(number for number, own in CARDS.items() if own == uuid)

    known: dict[str, Any] = {
        "NVML_CLOCK_SM": 1,
        "NVML_TEMPERATURE_GPU": 0,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByIndex": lambda number: [*CARDS][number],
        "nvmlDeviceGetHandleByUUID": by_uuid,
        "nvmlDeviceGetName": lambda card: f"card {card}".encode(),
        "nvmlDeviceGetClockInfo": lambda _card, _clock: 1890,
        "nvmlDeviceGetMaxClockInfo": lambda _card, _clock: 1980,
        "nvmlDeviceGetTemperature": lambda _card, _sensor: 49,
        "nvmlDeviceGetPowerUsage": lambda _card: 520_000,
        "nvmlDeviceGetTotalEnergyConsumption": lambda _card: 4_000_000,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda _card: 0x4,
    }
    return SimpleNamespace(**(known | changed))


def test_the_named_devices_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpu_states(["cpu"]) == []
    assert gpu_states(["cuda:1", "cuda:1"]) == [GpuState("card 1", 1890.0, 1980.0, 49.0, 520.0, 4000.0, 0x4)]
    assert [state.name for state in gpu_states(["cuda", "cuda:1"])] == ["card 0", "card 1"]
    for visible, name in (("1", "card 1"), ("GPU-b,0", "card 1"), ("0", "card 0")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert [state.name for state in gpu_states(["cuda:0"])] == [name]
    assert gpu_states(["cuda:3"]) == []  # hidden from this process


def test_what_a_gpu_does_not_say_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> int:
        raise RuntimeError("Not Supported")

    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlDeviceGetPowerUsage=refused))
    (state,) = gpu_states(["cuda"])
    assert state.watts != state.watts
    assert state.celsius == 49.0
    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlInit=refused))
    assert gpu_states(["cuda"]) == []
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed
    assert gpu_states(["cuda"]) == []


def test_notes_say_what_clocks_and_energy_did() -> None:
    before = GpuState("H200", 1980.0, 1980.0, 36.0, 180.0, 1000.0, 0)
    after = before._replace(sm_mhz=1890.0, celsius=49.0, energy_j=121_000.0, reasons=0x20)
    said, warning = gpu_notes([[before], [after], [after]])
    assert said == "H200: 1890 to 1980 of 1980 MHz, 36 to 49 °C, 120.0 kJ between the first and the last answer"
    assert warning == "warning: H200 was slowed down at 2 of 3 answers"
    assert gpu_notes([[before._replace(reasons=0x1)]])[1:] == []  # idle
    assert gpu_notes([[], []]) == gpu_notes([]) == []
