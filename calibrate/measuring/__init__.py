"""Measurement of a set of models: timings, answers, and the rule that stops it."""
