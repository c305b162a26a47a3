"""Scripts that make the data in the repository: training of the bundled pair, fits, published tables. Not installed."""
