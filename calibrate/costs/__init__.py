"""Cost models of engines, fitted to their timings."""
