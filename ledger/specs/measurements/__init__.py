"""SPECS, sections 4 and D: sentences and settings against the paper's own tables."""
