"""What the models would say: answers that are drawn, or replayed from recordings."""
