"""Results of commands as text, self-contained HTML and Markdown."""
