"""Lookahead Reasoning under load without SimPy: its engines' events as a loop over arrays, for numba to compile."""
