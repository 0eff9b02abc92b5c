"""Totals of columns: what is asked, exact sums, and totals by group. Knows Arrow arrays, not files."""
