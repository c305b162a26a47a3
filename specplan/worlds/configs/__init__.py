"""Reading a model's ``config.json``: which layers it describes, and in which formats its weights are published."""
