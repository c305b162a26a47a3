"""``specplan pair widen``: the bundled models at the cost of published shapes."""

from __future__ import annotations

from pathlib import Path

import click

from specplan.output import progress
from specplan.ranges import SEED, InputName, WholeNumber

__all__ = ["command"]

LAYERS = WholeNumber(1, 1000)


@click.group(name="pair")
def command() -> None:
    """Work on the bundled pair of models."""


@command.command(name="widen")
@click.option(
    "--shape",
    "target",
    type=InputName(),
    required=True,
    help="Shape of the target: a known model such as qwen3-8b, or a config.json.",
)
@click.option("--draft-shape", "draft", type=InputName(), default="qwen3-0.6b", help="Shape of the draft.")
@click.option("--judge-shape", "judge", type=InputName(), default="qwen3-1.7b", help="Shape of the judge.")
@click.option("--layers", "target_layers", type=LAYERS, help="Layers of the target, 32 or more. Default: the shape's.")
@click.option("--draft-layers", type=LAYERS, help="Layers of the draft, 3 or more. Default: the shape's.")
@click.option("--judge-layers", type=LAYERS, help="Layers of the judge, 8 or more. Default: the shape's.")
@click.option("--dtype", default="bfloat16", help="bfloat16, float16 or float32.")
@click.option("--seed", type=SEED, default=0, help="Seed of the random weights.")
@click.option(
    "--context",
    type=WholeNumber(2048, 10_000_000),
    default=2048,
    help="Longest sequence, tokens; beyond 2048 the text has no meaning but costs what it should.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder to make.")
@click.option("--force", is_flag=True, help="Replace the folder if there is one.")
def widen(
    target: str,
    draft: str,
    judge: str,
    target_layers: int | None,
    draft_layers: int | None,
    judge_layers: int | None,
    dtype: str,
    seed: int,
    context: int,
    output: Path,
    force: bool,
) -> None:
    """Make models of published shapes that write the texts of the bundled pair.

    They cost what models of these shapes cost and need no download: every method runs for real at that cost, with the
    bundled pair's acceptance. OUTPUT gets the folders target, draft, judge and eagle, which torch engines, vLLM and
    SGLang load, and a README. Needs the extra `torch`.
    """
    from calibrate.pair.widening.pair import wide_pair, widen_pair
    from calibrate.pair.widening.sizes import sizes_of_shape
    from specplan.worlds.model_files import shape_of

    sizes = {}
    given = {"target": (target, target_layers), "draft": (draft, draft_layers), "judge": (judge, judge_layers)}
    for role, (shape, layers) in given.items():
        option, facts = "shape" if role == "target" else f"{role}-shape", shape_of(shape)
        sizes[role] = sizes_of_shape(option, facts.name, facts.shape, layers)
    models = wide_pair(sizes)
    with progress("writing models", sum(model.n_files for model in models)) as written:
        widen_pair(models, output, dtype=dtype, seed=seed, context=context, force=force, written=written)
    click.echo(f"{output}: {', '.join(model.role for model in models)}, {dtype}; README.md says how to use them")
