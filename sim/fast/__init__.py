"""The fast engine: what the simulator on the virtual clock says of many answers, by recursion on arrays."""
