"""Devices by name, and their memory, with errors that say what was requested and what would do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from theory.errors import CalibrationError, ParameterError

if TYPE_CHECKING:
    import torch

__all__ = ["check_device", "check_room", "devices_of_roles", "gpu_numbers", "opened_device"]

_NAME: Final = re.compile(r"cpu|cuda(:(0|[1-9]\d{0,3}))?")
_RESERVE: Final = 2 << 30
"""Bytes of a GPU that are left for activations, captured passes and libraries."""


def check_device(name: str) -> None:
    """Refuse a name that is not of a device, before torch is imported.

    Raises
    ------
    ParameterError : it is not ``cpu``, ``cuda`` or ``cuda:N``.
    """
    if not _NAME.fullmatch(name):
        raise ParameterError("device", name, "must be 'cpu', 'cuda' or 'cuda:N'")


def devices_of_roles(names: str) -> tuple[str, str]:
    """Return the devices of the target, and of draft and judge, of one name or two with a comma between them.

    Raises
    ------
    ParameterError : not the names of one or two devices, or the same one twice.

    >>> devices_of_roles("cuda:0,cuda:2")
    ('cuda:0', 'cuda:2')
    """
    devices = names.split(",")
    for name in devices:
        check_device(name)
    if len(devices) > 2:
        rule = "must be one device, or two: the target's, and that of draft and judge, such as cuda:0,cuda:1"
        raise ParameterError("device", names, rule)
    numbers = [name.replace("cuda:", "cuda").removesuffix("cuda") or "cuda0" for name in devices]
    if len(set(numbers)) < len(devices):
        raise ParameterError("device", names, f"names one device twice: write {devices[0]} for all models")
    return devices[0], devices[-1]


def gpu_numbers(name: str, text: str | None) -> tuple[int, ...]:
    """Return the numbers of GPUs that an option has with commas between them; without any, that of the first GPU.

    Raises
    ------
    ParameterError : no numbers, or one of them twice.

    >>> gpu_numbers("target-gpus", "2,0"), gpu_numbers("draft-gpus", None)
    ((2, 0), (0,))
    """
    parts = text.split(",") if text else ["0"]
    if not all(part.strip().isdecimal() for part in parts):
        raise ParameterError(name, text, "must be numbers of GPUs with commas between them, such as 0,1")
    numbers = tuple(map(int, parts))
    if len(set(numbers)) < len(numbers):
        raise ParameterError(name, text, "must name each GPU once")
    return numbers


def opened_device(name: str) -> torch.device:
    """Return a device that this process can use, and make it the current one.

    On GPUs cuDNN's attention is switched off: it plans anew for each number of columns, 35 to 48 ms on an H100.

    Raises
    ------
    CalibrationError : torch is built without CUDA, the driver does not suit it, or there is no such GPU.
    """
    import torch

    if name == "cpu":
        return torch.device("cpu")
    if torch.version.cuda is None:
        problem = f"torch {torch.__version__} is built for CPUs: install one that is built for CUDA"
        raise CalibrationError(f"device={name!r}: {problem}, or use device='cpu'")
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:  # no driver, one that is too old, or no GPU
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CalibrationError(f"device={name!r}: no GPU can be used: {reason}") from None
    count, index = torch.cuda.device_count(), int(name.partition(":")[2] or 0)
    if index >= count:
        there = "none" if count == 0 else ", ".join(f"cuda:{number}" for number in range(count))
        raise CalibrationError(f"device={name!r}: there is no such GPU; there are: {there}")
    torch.cuda.set_device(index)
    torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device("cuda", index)


def check_room(device: torch.device, weights: int, per_token: int, n_sequences: int, n_tokens: int) -> None:
    """Refuse a model and its cache that do not fit into the free memory of a GPU; a CPU is not checked.

    Parameters
    ----------
    weights : bytes of the weights.
    per_token : bytes of the keys and values of a token.
    n_sequences : sequences in the cache.
    n_tokens : tokens of each.

    Raises
    ------
    CalibrationError : with what is needed, what is free, and the length of sequences that would fit.
    """
    if device.type == "cpu":
        return
    import torch

    free, total = torch.cuda.mem_get_info(device)
    per_column = per_token * n_sequences
    cache = per_column * n_tokens
    if weights + cache + _RESERVE <= free:
        return
    fits = (free - _RESERVE - weights) // per_column
    needed = f"{_gb(weights + cache)} are needed ({_gb(weights)} of weights, {_gb(cache)} of keys and values)"
    remedy = "no cache would fit: use another GPU, a smaller model, or end what else uses this one"
    if fits >= 256:
        remedy = f"{n_sequences} sequences of {fits} tokens would fit, not of {n_tokens}: set --max-context so"
        remedy += ", or use another GPU for some models (--device cuda:0,cuda:1)"
    raise CalibrationError(f"device={str(device)!r}: {needed}, {_gb(free)} of {_gb(total)} are free; {remedy}")


def _gb(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB"
