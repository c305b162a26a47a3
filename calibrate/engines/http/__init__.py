"""A model on any OpenAI-compatible server, as observed by a client."""
