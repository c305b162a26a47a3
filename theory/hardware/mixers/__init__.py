"""Layers that mix tokens otherwise than by attention to all cached keys and values."""
