"""What analyses return: results with a text, JSON, rows, and a page of a notebook."""
