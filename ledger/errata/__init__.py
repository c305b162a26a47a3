"""Letters to the authors of the papers: what survives, what does not hold and what does instead; Markdown and LaTeX."""
