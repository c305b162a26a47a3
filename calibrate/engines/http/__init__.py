"""A model on any OpenAI-compatible server, seen from outside."""
