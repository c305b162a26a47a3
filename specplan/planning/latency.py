"""Which timings a plan rests on: those measured for the same models on the wanted GPU, where there are any.

Acceptance belongs to a pair of models and a task, timings to models and a GPU; the two are measured apart. A latency
profile is taken by itself only if it can be no other: its models are those of the plan, its GPU the requested one, and
no second one fits as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from calibrate.record.library import FOLDER_VARIABLE, latencies, load
from calibrate.record.profile import ModelRecord, Profile
from sim.roles import DRAFT, TARGET
from theory.errors import ParameterError

__all__ = ["AUTO", "NONE", "Timed", "difference", "on_device", "timed"]

AUTO: Final = "auto"
NONE: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A profile on the timings that it is to be planned with."""

    profile: Profile
    latency: str | None = None
    """Name of the latency profile; None if the profile keeps its own timings."""
    device: str = ""
    why: str = ""
    notes: tuple[str, ...] = ()

    def plain(self) -> dict[str, str | list[str] | None]:
        """The choice as plain data."""
        return {"profile": self.latency, "device": self.device, "why": self.why, "notes": list(self.notes)}

    def lines(self) -> list[str]:
        """The choice for a reader."""
        said = (
            [] if self.latency is None else [f"timings of latency profile {self.latency} ({self.device}): {self.why}"]
        )
        return said + list(self.notes)


def timed(profile: Profile, *, latency: str = AUTO, gpu: str | None = None, folder: Path | None = None) -> Timed:
    """Put a profile on measured timings, if there are any that fit.

    Parameters
    ----------
    latency : ``auto`` looks for one among the installed latency profiles and those of ``folder``; ``none`` keeps the
        profile's own timings; anything else is the name or the file of the one to take.
    gpu : the GPU to plan for; every word of it must be in the device's name. None: any.
    folder : of the user's own profiles, see `calibrate.record.library.latencies`.

    Returns
    -------
    The profile to plan with, and what was chosen why. With ``auto`` a profile that has timings of its own keeps them,
    unless they were not measured on ``gpu``.

    Raises
    ------
    ParameterError : a named latency profile is of other models or another GPU; several fit equally; ``gpu`` is given
        and there are no timings of these models on it.
    SchemaError : a latency profile does not fit the schema.
    """
    if latency == NONE:
        if gpu is not None:
            _own_timings(profile, gpu, {})
        return Timed(profile=profile)
    if latency != AUTO:
        forced = load(latency)
        if gpu is not None and not on_device(forced, gpu):
            raise ParameterError("latency", forced.name, f"was measured on {_device(forced)}, not on gpu={gpu!r}")
        if forced.engines and (reason := difference(profile, forced)) is not None:
            raise ParameterError("latency", forced.name, f"does not fit {profile.name}: {reason}")
        return _on(profile, forced, "named by --latency")
    if profile.engines and (gpu is None or on_device(profile, gpu)):
        return Timed(profile=profile)
    return _matching(profile, gpu, *latencies(folder))


def difference(profile: Profile, latency: Profile) -> str | None:
    """Return in words why a latency profile is not about the models of a profile; None if it is.

    Target and draft must be in both, and no role that both know may differ in name, number of parameters or number
    format (where both have it).

    >>> one = load("lr-qwen3-gsm8k")
    >>> difference(one, one) is None, difference(one, load("lr-deepseek-gsm8k"))
    (True, 'its draft is DeepSeek-R1-Distill-Qwen-1.5B, not Qwen3-1.7B')
    """
    for role in (TARGET, DRAFT):
        for which in (profile, latency):
            if role not in which.models:
                return f"{which.name} names no {role}"
    for role in sorted(profile.models.keys() & latency.models.keys()):
        own, other = profile.models[role], latency.models[role]
        if own.name != other.name:
            return f"its {role} is {other.name}, not {own.name}"
        if _differ(own, other, "n_parameters"):
            return f"its {role} has {other.n_parameters} parameters, not {own.n_parameters}"
        if _differ(own, other, "dtype"):
            return f"its {role} is in {other.dtype}, not in {own.dtype}"
    return None


def _differ(own: ModelRecord, other: ModelRecord, name: str) -> bool:
    values = getattr(own, name), getattr(other, name)
    return all(values) and values[0] != values[1]


def on_device(profile: Profile, gpu: str) -> bool:
    """Whether every word of ``gpu`` is a word of the name of the device that a profile was made on.

    >>> on_device(load("lr-qwen3-gsm8k"), "h100"), on_device(load("lr-qwen3-gsm8k"), "H10")
    (True, False)
    """
    wanted = _words(gpu)
    if not wanted:
        raise ParameterError("gpu", gpu, "must name a GPU, e.g. H200")
    return wanted <= _words(_device(profile))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9.]+", text.lower()))


def _device(profile: Profile) -> str:
    return profile.provenance.device or profile.provenance.cpu


def _matching(profile: Profile, gpu: str | None, known: Mapping[str, Profile], passed_over: list[str]) -> Timed:
    fitting, near = {}, []
    for where, latency in known.items():
        reason = difference(profile, latency)
        if reason is None:
            fitting[where] = latency
        elif _pair(profile) == _pair(latency) and None not in _pair(profile):  # somebody may expect it to be used
            near.append(f"latency profile {where} is not used: {reason}")
    chosen = {where: timings for where, timings in fitting.items() if gpu is None or on_device(timings, gpu)}
    notes = (*near, *(f"passed over {one}" for one in passed_over))
    if len(chosen) > 1:
        listed = "; ".join(f"{where} ({_device(timings)})" for where, timings in chosen.items())
        rule = f"does not decide between {listed}: name one with --latency, or a GPU with --gpu"
        raise ParameterError("latency", AUTO, rule)
    if not chosen:
        if gpu is not None:
            _own_timings(profile, gpu, fitting)
        return Timed(profile=profile, notes=notes)
    ((where, latency),) = chosen.items()
    which = "the only one" if gpu is None else f"the only one on gpu={gpu!r}"
    source = "installed" if where == latency.name else where
    return _on(profile, latency, f"{which} of these models ({source}); --latency none keeps the profile's own", notes)


def _pair(profile: Profile) -> list[str | None]:
    """Names of target and draft."""
    return [profile.models[role].name if role in profile.models else None for role in (TARGET, DRAFT)]


def _own_timings(profile: Profile, gpu: str, fitting: Mapping[str, Profile]) -> None:
    """Refuse a GPU that the profile's own timings are not of."""
    if on_device(profile, gpu):
        return
    there = [_device(profile), *(_device(timings) for timings in fitting.values())]
    models = " and ".join(name for name in _pair(profile) if name is not None)
    rule = (
        f"there are no timings of {models} on it, only on {', '.join(dict.fromkeys(there))}; measure them "
        f"(docs/on-a-gpu.md) and put the profile into the folder that {FOLDER_VARIABLE} names"
    )
    raise ParameterError("gpu", gpu, rule)


def _on(profile: Profile, latency: Profile, why: str, notes: tuple[str, ...] = ()) -> Timed:
    moved = profile.on_engines_of(latency)
    return Timed(profile=moved, latency=latency.name, device=_device(latency), why=why, notes=notes)
