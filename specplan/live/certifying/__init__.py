"""Whether a server that speculates draws from the target's distribution: bets on defects, from log-probabilities."""
