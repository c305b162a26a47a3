"""What an engine takes for its work: from timings to a cost model."""
