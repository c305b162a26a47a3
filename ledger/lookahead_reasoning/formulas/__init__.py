"""Lookahead Reasoning: its claims as formulas, by the module that proves them."""
