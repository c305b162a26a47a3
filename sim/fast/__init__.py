"""The fast engine: the results of the virtual clock for many answers at once, by recursion on arrays."""
