"""Runs of algorithms on real engines: the wall clock, verifiers and scorers."""
