"""What drafts tokens for a target: which drafters exist, whether they fit, how they are called, what they accept."""
