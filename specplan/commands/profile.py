"""``specplan profile``: list, show, check, compare and pool profiles, keep their timings, and print their schema."""

from __future__ import annotations

import textwrap
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from specplan.output import SCREEN, progress, table, to_json
from specplan.ranges import CONFIDENCE, InputName, pairs
from specplan.show.saving import Printed, result_options
from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.record.compare import Comparison, Difference
    from calibrate.record.profile import Profile, PublishedValue
    from sim.estimate import Estimate

__all__ = ["command"]


@click.group()
def command() -> None:
    """List, show, check, compare and pool profiles, the measured or published data of models on a machine."""


@command.command("list")
@result_options(verbose=False, output=False)
def list_profiles() -> Printed:
    """List the profiles that come with specplan."""
    from calibrate.record import library as profiles

    known = [_summary(profiles.bundled(name)) for name in profiles.names()]
    rows_of: dict[str, list[list[str]]] = {}
    for item in sorted(known, key=lambda one: one["source"] != "published"):
        heading = f"{item['draft']} drafts for {item['target']} ({item['source']}):"
        if (item["draft"], item["target"]) == ("draft", "target"):  # what servers call them
            heading = f"Models that their servers name draft and target ({item['source']}):"
        rows_of.setdefault(heading, []).append([item["name"], item["alpha1"], item["c1"]])
    blocks = []
    for heading, rows in rows_of.items():
        shown = textwrap.fill(heading, SCREEN, break_on_hyphens=False)
        blocks.append(f"{shown}\n\n{table(['profile', 'alpha1', 'c1'], rows)}")
    below = "alpha1: share of draft steps that are accepted; c1: draft step time / target step time. ± half-width."
    text = "\n\n".join([*blocks, textwrap.fill(below, SCREEN)])
    return text, {"schema": "specplan.profiles", "schema_version": 1, "profiles": known}, 0


@command.command()
@click.argument("profile", type=InputName())
@result_options(verbose=False)
def show(profile: str) -> str:
    """Show the profile PROFILE, a name or a file."""
    from calibrate.record.library import load

    loaded = load(profile)
    as_json = click.get_current_context().params["as_json"]
    return loaded.to_json().rstrip() if as_json else _described(loaded)


@command.command()
@click.argument("files", type=InputName(), nargs=-1, required=True)
@result_options(verbose=False, output=False)
def check(files: tuple[str, ...]) -> str:
    """Check that each of FILES (names or files) is a valid profile."""
    from calibrate.record.library import load

    loaded = [load(file) for file in files]
    if click.get_current_context().params["as_json"]:
        valid = [{**_summary(p), "valid": True} for p in loaded]
        return to_json({"schema": "specplan.profile-check", "schema_version": 1, "profiles": valid})
    lines = []
    for file, p in zip(files, loaded, strict=True):
        name = "" if p.name == file else f" {p.name!r}"
        lines.append(f"{file}: valid profile{name} (schema version {p.schema_version}, {p.source})")
    return "\n".join(lines)


@command.command()
@result_options(verbose=False, json=False)
def schema() -> str:
    """Print the JSON schema of profile files."""
    from calibrate.record.profile import Profile

    return to_json(Profile.model_json_schema())


@command.command()
@click.argument("first", type=InputName())
@click.argument("second", type=InputName())
@click.option("--confidence", type=CONFIDENCE, default=0.95, help="1 minus the error rate of all tests together.")
@click.option("--plan/--no-plan", "with_plan", default=True, help="Compare planned speedups too.")
@click.option("--all", "show_all", is_flag=True, help="Also list differences within noise.")
@click.option("--exit-code", is_flag=True, help="Exit with status 1 if a measured difference exceeds noise.")
@result_options(verbose=False)
def diff(first: str, second: str, confidence: float, with_plan: bool, show_all: bool, exit_code: bool) -> Printed:
    """Compare the profiles FIRST and SECOND (names or files): different settings, and differences beyond noise.

    All tests of a comparison share an error rate (Holm): without any true difference, the probability of reporting any
    is at most 5 % (--confidence).
    """
    from calibrate.record.compare import compare
    from calibrate.record.library import load

    one, two = load(first), load(second)
    speedups = _planned_speedups(one, two) if with_plan else {}
    comparison = compare(one, two, speedups=speedups, confidence=confidence)
    plain = {"schema": "specplan.profile-diff", "schema_version": 1, **asdict(comparison)}
    return _comparison_text(comparison, show_all=show_all), plain, int(exit_code and bool(comparison.real))


_SAME_MODELS: Final = 0.01
"""p-value below which a difference in acceptance means that the models differ."""


@command.command()
@click.argument("profile", type=InputName())
@click.argument("others", type=InputName(), nargs=-1, required=True)
@result_options(verbose=False, json=False)
def pool(profile: str, others: tuple[str, ...]) -> str:
    """Add to PROFILE the answers of the same models from the profiles OTHERS; print the profile, or write it.

    Answers do not depend on the engine, and more answers narrow the intervals of step lengths and acceptance. Timings
    stay those of PROFILE. Measure OTHERS with another --seed, so that the questions differ.
    """
    from calibrate.record.compare import compare_acceptance
    from calibrate.record.library import load

    one, more = load(profile), [load(other) for other in others]
    pooled = one.with_answers_of(more)
    for other in more:
        comparison = compare_acceptance(one, other)
        if comparison is not None and comparison.p < _SAME_MODELS:
            rule = f"accepts {comparison.second:.1%} of drafts, {one.name} {comparison.first:.1%}"
            raise ParameterError("others", other.name, f"{rule} (p = {comparison.p:.1g})")
    return pooled.to_json().rstrip()


@command.command()
@click.argument("profile", type=InputName())
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="ROLE=NAME",
    help="The model whose timings those of a role are to count as, e.g. target=Qwen3-32B; repeatable.",
)
@result_options(verbose=False, json=False)
def latency(profile: str, models: tuple[str, ...]) -> str:
    """Keep only the timings of PROFILE, for plans with the acceptance of other profiles (plan --latency).

    A widened pair (specplan pair widen) takes as long as the models whose shapes it has: --model gives their names.
    """
    from calibrate.record.library import load

    names = pairs("model", models, "must be ROLE=NAME, e.g. target=Qwen3-32B")
    return load(profile).timings(names).to_json().rstrip()


def _planned_speedups(one: Profile, two: Profile) -> dict[str, tuple[Estimate, Estimate]]:
    """Speedups of either profile's planned configuration, predicted with both; empty if a profile has no answers."""
    from specplan.planning.planned_speedup import planned
    from specplan.planning.predict import Predictor

    if not (one.answers and two.answers):
        return {}
    predictors = Predictor(one), Predictor(two)
    speedups = {}
    with progress("comparing plans", 4) as step_done:
        configurations = []
        for profile in (one, two):
            configurations.append(planned(profile))
            step_done()
        for place, configuration in enumerate(configurations):
            if configuration not in configurations[:place]:
                with suppress(ParameterError):  # a profile lacks the verifier or the token-level method
                    first, second = (predictor.predict(configuration).speedup for predictor in predictors)
                    speedups[configuration.name] = (first, second)
            step_done()
    return speedups


def _comparison_text(comparison: Comparison, *, show_all: bool) -> str:
    lines = [f"{comparison.first} -> {comparison.second}"]
    if comparison.settings:
        rows = [[one.name, one.first, one.second] for one in comparison.settings]
        lines += ["", "different settings:", table(["name", "first", "second"], rows)]
    shown = comparison.differences if show_all else comparison.real
    if shown:
        headings = ["quantity", "first", "second", "change", "interval", "n", "p (Holm)", ""]
        lines += ["", table(headings, [_difference_row(one) for one in shown])]
    lines += [f"not compared: {text}" for text in comparison.not_compared if show_all]
    n, rate = len(comparison.differences), 1.0 - comparison.confidence
    differing = f"{len(comparison.real)} of {n} measured quantities differ by more than noise"
    return "\n".join([*lines, "", f"{differing} (error rate {rate:.3g})"])


def _difference_row(one: Difference) -> list[str]:
    if one.kind == "ratio":
        change, interval = f"x {one.change:.3f}", f"[{one.low:.3f}, {one.high:.3f}]"
    else:
        change, interval = f"{one.change:+.3f}", f"[{one.low:+.3f}, {one.high:+.3f}]"
    verdict = "differs" if one.real else "within noise"
    counts = " and ".join(map(str, one.n))
    values = [f"{one.first:.4g}", f"{one.second:.4g}"]
    return [one.quantity, *values, change, interval, counts, f"{one.adjusted_p:.2g}", verdict]


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
    if profile.source == "latency":  # the ratio of fitted iteration times with one sequence, without cached tokens
        from calibrate.costs.fit import fit_cost

        engines = (profile.engines[profile.placement[role]] for role in ("draft", "target"))
        draft_s, base = (fit_cost(engine).cost.iteration(1, 0.0) for engine in engines)
        return f"{draft_s / base:.3f}" if base > 0.0 else "-"
    pairs = [(step.draft.seconds, step.target.seconds) for answer in profile.answers for step in answer.steps]
    target = sum(seconds for _, seconds in pairs)
    return f"{sum(seconds for seconds, _ in pairs) / target:.3f}" if target > 0.0 else "-"


def _described(profile: Profile) -> str:
    origin = profile.provenance
    lines = [text for text in (origin.citation, *origin.notes) if text]
    lines += [f"{role}: {model.name}" for role, model in sorted(profile.models.items())]
    machine = [origin.engine, origin.engine_version, origin.device, origin.cpu, origin.os]
    lines.append("machine: " + (", ".join(part for part in machine if part) or "not stated"))
    if profile.settings:
        lines.append("settings: " + ", ".join(f"{key}={value}" for key, value in sorted(profile.settings.items())))
    lines = [textwrap.fill(line, SCREEN, initial_indent="  ", subsequent_indent="    ") for line in lines]
    lines.insert(0, f"{profile.name} ({profile.source}, {origin.created})")
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
    return table(["quantity", "value", "", "source"], rows, width=SCREEN)


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
        texts = f" and {len(profile.texts)} texts" if profile.texts else ""
        answers = f"{len(profile.answers)} answers{texts}, {n_steps} timed steps"
        head = f"{answers}; accepted {summary['alpha1']}, c1 {summary['c1']}"
    return head + "\n\n" + table(["engine", "roles", "device", "decode samples", "prefill samples"], rows, width=SCREEN)
