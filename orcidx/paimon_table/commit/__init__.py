"""Changes a table. Every change reads the table's state, writes the files of the next snapshot and creates the
snapshot."""
