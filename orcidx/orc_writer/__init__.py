"""Writes ORC: encoders, columns, row index and statistics, stripes, the file."""
