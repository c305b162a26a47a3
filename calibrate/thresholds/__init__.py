"""Thresholds with guarantees, from labelled decisions."""
