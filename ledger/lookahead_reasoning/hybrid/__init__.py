"""Lookahead Reasoning, Appendix B.1.2: a budget shared by both levels, Theorems 3 and 4 with their lemmas."""
