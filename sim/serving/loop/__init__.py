"""Plain decoding under load without events: a loop over arrays, equal to `sim.serving.engine`."""
