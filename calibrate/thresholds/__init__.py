"""Thresholds of verifiers with guaranteed error rates, from labelled decisions."""
