"""Published profiles, as data."""
