"""Sets of models by role: their prompts and settings, and the engines that run them."""
