"""Running algorithms for real: the wall clock, and who decides about steps."""
