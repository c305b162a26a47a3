"""Validation: predictions against measurements on real engines."""
