"""Makes ORC files from files: copies and recompresses stripes, adds indexes, and sorts, clusters and encodes rows."""
