"""Plans under load: which configuration is best for how many answers at once, and from which load on it is none."""
