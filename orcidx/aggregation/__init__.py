"""Totals of columns: parsing of aggregates, exact sums, and totals by group. The package handles Arrow arrays, not
files."""
