"""What a forward pass costs on a GPU: shapes of models, formats of their numbers, constants of GPUs and engines."""
