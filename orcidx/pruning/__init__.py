"""Finds which rows may match. This package has selections of rows, and evaluates predicates with evidence."""
