"""The search for a point at which a statement fails."""
