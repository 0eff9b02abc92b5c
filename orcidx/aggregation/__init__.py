"""Totals of columns: parsing of aggregates, exact sums, and totals by group. It handles Arrow arrays, not files."""
