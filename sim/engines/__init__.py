"""Engines in virtual time, and cost models of their passes."""
