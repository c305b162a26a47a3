"""What engines decide round by round: how many tokens are drafted, and which of them are verified."""
