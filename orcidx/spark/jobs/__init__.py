"""Jobs over the files of a directory or a table: they build indexes, rewrite files, change tables and clean up."""
