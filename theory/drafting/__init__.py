"""Which drafts a pass verifies: trees ordered by rank, and passes that run beside the drafter on servers of their own."""
