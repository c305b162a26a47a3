"""Errata of the papers, fit to send to their authors: grouped by root cause, in Markdown and LaTeX."""
