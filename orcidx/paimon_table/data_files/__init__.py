"""Writes data files of a table: rows are converted to its schema and encoded, with statistics."""
