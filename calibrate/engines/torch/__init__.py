"""The torch engine: continuous batching in a process of its own."""
