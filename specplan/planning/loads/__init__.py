"""Plans under load: the best configuration at each load, and the load from which on plain decoding is best."""
