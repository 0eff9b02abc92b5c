"""Changes a table: reads the table's state, writes the next snapshot and commits it, for each kind of change."""
