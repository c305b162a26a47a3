"""Results as a reader sees them: first screens of 80 columns, and all of it."""
