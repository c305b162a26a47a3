"""What the commands that measure share, and those of their parts that would crowd the folder above."""
