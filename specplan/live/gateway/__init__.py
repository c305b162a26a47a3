"""The gateway: an OpenAI-compatible server that runs a plan's method by the generator that was simulated."""
