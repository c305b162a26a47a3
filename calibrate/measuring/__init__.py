"""Measuring a set of models: timings, answers, and when enough is known."""
