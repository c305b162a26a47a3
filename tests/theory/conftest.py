"""Laws are tried on the same examples every time, unless the run has chosen a hypothesis profile of its own."""

from __future__ import annotations

from hypothesis import settings

if settings.get_current_profile_name() == "default":
    settings.register_profile("theory", derandomize=True, deadline=None)
    settings.load_profile("theory")
