"""Acceptance figures as other tools write them, read and written with their convention named and converted."""
