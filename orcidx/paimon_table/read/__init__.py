"""Reads a table: selects the files that a scan needs, and converts their rows to the table's schema."""
