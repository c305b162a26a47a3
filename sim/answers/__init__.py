"""Answers of the simulated models: drawn from distributions, or replayed from recordings."""
