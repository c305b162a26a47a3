"""From a profile to a plan: predictions, their errors, the ranking, and what to do with it."""
