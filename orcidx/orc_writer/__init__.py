"""Writes ORC files. The package has encoders, and it writes columns, row indexes, statistics, stripes and the file."""
