"""Files that benchmarks of servers write: vLLM, guidellm, AIPerf."""
