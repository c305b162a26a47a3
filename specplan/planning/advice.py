"""A configuration as something to paste: vLLM's flags and speculative config, and the step-level client's settings.

Conventions, since two countings meet here: k2 is tokens per target pass, of which k2 - 1 are drafted, so that vLLM's
``num_speculative_tokens`` is k2 - 1. k1 counts target steps in flight; each is a request of its own, so that it goes
into ``--max-num-seqs`` of the target's server, not into the speculative config.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calibrate.engines.token_vocabulary import OF_CATALOGUE, OF_VLLM, Terms, parsed_settings
from calibrate.token_acceptance.measured import best_ngram, dynamic_stats_of
from sim.roles import DRAFT, JUDGE, TARGET
from specplan.worlds.known_models import base_name
from specplan.worlds.running.settings import step_client

if TYPE_CHECKING:
    from calibrate.record.profile import ModelRecord, Profile
    from calibrate.token_acceptance.schedule import Schedule
    from sim.configuration import Configuration

__all__ = ["Advice", "Server", "advise", "batch_schedule"]

_PORTS: Final = {"target": 8000, "draft": 8001, "judge": 8002}
_ON: Final = re.compile(r"(target|draft|judge) on (\d)\b")
"""In what a published profile says of its machine: ``target on 2, draft on 1``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One model server."""

    role: str
    model: str
    speculative_config: dict[str, Any] | None
    max_num_seqs: int
    """Sequences in flight at most, for one answer at a time."""
    port: int
    gpus: range = range(0)
    """GPUs of its own, as published; empty: not known."""

    @property
    def command(self) -> str:
        """The command line, quoted for a POSIX shell."""
        parts = ["vllm", "serve", self.model, "--port", str(self.port), "--enable-prefix-caching"]
        parts += ["--max-num-seqs", str(self.max_num_seqs)]
        if len(self.gpus) > 1:
            parts += ["--tensor-parallel-size", str(len(self.gpus))]
        if self.speculative_config is not None:
            parts += ["--speculative-config", json.dumps(self.speculative_config)]
        visible = f"CUDA_VISIBLE_DEVICES={','.join(map(str, self.gpus))} " if self.gpus else ""
        return visible + shlex.join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The servers to start, and the settings of the client."""

    servers: tuple[Server, ...]
    client: dict[str, Any] | None
    """Settings of the step-level client; None where no steps are speculated."""
    notes: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """The advice as plain data."""
        names = ("role", "model", "command", "speculative_config", "max_num_seqs", "port")
        servers = [{name: getattr(server, name) for name in names} for server in self.servers]
        return {"servers": servers, "client": self.client, "notes": list(self.notes)}


def batch_schedule(profile: Profile, k2: int) -> tuple[Schedule | None, str]:
    """The best number of speculative tokens for each batch size, and where it comes from or why there is none.

    Parameters
    ----------
    profile : measured, with passes over several tokens timed at two batch sizes or more.
    k2 : tokens per target pass at most; the table has none above k2 - 1.
    """
    missing = "num_speculative_tokens_per_batch_size: not computed, because"
    if best_ngram(profile) is None:
        return None, f"{missing} acceptance per position is not known"
    stats = dynamic_stats_of(profile)
    if stats is None or len(stats.pass_ms) < 2:
        return None, (f"{missing} passes over several tokens per sequence were not measured at two batch sizes or more")
    schedule = stats.limited(k2 - 1).schedule()
    sizes = ", ".join(str(size) for size in sorted(stats.pass_ms))
    note = (
        f"num_speculative_tokens_per_batch_size: most tokens per second at the measured batch sizes {sizes}; vLLM "
        "documents it as tested with EAGLE and DFlash drafters, and it does not work with data parallelism"
    )
    return schedule, note


def advise(profile: Profile, configuration: Configuration) -> Advice:
    """How to run a configuration with the models of a profile."""
    steps = configuration.spec.drafts_steps
    config, notes = _token_level(profile, configuration)
    spec = configuration.spec  # candidates are scored side by side, by the target, whoever wrote them
    candidates = spec.drafts_seen(**configuration.knobs) if spec.level == "beam" else 0
    servers = [_server(profile, "target", config, max(configuration.most_sequences, candidates))]
    if steps and DRAFT in configuration.spec.roles:
        also = config if profile.published is not None and config and config["method"] == "ngram" else None
        servers.append(_server(profile, "draft", also, max(configuration.width, candidates)))
        if _own_judge(profile, configuration):
            servers.append(_server(profile, "judge", None, configuration.most_sequences))
        if also is not None:
            notes.append("the draft decodes with the same n-gram lookup, as in the released code of LR")
        notes.append(
            f"k1 = {configuration.k1}: each target step in flight is a request of its own; --max-num-seqs is for one "
            "answer at a time, multiply it by the answers served at once"
        )
    if _is_unknown(profile.models["target"]) and any("/" not in server.model for server in servers):
        notes.append("model names are those of the profile: put the path or the hub's name in their place")
    elif profile.models["target"].location == "bundled":
        where = "python -c 'import calibrate, pathlib; print(pathlib.Path(calibrate.__file__).parents[1])'"
        notes.append(f"paths of the bundled models are relative to the folder that this prints: {where}")
    client = _client(profile, configuration) if steps else None
    return Advice(servers=tuple(servers), client=client, notes=tuple(notes))


def _token_level(profile: Profile, configuration: Configuration) -> tuple[dict[str, Any] | None, list[str]]:
    k2 = configuration.k2
    if k2 < 2:
        return None, []
    terms = OF_CATALOGUE.get(configuration.token or "")
    if terms is None:
        return None, [f"vLLM does not offer {configuration.token}: the command decodes plainly"]
    if not terms.vllm:
        return None, [f"vLLM has no {configuration.token}: the server decodes plainly; our torch engine runs it"]
    notes = [f"k2 = {k2} tokens per target pass, so num_speculative_tokens = k2 - 1 = {k2 - 1}"]
    if terms.needs:
        method, weights = _drafter(profile, terms)
        return OF_VLLM[method].vllm_configuration(k2, model=weights), notes
    schedule, note = batch_schedule(profile, k2)
    record = best_ngram(profile, k2 - 1)
    longest = int(configuration.token_knobs.get("max_ngram") or (record.max_ngram if record else 0))
    longest = longest or int(profile.settings.get("max_ngram", 2))
    notes.append(note)
    config = terms.vllm_configuration(k2, max_ngram=longest)
    by_batch = {} if schedule is None else {"num_speculative_tokens_per_batch_size": schedule.plain()}
    return config | by_batch, notes


def _in_installation(path: Path) -> str:
    """The path of a bundled model, relative to the folder that holds the installed packages."""
    import calibrate

    return path.relative_to(Path(calibrate.__file__).parents[1]).as_posix()


def _model(profile: Profile, role: str) -> str:
    """What to serve: the recorded folder (bundled models' in the installation); of a measured server the name."""
    record = profile.models.get(role)
    if record is None:
        return f"<{role} model>"
    if record.location == "bundled":
        from calibrate import pair

        own = next((known for known in (TARGET, DRAFT) if profile.models.get(known) == record), role)
        return _in_installation(pair.model_path(own))
    return base_name(record.name) if _is_unknown(record) else record.location


def _is_unknown(record: ModelRecord) -> bool:
    """Whether the place of the weights is unknown: of a measured server only the address is recorded."""
    return not record.location or "://" in record.location


def _drafter(profile: Profile, terms: Terms) -> tuple[str, str]:
    """What drafts tokens, as it was measured: vLLM's name of the method, and the weights' folder."""
    for config in parsed_settings(str(profile.settings.get("speculative", ""))):
        measured = OF_VLLM.get(str(config.get("method")))
        if measured is not None and measured.catalogue == terms.catalogue and config.get("model"):
            return measured.vllm, str(config["model"])
    if terms.vllm != "eagle":
        return terms.vllm, _model(profile, DRAFT)
    if "eagle" in profile.settings:
        return terms.vllm, str(profile.settings["eagle"])
    if profile.models["target"].location != "bundled":
        return terms.vllm, "<EAGLE head>"
    from calibrate import pair

    return terms.vllm, _in_installation(pair.head_path())


def _server(profile: Profile, role: str, config: dict[str, Any] | None, sequences: int) -> Server:
    gpus, first = range(0), 0
    for named, count in _ON.findall(profile.provenance.device) if profile.published is not None else ():
        gpus = range(first, first + int(count)) if named == role else gpus  # in a row
        first += int(count)
    return Server(
        gpus=gpus,
        role=role,
        model=_model(profile, role),
        speculative_config=config,
        max_num_seqs=sequences,
        port=_PORTS[role],
    )


def _client(profile: Profile, configuration: Configuration) -> dict[str, Any]:
    settings = profile.settings
    limit = settings.get("max_step_tokens", settings.get("step_token_limit", 100))
    client = step_client(configuration, limit, target=_PORTS["target"], draft=_PORTS["draft"])
    if JUDGE in configuration.spec.roles:
        client.setdefault("threshold", settings.get("judge_threshold", 0.5))
        judge = _PORTS["judge" if _own_judge(profile, configuration) else "target"]
        client["judge"] = f"http://127.0.0.1:{judge}/v1"
    return client | {name: settings[name] for name in ("temperature", "top_p") if name in settings}


def _own_judge(profile: Profile, configuration: Configuration) -> bool:
    """Whether the method needs a judge, and that is a model of its own."""
    models = profile.models
    return JUDGE in configuration.spec.roles and JUDGE in models and models[JUDGE] != models[TARGET]
