"""GPUs: their names and memory, what is refused and what would do, and their states."""

import sys
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from refusals import refused

from calibrate.engines.torch.cuda.captured import columns_up_to, padded_columns
from calibrate.engines.torch.cuda.devices import check_room, devices_of_roles, opened_device
from calibrate.engines.torch.cuda.telemetry import GpuState, gpu_notes, gpu_states
from calibrate.engines.torch.engine import TorchConfig
from calibrate.models.local import TorchModels
from calibrate.pair import draft_path, target_path
from sim.roles import DRAFT, JUDGE, TARGET
from theory.errors import CalibrationError, ParameterError


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "cuda:01", "cuda:0:1", "cuda:x", "", "CPU", "cuda 0"])
def test_a_name_that_is_none_is_refused_before_torch_is_imported(name):
    with pytest.raises(ParameterError, match=r"device=.* must be 'cpu', 'cuda' or 'cuda:N'"):
        TorchConfig(name="x", model=draft_path(), device=name)


test_devices_of_roles_are_different_ones = refused(
    lambda names: TorchModels(device=names),
    ("cuda:1,cuda:1", "names one device twice: write cuda:1 for all models"),
    ("cuda,cuda:0", "names one device twice"),
    ("cpu,cpu", "names one device twice"),
    ("cuda:0,cuda:1,cuda:2", "must be one device, or two"),
    ("cuda:0,", "must be 'cpu', 'cuda' or 'cuda:N'"),
)


def test_each_role_has_its_device():
    assert devices_of_roles("cuda:12") == ("cuda:12", "cuda:12")
    models = TorchModels(device="cuda:0,cpu")
    placed = {role: models._config(role, "bundled", 1) for role in (TARGET, DRAFT, JUDGE)}
    assert {role: (config.device, config.cores) for role, config in placed.items()} == {
        TARGET: ("cuda:0", None),
        DRAFT: ("cpu", (1,)),
        JUDGE: ("cpu", (1,)),
    }


def in_place(monkeypatch, *, count: int, version: str | None = "13.0", error: Exception | None = None) -> list[object]:
    """Let torch find so many GPUs; return what is set."""
    found: list[object] = []

    def init() -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(torch.version, "cuda", version)
    monkeypatch.setattr(torch.cuda, "init", init)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "set_device", found.append)
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", lambda on: found.append(("cudnn", on)))
    return found


@pytest.mark.parametrize(("name", "index"), [("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)])
def test_a_gpu_is_opened_without_the_attention_of_cudnn(name, index, monkeypatch):
    found = in_place(monkeypatch, count=2)
    assert opened_device(name) == torch.device("cuda", index)
    assert found == [index, ("cudnn", False)]


OLD = RuntimeError("The NVIDIA driver on your system is too old (found version 11040).\nPlease update")


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("cuda", {"count": 0, "version": None}, r"device='cuda': torch .* is built for CPUs: install one"),
        ("cuda", {"count": 0, "error": OLD}, r"device='cuda': no GPU can be used: The NVIDIA driver .* is too old"),
        ("cuda", {"count": 0}, "device='cuda': there is no such GPU; there are: none"),
        ("cuda:2", {"count": 2}, "device='cuda:2': there is no such GPU; there are: cuda:0, cuda:1"),
    ],
)
def test_what_is_wrong_with_a_gpu_is_one_line(name, settings, message, monkeypatch):
    in_place(monkeypatch, **settings)
    with pytest.raises(CalibrationError, match=message) as error:
        opened_device(name)
    assert "\n" not in str(error.value)


def test_memory_that_lacks_is_told_with_what_would_fit(monkeypatch):
    def room(free: int, n_tokens: int) -> None:
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free * 10**9, 80 * 10**9))
        check_room(torch.device("cuda", 0), 16 * 10**9, 147456, 32, n_tokens)

    with pytest.raises(CalibrationError) as error:
        room(30, 4352)
    assert str(error.value) == (
        "device='cuda:0': 36.5 GB are needed (16.0 GB of weights, 20.5 GB of keys and values), 30.0 GB of 80.0 GB are "
        "free; 32 sequences of 2511 tokens would fit, not of 4352: set --max-context so, or use another GPU for some "
        "models (--device cuda:0,cuda:1)"
    )
    with pytest.raises(CalibrationError, match="no cache would fit: use another GPU"):
        room(1, 4352)
    room(30, 2511)
    room(80, 4352)


def test_columns_are_padded_to_steps_that_waste_at_most_a_third():
    for most in (64, 100, 704, 2304, 4352, 33024):
        steps = columns_up_to(most)
        assert list(steps) == sorted(set(steps))
        assert steps[-1] == most
        assert all(step % 64 == 0 for step in steps[:-1])
        assert all(after <= 1.5 * before for before, after in pairwise(steps[2:]))
    assert [padded_columns(n, 700) for n in (1, 64, 65, 700)] == [64, 64, 128, 700]


def test_memory_of_a_folder_is_what_the_loaded_model_takes():
    from calibrate.engines.torch.decoder import Decoder
    from calibrate.engines.torch.job import Limits
    from calibrate.engines.torch.model import load_model, memory_of

    model = load_model(draft_path(), dtype=torch.float16, device=torch.device("cpu"))
    weights, per_token = memory_of(draft_path(), 2)
    assert weights == 2 * sum(weight.numel() for weight in model.parameters())
    cache = Decoder(model, 500).cache(Limits(max_batch=2, n_idle=1, max_context=200))
    assert per_token == cache.bytes_per_token


def test_a_worker_refuses_models_that_do_not_fit_together(monkeypatch):
    """Target and drafting model count, each with its keys and values."""
    from calibrate.engines.torch import worker
    from calibrate.engines.torch.job import Limits
    from calibrate.engines.torch.model import memory_of

    asked = []
    monkeypatch.setattr(worker, "check_room", lambda *sizes: asked.append(sizes))
    limits = Limits(max_batch=3, n_idle=2, max_context=2048)
    worker._check_memory([target_path(), draft_path()], limits, "cuda:0", 2)
    one, other = memory_of(target_path(), 2), memory_of(draft_path(), 2)
    assert asked == [("cuda:0", one[0] + other[0], one[1] + other[1], 5, 2048 + 256)]


# What GPUs say of themselves, by a stand-in for NVML with its names and units.

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
