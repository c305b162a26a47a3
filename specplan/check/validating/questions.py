"""Inputs of a validation: configurations, models and fresh questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrate.measuring.plan import MeasurableModels
from calibrate.models.asking import bundled_problems, bundled_truth
from calibrate.models.recorded import models_of
from calibrate.models.servers import RemoteModels
from calibrate.record.profile import Profile
from calibrate.running.problem import Problem, Truth, read_prompts
from sim.catalogue import choice
from sim.configuration import METHOD_NAMES, TOKEN_METHOD_NAMES, Configuration, parse_knobs
from specplan.calibrating import warn_of_clear_key
from theory.errors import ParameterError

__all__ = ["Questions", "configurations_of", "named", "to_ask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Fresh questions, with their source and ground truth."""

    problems: Sequence[Problem]
    source: str
    """Source, for the record."""
    truth: Truth | None


def to_ask(
    profile: Profile, answers: int, prompts: Path | None, seed: int, servers: Mapping[str, str]
) -> tuple[MeasurableModels, Questions]:
    """Return the models of a profile, and ``answers`` fresh questions for them; warn of an API key sent in clear.

    Parameters
    ----------
    servers : new address by the address in the profile, for servers that moved.

    Raises
    ------
    ParameterError : a profile without models, an unknown server, too few answers, or no questions for these models.
    """
    if profile.source != "measured":
        raise ParameterError("profile", profile.name, "must be a measured one: a published one has no models to run")
    if answers < 2:
        raise ParameterError("answers", answers, "must be an integer >= 2")
    models = models_of(dict(profile.settings))
    if servers:
        if not isinstance(models, RemoteModels):
            raise ParameterError("server", next(iter(servers)), "is for models on servers: this profile has none")
        models = models.at(servers)
    warn_of_clear_key(models)
    if prompts is not None:
        return models, Questions(problems=read_prompts(prompts, answers), source=str(prompts), truth=None)
    if not models.is_bundled:
        raise ParameterError("prompts", None, "must name a JSONL file of fresh questions for these models")
    return models, Questions(
        problems=bundled_problems(answers, seed, "validation"),
        source=f"bundled task, fresh questions of seed {seed}",
        truth=bundled_truth(),
    )


def named(configurations: str | Configuration | Sequence[str | Configuration]) -> list[Configuration]:
    """Return configurations, some of them by their names, each once."""
    several = [configurations] if isinstance(configurations, (str, Configuration)) else configurations
    parsed = [Configuration.parse(one) if isinstance(one, str) else one for one in several]
    return list({one.name: one for one in parsed}.values())


def configurations_of(
    method: str,
    settings: tuple[str, ...],
    k1_list: list[int],
    k2_list: list[int],
    *,
    rules: str = "paper",
    token: str | None = None,
    token_settings: tuple[str, ...] = (),
) -> list[Configuration]:
    """Return each given method with each given window and depth, or with its defaults; below steps with a token level.

    Raises
    ------
    ParameterError : an unknown method, or settings without a single method that they are of.
    """
    below: dict[str, Any] = {}
    if token is not None:
        token = choice("token", token, TOKEN_METHOD_NAMES)
        below = {"token": token, "token_knobs": parse_knobs(token, token_settings)}
    elif token_settings and any(name.strip() not in TOKEN_METHOD_NAMES for name in method.split(",")):
        raise ParameterError("token-set", token_settings, "needs --token")
    names = [choice("method", name.strip(), METHOD_NAMES) for name in method.split(",")]
    if settings and len(names) > 1:
        raise ParameterError("set", settings, "needs a single method")
    configurations = []
    for name in names:
        knobs = parse_knobs(name, settings)
        schedule = None if "rules" in knobs else rules
        windows: list[int | None] = [*dict.fromkeys(k1_list)] or [None]  # None: the method's default
        depths: list[int | None] = [*dict.fromkeys(k2_list)] or [None]
        under = {} if name in TOKEN_METHOD_NAMES else below
        configurations += [
            Configuration(method=name, k1=k1, k2=k2, rules=schedule, knobs=knobs, **under)
            for k1 in windows
            for k2 in depths
        ]
    return configurations
