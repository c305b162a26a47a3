"""Simulation in virtual time: algorithms, the clock, engines, models of answers, and timelines."""
