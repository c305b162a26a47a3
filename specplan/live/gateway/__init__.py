"""The gateway: an OpenAI-compatible server that runs a plan's method with the simulator's generator."""
