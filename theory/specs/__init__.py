"""Closed forms of SPECS, and of the beam searches that it is compared with."""
