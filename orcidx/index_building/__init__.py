"""What to index, and the index of one file."""
