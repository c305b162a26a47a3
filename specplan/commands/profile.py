"""``specplan profile``: list, show and check profiles, and print their schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from specplan.output import check_output, deliver, json_option, output_options, table, to_json

if TYPE_CHECKING:
    from calibrate.profile import Profile, PublishedValue

__all__ = ["command"]


@click.group()
def command() -> None:
    """List, show and check profiles: what is known about a set of models on a machine."""


@command.command("list")
@json_option
def list_profiles(as_json: bool) -> None:
    """List the profiles that come with specplan."""
    from calibrate import profiles

    known = [_summary(profiles.bundled(name)) for name in profiles.names()]
    if as_json:
        deliver(to_json(known), None)
        return
    rows = [[item[key] for key in ("name", "source", "target", "draft", "alpha1", "c1")] for item in known]
    deliver(table(["profile", "source", "target", "draft", "alpha1", "c1"], rows), None)


@command.command()
@click.argument("profile")
@json_option
@output_options
def show(profile: str, as_json: bool, output: Path | None, force: bool) -> None:
    """Show the profile PROFILE, a name or a file."""
    from calibrate.profiles import load

    check_output(output, force=force)
    found = load(profile)
    deliver(found.to_json().rstrip() if as_json else _described(found), output)


@command.command()
@click.argument("files", nargs=-1, required=True)
@json_option
def check(files: tuple[str, ...], as_json: bool) -> None:
    """Check that each of FILES (names or files) is a valid profile."""
    from calibrate.profiles import load

    found = [load(file) for file in files]
    if as_json:
        deliver(to_json([{**_summary(p), "valid": True} for p in found]), None)
        return
    for file, p in zip(files, found, strict=True):
        deliver(f"{file}: valid profile {p.name!r} (schema version {p.schema_version}, {p.source})", None)


@command.command()
@output_options
def schema(output: Path | None, force: bool) -> None:
    """Print the JSON schema of profile files."""
    from calibrate.profile import Profile

    check_output(output, force=force)
    deliver(to_json(Profile.model_json_schema()), output)


def _summary(profile: Profile) -> dict[str, str]:
    public = profile.published
    steps = [step for answer in profile.answers for step in answer.steps]
    accepted = sum(step.verdict.accepted for step in steps)
    drawn = f"{accepted / len(steps):.3f}" if steps else "-"
    return {
        "name": profile.name,
        "source": profile.source,
        "target": profile.models["target"].name if "target" in profile.models else "-",
        "draft": profile.models["draft"].name if "draft" in profile.models else "-",
        "alpha1": _figure(public.alpha1) if public else drawn,
        "c1": _figure(public.c1) if public else _time_ratio(profile),
    }


def _figure(number: PublishedValue) -> str:
    return f"{number.value:g} ± {number.half_width:g}"


def _time_ratio(profile: Profile) -> str:
    if profile.source == "latency":
        return _iteration_ratio(profile)
    pairs = [(step.draft.seconds, step.target.seconds) for answer in profile.answers for step in answer.steps]
    target = sum(seconds for _, seconds in pairs)
    return f"{sum(seconds for seconds, _ in pairs) / target:.3f}" if target > 0.0 else "-"


def _iteration_ratio(profile: Profile) -> str:
    """c1 of timings alone: the fitted iteration times of one sequence, without cached tokens."""
    from calibrate.fit import fit_cost

    draft, target = (fit_cost(profile.engines[profile.placement[role]]).cost for role in ("draft", "target"))
    base = target.iteration(1, 0.0)
    return f"{draft.iteration(1, 0.0) / base:.3f}" if base > 0.0 else "-"


def _described(profile: Profile) -> str:
    origin = profile.provenance
    lines = [f"{profile.name} ({profile.source}, {origin.created})"]
    lines += [f"  {text}" for text in (origin.citation, *origin.notes) if text]
    lines += [f"  {role}: {model.name}" for role, model in sorted(profile.models.items())]
    machine = [origin.engine, origin.engine_version, origin.device, origin.cpu, origin.os]
    lines.append("  machine: " + (", ".join(part for part in machine if part) or "not stated"))
    if profile.settings:
        lines.append("  settings: " + ", ".join(f"{key}={value}" for key, value in sorted(profile.settings.items())))
    lines.append("")
    lines.append(_published_table(profile) if profile.published else _measured_table(profile))
    return "\n".join(lines)


def _published_table(profile: Profile) -> str:
    rows = []
    for key, value in profile.published or ():
        if value is None:
            continue
        if isinstance(value, int):
            rows.append([key, str(value), "", ""])
        else:
            rows.append([key, f"{value.value:g}", f"± {value.half_width:g}", value.source])
    return table(["quantity", "value", "", "source"], rows)


def _measured_table(profile: Profile) -> str:
    rows = []
    for name, engine in sorted(profile.engines.items()):
        roles = ", ".join(role for role, where in sorted(profile.placement.items()) if where == name)
        rows.append([name, roles, engine.device, str(len(engine.decode)), str(len(engine.prefill))])
    summary = _summary(profile)
    n_steps = sum(len(answer.steps) for answer in profile.answers)
    if profile.source == "latency":
        head = f"timings only, c1 {summary['c1']} (iteration of one sequence, draft / target)"
    else:
        head = f"{len(profile.answers)} answers, {n_steps} steps; accepted {summary['alpha1']}, c1 {summary['c1']}"
    return head + "\n\n" + table(["engine", "roles", "device", "decode samples", "prefill samples"], rows)
