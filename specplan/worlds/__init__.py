"""Planning before deployment: from names of models and GPUs, and under load."""
