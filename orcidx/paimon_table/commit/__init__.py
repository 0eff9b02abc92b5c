"""Changes of a table: the table's state, the next snapshot, the commit, and each kind of change."""
