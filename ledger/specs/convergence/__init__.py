"""SPECS, Appendices B.1, B.2 and C: how fast selection among n candidates of one block comes to the optimum."""
