"""Predictions against measurements: validations, tables of the papers, public rows."""
