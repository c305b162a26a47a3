"""How long it takes: engines in virtual time, and what their passes cost."""
