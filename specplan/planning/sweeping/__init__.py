"""Sweeps: many points of knobs, parameters and loads, simulated on one machine or a cluster."""
