"""Jobs over the files of a directory or a table: building indexes, rewriting, changing, keeping in order."""
