"""Makes ORC files from other files. It copies and recompresses stripes, adds indexes, and sorts, clusters and encodes
rows."""
