"""Servers by load: closed loops of whole answers, and what their passes took."""
