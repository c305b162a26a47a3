"""Simulator inputs made from a profile: answers and engines."""
