"""Where the closed forms hold, and by how much they miss where they do not."""
