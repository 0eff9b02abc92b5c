"""Totals of columns: the request, exact sums, and totals by group. It works on Arrow arrays, not on files."""
