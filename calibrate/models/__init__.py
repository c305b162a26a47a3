"""Sets of models in their roles: what is asked, and where it runs."""
