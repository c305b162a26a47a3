"""Results of analyses, with text, JSON, rows and HTML for notebooks."""
