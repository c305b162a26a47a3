"""Commands for servers at work."""
