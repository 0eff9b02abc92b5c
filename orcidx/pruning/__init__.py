"""Finds which rows may match: selections of rows, and predicates evaluated over evidence."""
