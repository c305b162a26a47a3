"""Errors of the closed forms against the simulator, with and without their assumptions."""
