"""Profiles: what is kept of a measurement, and where it is kept."""
