"""Shapes of models that tests of passes share: a dense one, and what mixtures and latent attention are made of."""

from theory.hardware.shapes import Attention, Dense, Experts, LatentAttention, Layers, Shape

HEADS = Attention(heads=32, kv_heads=8, head_dim=128)
LATENT = LatentAttention(heads=128, cache_rank=512, rope_dim=64, nope_dim=128, value_dim=128, query_rank=1536)
MIXTURE = Experts(count=128, per_token=8, intermediate=768)
QWEN3_8B = Layers(count=36, attention=HEADS, feed_forward=Dense(intermediate=12288))
LLAMA_8B = Layers(count=32, attention=HEADS, feed_forward=Dense(intermediate=14336))


def shape_of_layers(*layers: Layers, hidden: int = 4096, vocab: int = 151936) -> Shape:
    return Shape(hidden=hidden, vocab=vocab, layers=layers)
