"""Results as text: first screens of 80 columns, and full texts."""
