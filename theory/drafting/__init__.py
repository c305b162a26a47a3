"""Which drafts a pass verifies: trees by rank, and passes that run beside the drafter on servers of their own."""
