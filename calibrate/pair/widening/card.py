"""The README of a wide pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calibrate.pair.widening.sizes import Placement

__all__ = ["card"]

_TEXT: Final = """# The bundled pair, widened

specplan made these models from its bundled pair: they write the same texts and cost what their shapes cost.

| model | shape | layers | hidden | intermediate | heads | of | vocabulary | weights |
|---|---|---|---|---|---|---|---|---|
{rows}

The weights are in {dtype}, random ones of the seed {seed}. Each bundled model fills the first rows and columns; the
rest is random, except for what a layer adds to the residual stream, which is zero there. Ids from {vocab} on pad the
vocabulary: their logits are below -150, so that they are never drawn.

## Use

```
specplan calibrate torch --target FOLDER/target --draft FOLDER/draft --judge FOLDER/judge --eagle FOLDER/eagle \\
    --device cuda:0 --dtype {dtype} -o wide.json
vllm serve FOLDER/target --dtype {dtype}
python -m sglang.launch_server --model-path FOLDER/target --dtype {dtype}
```

Without `--prompts`, specplan asks the questions of the bundled task, as it recognises the tokenizer; of servers it asks
them with `specplan calibrate openai --prompts bundled`.

## What differs

- float32: nothing but rounding. Logits differ from the bundled model's by about 1e-4 at most.
- float16 and bfloat16: the bundled models round there too, and logits of both are equally far from those of float32,
  0.005 on average in float16 and 0.035 in bfloat16. They round differently, since products sum in another order, and
  norms have factors that are not powers of two. Where two tokens are almost equally likely, texts may part: of 122
  places, none did in float16 and 3 in bfloat16 (8B shape, on one GPU).
- Matrices that write to the residual stream are mostly zeros. A product takes as long with zeros, but a GPU draws less
  power on them, and may keep higher clocks than with trained weights.
- Acceptance is that of the bundled models, whatever the shapes.
- Texts are those of the bundled models up to 2,048 tokens. Engines go on to {context:,}, at the right cost.
- Epsilon of the norms of queries and keys is smaller than the bundled models', by less than the rounding of float32.
"""


def card(placements: Sequence[Placement], dtype: str, seed: int, context: int) -> str:
    """Return the README of a wide pair.

    Parameters
    ----------
    placements : of the target and the other models.
    dtype, seed : data type, and seed of the random weights.
    context : tokens at which engines end a sequence.
    """
    rows = "\n".join(map(_row, placements))
    return _TEXT.format(rows=rows, dtype=dtype, seed=seed, context=context, vocab=placements[0].small.vocab)


def _row(place: Placement) -> str:
    wide = place.wide
    layers = f"{wide.layers} (bundled: {place.small.layers})"
    heads = f"{wide.heads}, {wide.kv_heads} for keys and values"
    weights = f"{wide.parameters / 1e9:.2f} billion"
    cells = (place.role, wide.name, layers, wide.hidden, wide.intermediate, heads, wide.head_dim, wide.vocab, weights)
    return f"| {' | '.join(map(str, cells))} |"
