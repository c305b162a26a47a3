"""Reports: what a command found as one self-contained HTML file, or as Markdown."""
