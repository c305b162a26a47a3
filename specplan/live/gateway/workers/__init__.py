"""Several processes that answer, and one that decides for them."""
