"""Which drafts a pass verifies: trees by rank, and passes on servers of their own while the drafter goes on."""
