"""ORC, written: encoders, columns, row index and statistics, stripes, the file."""
