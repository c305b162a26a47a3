"""Measured latencies of language models of real shapes on a GPU: see README.md in this folder."""
