"""What a model is made of, by its Hugging Face ``config.json`` or by its name.

Only the configuration is read, never weights or code. Architectures that the cost of a pass does not cover are refused
(`specplan.worlds.configs.unmodelled`), unknown ones too: a wrong number is worse than none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from calibrate.record.fields import misfit
from calibrate.record.files import read_text
from calibrate.record.json_text import parse_json
from specplan.worlds.configs.blocks import BlockMethod, BlockSizes, block_config, joined_block, usual_block, usual_sizes
from specplan.worlds.configs.families import FAMILIES, Family
from specplan.worlds.configs.fields import ConfigFields
from specplan.worlds.configs.heads import further_layers_of, joined_assistant, joined_head, usual_head
from specplan.worlds.configs.layers import layer_groups
from specplan.worlds.configs.published_formats import published_precision
from specplan.worlds.configs.unmodelled import why_not
from specplan.worlds.known_models import known_config
from theory.errors import ParameterError, SchemaError
from theory.hardware.formats import Precision
from theory.hardware.shapes import Shape

__all__ = ["ModelFacts", "block_drafter", "draft_head", "exists", "facts_of_config", "shape_of"]

_MOST_BYTES: Final = 4_000_000  # the longest published ones list modules and stay under 1 MB
_WHAT: Final = "a model's config.json"

_RENAMED: Final[Mapping[str, str]] = {
    "MiniMaxM2ForCausalLM": "minimax_m2",  # the first revisions say minimax, which is another architecture
    "DeepseekV4ForCausalLM": "deepseek_v4",  # copies in fp8 say deepseek_ref
    "DeepseekV41ForCausalLM": "deepseek_v41",
    "Gemma4AssistantForCausalLM": "gemma4_assistant",  # its layers, like the target's, say gemma4_text
    "Gemma4UnifiedAssistantForCausalLM": "gemma4_assistant",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What is known about a model before it runs."""

    name: str
    shape: Shape
    precision: Precision
    """Formats of the published weights, and of the cache where they say it."""
    max_context: int | None
    """Tokens that positions reach, scaling included; None: not said."""
    architecture: str
    source: str
    """The file, or ``table of known models``."""
    reads_hidden: int = 0
    """Of a head: size of the target's states that it reads; 0: as the target has them."""
    reads_vocab: int = 0
    """Of a head: tokens of the target's vocabulary; 0: as the target has them."""
    next_token_layers: int = 0
    """Layers published for predicting further tokens (MTP), not counted in the shape."""
    drafting_experts: tuple[int, int] | None = None
    """Routed experts of a block drafter's layers in the checkpoint, and those of a token; None: as in other layers."""
    block: BlockSizes | None = None
    in_target: bool = False
    notes: tuple[str, ...] = ()


def shape_of(name_or_path: str) -> ModelFacts:
    """Return what a model is made of.

    Parameters
    ----------
    name_or_path : a ``config.json``, a folder that holds one, or the name of a well-known model, in any case, with or
        without its organisation.

    Raises
    ------
    ParameterError : neither a file nor a known name; the message suggests the nearest.
    SchemaError : the file cannot be read, is not a configuration, lacks a field, or describes what is not modelled.
    """
    if not name_or_path.strip():
        raise ParameterError("model", name_or_path, "must name a model, a config.json or a folder with one")
    path = Path(name_or_path)
    if exists(path):
        file = path / "config.json" if path.is_dir() else path
        if not exists(file):
            raise ParameterError("model", name_or_path, "is a folder without config.json")
        name = file.resolve().parent.name if file.name == "config.json" else file.stem
        return facts_of_config(_config_in(file), name=name, where=str(file))
    if path.suffix == ".json" or name_or_path.startswith((".", "/", "~")):
        raise ParameterError(
            "model", name_or_path, "must be an existing config.json, a folder with one, or a known name"
        )
    name, config = known_config(name_or_path)
    return replace(facts_of_config(config, name=name, where=name), source="table of known models")


def exists(path: Path) -> bool:
    """Whether there is such a file or folder; a name too long or with a zero byte is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _config_in(file: Path) -> dict[str, Any]:
    """The content of a configuration, with that of the ``hf_quant_config.json`` beside it where it has none."""
    config = _object_in(file)
    beside = file.with_name("hf_quant_config.json")
    if "quantization_config" not in config and file.name == "config.json" and exists(beside):
        config["quantization_config"] = _object_in(beside)
    return config


def _object_in(file: Path) -> dict[str, Any]:
    content = parse_json(read_text(file, _WHAT, most_bytes=_MOST_BYTES), str(file))
    if not isinstance(content, dict):
        raise SchemaError(f"{file}: must hold a JSON object, not a {type(content).__name__}")
    return content


def facts_of_config(config: Mapping[str, Any], *, name: str, where: str) -> ModelFacts:
    """Return what a model is made of, from the content of its ``config.json``.

    Parameters
    ----------
    config : the configuration; of a multimodal model the language part counts.
    where : names the source, also in errors.
    """
    notes: list[str] = []
    text = _language_part(config, notes)
    for part in (config, text):
        named = part.get("architectures")
        if named is not None and not (isinstance(named, list) and all(isinstance(one, str) for one in named)):
            raise SchemaError(f"{where}: architectures: must be a list of names")
        if not isinstance(part.get("model_type", ""), str | None):
            raise SchemaError(f"{where}: model_type: must be a name")
    for architecture in text.get("architectures") or ():
        text["model_type"] = _RENAMED.get(architecture, text.get("model_type"))
    reason = why_not(text) or (why_not(config) if "text_config" in config else None)
    if reason is not None:
        raise SchemaError(f"{where}: {reason}")
    model_type, family = _family(text, where)
    try:
        said = {key: value for key, value in text.items() if value is not None or key in family.defaults}
        if isinstance(blocks := said.get("layers_block_type"), list):
            said.setdefault("num_hidden_layers", len(blocks))
        fields = ConfigFields.model_validate({**family.defaults, **said})
        layers = layer_groups(fields, family)
        precision = published_precision(text, cache=family.cache)
    except ValidationError as error:
        raise misfit(error, where) from None
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from None
    tied = family.tied if fields.tie_word_embeddings is None else fields.tie_word_embeddings
    shape = Shape(
        hidden=fields.hidden_size,
        vocab=fields.vocab_size,
        layers=layers,
        tied=tied,
        norms=family.norms,
        tables=(fields.vocab_size_per_layer_input or 0)
        * fields.num_hidden_layers
        * (fields.hidden_size_per_layer_input or 0),
        streams=fields.hc_mult or 1,
        stream_rank=fields.hc_lowrank or 0,
    )
    if fields.engram_layer_ids:
        notes.append(
            "tables of n-grams (Engram) are taken to stay in the host's memory: not counted, nor is looking them up"
        )
    block = block_config(config, where)
    if block is not None:
        shape = joined_block(shape, _states(config), config.get("draft_vocab_size") or fields.draft_vocab_size)
        notes.append("block drafter: embeddings shared with the target; the joining of states counts as feed-forward")
    elif model_type == "gemma4_assistant":
        shape = joined_assistant(fields, shape)
        notes.append("draft head: it reads the target's cache; the joining of its states counts as feed-forward")
    elif fields.draft_vocab_size is not None:
        shape = joined_head(fields, shape)
        notes.append("draft head: embeddings shared with the target; the joining of its states counts as feed-forward")
    return ModelFacts(
        name=name,
        shape=shape,
        precision=precision,
        max_context=_max_context(fields, family),
        architecture=model_type if block is None else block[0],
        source=where,
        reads_hidden=fields.target_hidden_size or fields.hidden_size,
        reads_vocab=fields.vocab_size,
        next_token_layers=fields.further_layers,
        drafting_experts=fields.drafting_experts,
        block=None if block is None else block[1],
        notes=tuple(notes),
    )


def _states(config: Mapping[str, Any]) -> int:
    """Hidden states of the target that a drafter of blocks joins: 5 where its configuration does not list them."""
    inner = config.get("dflash_config")
    places = (inner if isinstance(inner, dict) else {}, config)
    names = ("target_layer_ids", "aux_hidden_state_layer_ids", "dspark_target_layer_ids")
    listed = [place[name] for place in places for name in names if isinstance(place.get(name), list)]
    return len(listed[0]) if listed and listed[0] else 5


def block_drafter(
    target: ModelFacts, method: BlockMethod, *, name: str = "", sizes: BlockSizes | None = None, further_layers: int = 0
) -> ModelFacts:
    """Return a drafter of blocks of the usual size for a target.

    Parameters
    ----------
    name : of a published one; empty: none yet.
    sizes : of its blocks; None: the usual ones.
    further_layers : layers of the target's checkpoint that are the drafter; 0: it has weights of its own.
    """
    shape = usual_block(target.shape, further_layers=further_layers, experts=target.drafting_experts)
    usual = _usual(target, method, "drafter", shape, in_target=further_layers > 0)
    sized = replace(usual, block=sizes or usual_sizes(method))
    source = f"published; its sizes are not in the table of known models, so those of {usual.source}"
    return replace(sized, name=name, source=source) if name else sized


def draft_head(target: ModelFacts, method: str) -> ModelFacts:
    """Return a draft head of the usual size for a target, where none is named.

    Parameters
    ----------
    method : ``eagle`` or ``eagle3``: one dense layer as wide as the target's, which ``eagle3`` gives a head of 32,000
        tokens; ``mtp``: the target's own layer for further tokens.

    Raises
    ------
    ParameterError : an unknown method, or ``mtp`` of a target that publishes no such layer.
    """
    shape = target.shape
    if method == "mtp":
        if target.next_token_layers < 1:
            raise ParameterError(
                "method", method, f"needs layers for further tokens, which {target.name} does not have"
            )
        family = FAMILIES.get(target.architecture)
        head = further_layers_of(shape, 1, kind="last" if family is None else family.further)
    elif method in ("eagle", "eagle3"):
        head = usual_head(shape, method)
    else:
        raise ParameterError("method", method, "must be one of eagle, eagle3, mtp")
    return _usual(target, method, "head", head, in_target=method == "mtp")


def _usual(target: ModelFacts, method: str, what: str, shape: Shape, *, in_target: bool) -> ModelFacts:
    """A drafter of the usual size: layers of the target's checkpoint, or weights of its own."""
    return ModelFacts(
        name=f"{target.name} ({method} {what})",
        shape=shape,
        precision=target.precision if in_target else Precision(cache=target.precision.cache),
        max_context=target.max_context,
        architecture=method,
        source=f"the usual size for {target.name}",
        in_target=in_target,
        notes=("embeddings shared with the target",),
    )


def _language_part(config: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    inner = config.get("text_config") or config.get("llm_config") or config.get("language_config")
    if isinstance(inner, dict):
        outer = ("quantization_config", "tie_word_embeddings", "architectures", "model_type", "backbone_hidden_size")
        kept = {key: config[key] for key in outer if key in config}
        notes.append("language part only: weights for images and sound are not counted")
        return {**kept, **{key: value for key, value in inner.items() if value is not None}}
    if isinstance(layers := config.get("transformer_layer_config"), dict):  # of speculators' own format
        return {**{key: value for key, value in layers.items() if value is not None}, "architectures": None}
    if config.get("vision_config"):
        notes.append("language part only: weights for images and sound are not counted")
    return dict(config)


def _family(text: Mapping[str, Any], where: str) -> tuple[str, Family]:
    model_type = text.get("model_type")
    if not isinstance(model_type, str):
        raise SchemaError(f"{where}: model_type: missing, so this is no config.json of a model")
    if model_type not in FAMILIES:
        shown = model_type[:40]
        raise SchemaError(
            f"{where}: model_type {shown!r} is not known; if its layers are those of a known type (llama, qwen3_moe, "
            f"deepseek_v3, ...), give a copy of the file with that model_type"
        )
    return model_type, FAMILIES[model_type]


def _max_context(fields: ConfigFields, family: Family) -> int | None:
    most = fields.max_position_embeddings
    scaling = fields.rope_scaling or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    factor, original = scaling.get("factor"), scaling.get("original_max_position_embeddings")
    if most is None or family.scaled_context or kind != "yarn":
        return most
    if isinstance(factor, int | float) and isinstance(original, int) and 1 <= factor <= 1024:
        return max(most, int(factor * original))
    return most
