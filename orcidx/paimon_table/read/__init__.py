"""Reads a table: selects the files that a scan needs, and gives their rows in the table's schema."""
