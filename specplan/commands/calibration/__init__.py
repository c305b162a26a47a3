"""What the commands that measure share, and `specplan calibrate vllm`."""
