"""Closed forms of Lookahead Decoding (Fu et al. 2024)."""
