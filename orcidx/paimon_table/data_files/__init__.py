"""Data files of a table, written: rows conformed to its schema, encoded, with their statistics."""
