"""vLLM as an engine of this process."""
