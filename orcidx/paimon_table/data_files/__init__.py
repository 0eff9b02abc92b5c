"""Writes data files of a table. Rows are converted to the table's schema and encoded, with statistics."""
