"""Tests that run on CPU, with padded passes as plain calls, and with the mark gpu on a GPU, where they are captured."""

import pytest
import torch

from calibrate.engines.torch.cuda.devices import opened_device


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU and a torch that is built for CUDA")
    return opened_device(request.param)
