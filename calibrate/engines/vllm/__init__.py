"""vLLM's engine, started by this process."""
