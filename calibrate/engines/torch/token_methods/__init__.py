"""Token-level speculation inside the torch engine: a file per method."""
