"""The models that a profile was measured on, of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrate.models.local import TorchModels
from calibrate.models.servers import RemoteModels
from calibrate.models.vllm import VllmModels

__all__ = ["models_of"]


def models_of(settings: Mapping[str, Any]) -> TorchModels | VllmModels | RemoteModels:
    """Rebuild the models from a profile's settings.

    Raises
    ------
    SchemaError : the settings name no target or no draft.
    """
    kinds = {kind.backend: kind for kind in (VllmModels, RemoteModels)}
    return kinds.get(settings.get("backend", ""), TorchModels).from_settings(settings)
