"""Totals of columns: the request, exact sums, and totals by group. It handles Arrow arrays, not files."""
