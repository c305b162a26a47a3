"""Methods of token-level speculation inside the torch engine."""
